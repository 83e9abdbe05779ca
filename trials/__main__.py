"""`python -m trials`: real harnesses through the scenes, with and without Holdfast; 1 if Holdfast fails.

Without `--output` the findings are only printed. With it they go into the JSON beside the page, cell by cell, and the
page and the README's table are made from all cells that are known.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import excerpt, machine
from rigs import harnesses as rigs
from tests.support.processes import become_subreaper

from . import page
from .finding import Finding
from .harnesses import HARNESSES
from .scenes import SCENES
from .session import Session

if TYPE_CHECKING:
    from .harnesses.harness import Harness
    from .scenes import Scene

WAYS = {"alone": False, "holdfast": True}


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen cells one after the other: they share two cores and a process table."""
    options = _parser().parse_args(arguments)
    if options.page_only:
        _publish(page.load(Path(options.output)), Path(options.output))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a signal that stops the trials still cleans up
    become_subreaper()
    failures = 0
    for harness in HARNESSES:
        if options.harness and harness.key not in options.harness:
            continue
        missing = _install(harness)
        for scene in SCENES:
            if options.scene and scene.name not in options.scene:
                continue
            for way in options.way or WAYS:
                found = missing or Session(harness, scene, holdfast=WAYS[way]).run()
                print(f"{harness.name:12} {scene.name:13} {way:9} {_line(found)}", flush=True)
                failures += WAYS[way] and _fails(found)
                if options.output:
                    _record(harness, scene, way, found, Path(options.output))
    return 1 if failures else 0


def _fails(found: Finding) -> bool:
    """Whether a session with Holdfast left a process, lost output, or could not be measured."""
    return found.failure is not None or found.left > 0 or found.lost_bytes > 0


def _install(harness: Harness) -> Finding | None:
    try:
        rigs.install(harness.rig)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(failure=f"npm cannot install {harness.rig.package}: {error}")
    return None


def _record(harness: Harness, scene: Scene, way: str, found: Finding, path: Path) -> None:
    """Put one cell into the results, with the machine that it is from, and make the page again."""
    known = page.load(path)
    known["machine"] = machine.describe()
    known["versions"][harness.key] = harness.rig.version
    cell = {"at": known["machine"]["at"], "load": machine.load(), **dataclasses.asdict(found)}
    known["cells"].setdefault(scene.name, {}).setdefault(harness.key, {})[way] = cell
    page.save(known, path)
    _publish(known, path)


def _publish(known: dict[str, Any], path: Path) -> None:
    path.write_text(page.render(known), encoding="utf-8")
    if path.resolve() == page.PAGE:
        excerpt.put("trials", page.excerpt(known))


def _line(found: Finding) -> str:
    if found.failure:
        return f"not measured: {found.failure}"
    hung = "" if found.hung_s is None else f", hung {found.hung_s} s"
    over = ", ended by the trial" if found.ended_by_trial else ""
    return f"{found.left} left{hung}{over}, {found.lost_bytes} of {found.printed_bytes} bytes lost"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trials", description=__doc__)
    keys, names = [harness.key for harness in HARNESSES], [scene.name for scene in SCENES]
    parser.add_argument("--harness", action="append", choices=keys, help="only this one; repeatable")
    parser.add_argument("--scene", action="append", choices=names, help="only this one; repeatable")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this one; repeatable")
    parser.add_argument("--output", metavar="PAGE", help="write the page (docs/trials.md), and JSON beside it")
    parser.add_argument("--page-only", action="store_true", help="make the page again from the JSON beside it")
    return parser


if __name__ == "__main__":
    os.environ.pop("HOLDFAST_RUN_ID", None)  # our sessions are no children of the run that we may be in
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
