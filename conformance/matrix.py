"""`python -m conformance.matrix`: the Holdfast columns of the pack in every setting that runs can have; 1 if one fails.

A setting is a user (root, or `nobody`), a containment (a cgroup, or none), and a guard (the built one, or the one with
ASan and UBSan). Each is one run of the pack, in a process of its own. The settings of `nobody` go through
`.ci/unprivileged`, which lends that user a copy of everything it cannot reach. The program itself has to be root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.guard.containment import FORCE_VARIABLE

from .peers import PEERS
from .places import ROOT
from .rows import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65534
_BASES = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_DELEGATED = ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
SANITIZED = ROOT / "build" / "guard-sanitized"
_SHOWN = {"held": "✓", "failed": "F", "broken": "?", "not applicable": "·"}
WAYS = [peer.name for peer in PEERS if peer.ours]
Cells = dict[str, dict[str, dict[str, Any]]]  # by row, by way


class Setting(NamedTuple):
    """One run of the pack."""

    name: str
    is_root: bool
    has_cgroup: bool
    guard: Path | None = None


SETTINGS = (
    Setting("root, cgroup", True, True),
    Setting("root, none", True, False),
    Setting("user, cgroup", False, True),
    Setting("user, none", False, False),
    Setting("sanitized", True, True, SANITIZED),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the settings that the arguments name, and print rows by settings."""
    options = _parser().parse_args(arguments)
    if os.geteuid() != 0:
        print("matrix: only root can run the settings of root and of another user", file=sys.stderr)
        return 2
    found: dict[str, Cells] = {}
    bad = []
    for setting in SETTINGS:
        if not options.setting or setting.name in options.setting:
            print(f"matrix: {setting.name}", file=sys.stderr, flush=True)
            found[setting.name], containment = _run(setting, options.row)
            if contained_wrongly(setting, containment):
                bad.append(f"matrix: {setting.name}: the containment of this run was: {containment}")
            bad += _sanitizer_reports() if setting.guard else []
    print(table(found))
    bad += failures(found)
    print(*bad, sep="\n", end="\n" if bad else "", file=sys.stderr)
    return 1 if bad else 0


def table(found: dict[str, Cells]) -> str:
    """Rows by settings; a sign for each way: held, failed, not applicable, or not judged."""
    rows = [row.name for row in ROWS if any(row.name in cells for cells in found.values())]
    width = max(map(len, rows), default=0) + 2
    lines = [" " * width + "".join(f"{name:14}" for name in found)]
    for row in rows:
        signs = ["".join(_SHOWN[cells[row][way]["verdict"]] for way in WAYS) for cells in found.values()]
        lines.append(f"{row:{width}}" + "".join(f"{sign:14}" for sign in signs))
    lines.append("✓ held, F failed, · not applicable, ? not judged; in each cell: " + ", ".join(WAYS))
    counts = [f"{name}: {_held(cells)}" for name, cells in found.items()]
    return "\n".join([*lines, f"{len(rows)} rows; held: {'; '.join(counts)}"])


def failures(found: dict[str, Cells]) -> list[str]:
    """A line for each cell that did not hold, and for each that was not judged."""
    return [
        f"matrix: {name}: {row}, {way}: {cell['verdict']}, {cell.get('findings') or cell.get('reason')}"
        for name, cells in found.items()
        for row, ways in cells.items()
        for way, cell in ways.items()
        if cell["verdict"] not in ("held", "not applicable")
    ]


def contained_wrongly(setting: Setting, containment: str) -> bool:
    """Whether the runs had another containment than the setting asks for."""
    return setting.has_cgroup is not ("cgroup" in containment)


def _held(cells: Cells) -> str:
    verdicts = [cell["verdict"] for ways in cells.values() for cell in ways.values()]
    return f"{verdicts.count('held')} of {len(verdicts) - verdicts.count('not applicable')}"


def _run(setting: Setting, rows: list[str]) -> tuple[Cells, str]:
    """The cells of one setting, and the containment of its runs."""
    with tempfile.TemporaryDirectory(prefix="holdfast-matrix-") as directory, _delegated(setting) as group:
        words = [word for row in rows for word in ("--row", row)]
        words += [word for way in WAYS for word in ("--peer", way)]
        words = ["-m", "conformance", *words, "--no-install", "--output", directory]
        if not setting.is_root:
            os.chown(directory, _NOBODY, _NOBODY)
        python = os.path.relpath(sys.executable, ROOT)
        command = [sys.executable, *words] if setting.is_root else [str(ROOT / ".ci" / "unprivileged"), python, *words]
        subprocess.run(
            command, cwd=ROOT, env=_environment(setting, directory), stdout=subprocess.DEVNULL, check=False,
            preexec_fn=None if group is None else lambda: _enter(group),
        )  # fmt: skip
        measured = json.loads(Path(directory, "conformance.json").read_text())
    return measured["cells"], measured["machine"]["containment"]


def _environment(setting: Setting, directory: str) -> dict[str, str]:
    changed = {} if setting.has_cgroup else {FORCE_VARIABLE: "subreaper"}
    changed |= {} if setting.guard is None else {"HOLDFAST_GUARD": str(setting.guard)}
    changed |= {} if setting.is_root else {"CONFORMANCE_BUILT": os.path.join(directory, "built")}
    return {**os.environ, **changed}


@contextlib.contextmanager
def _delegated(setting: Setting) -> Iterator[Path | None]:
    """A cgroup that belongs to `nobody`, as a service manager would delegate one; None where it is not asked for."""
    if setting.is_root or not setting.has_cgroup:
        yield None
        return
    base = next(base for base in _BASES if (base / "cgroup.controllers").exists())
    group = base / f"holdfast-matrix-{os.getpid()}"
    group.mkdir()
    try:
        for name in _DELEGATED:
            os.chown(group / name, _NOBODY, _NOBODY)
        yield group
    finally:
        group.rmdir()


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text("0")


def _sanitizer_reports() -> list[str]:
    found = sorted(SANITIZED.parent.glob("sanitizer-report.*"))
    return [f"matrix: the sanitizers found something: {path}" for path in found]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m conformance.matrix", description=__doc__)
    names = [setting.name for setting in SETTINGS]
    parser.add_argument("--row", action="append", default=[], choices=[row.name for row in ROWS], metavar="NAME")
    parser.add_argument("--setting", action="append", default=[], choices=names, help="only this one; repeatable")
    return parser


if __name__ == "__main__":
    sys.exit(main())
