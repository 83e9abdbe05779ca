"""`python -m conformance`: every adversarial child with every way to run a process; JSON, and the page made from it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench import excerpt, machine
from bench.progress import Progress

from . import campaign, compare, install, page
from .peers import PEERS
from .places import BUILT, ROOT
from .rows import NUMBERS_ELSEWHERE, ROWS


def main(arguments: list[str] | None = None) -> int:
    """Run the cells that the arguments name; 1 if a row did not hold for Holdfast, or if runs do not agree."""
    options = _parser().parse_args(arguments)
    if options.compare:
        differing = compare.differing([json.loads(Path(path).read_text()) for path in options.compare])
        print(compare.in_words(differing, len(options.compare)))
        return 1 if differing else 0
    rows = [row for row in ROWS if not options.row or row.name in options.row]
    peers = [peer for peer in PEERS if not options.peer or peer.name in options.peer]
    if not rows or not peers:
        print(f"conformance: there are the rows {', '.join(row.name for row in ROWS)}", file=sys.stderr)
        print(f"conformance: and the peers {', '.join(peer.name for peer in PEERS)}", file=sys.stderr)
        return 2
    whole = not options.row and not options.peer
    directory = Path(options.output) if options.output else ROOT / "docs" if whole else BUILT
    directory.mkdir(parents=True, exist_ok=True)
    results = directory / "conformance.json"
    if not options.page_only:
        if not options.no_install:
            for line in install.install():
                print(f"conformance: could not be installed: {line}", file=sys.stderr)
        install.build_go()
        install.compile_children(rows)
        results.write_text(json.dumps(_measure(rows, peers), indent=1) + "\n", encoding="utf-8")
    measured = json.loads(results.read_text(encoding="utf-8"))
    print(page.write(measured, directory))
    if directory.resolve() == ROOT / "docs":
        excerpt.put("conformance", page.excerpt(measured))
    return _verdict(measured)


def _measure(rows: list[Any], peers: list[Any]) -> dict[str, Any]:
    described = machine.describe()
    began = time.monotonic()
    progress = Progress(campaign.count(rows, peers), "conformance", "cells")
    cells = campaign.carry_out(rows, peers, progress)
    progress.finish()
    described["load_after"] = machine.load()
    described["load_most"] = round(progress.most_load, 2)
    return {
        "machine": described,
        "took_s": time.monotonic() - began,
        "peers": [
            {"name": peer.name, "group": peer.group, "best": peer.best, "ours": peer.ours, "version": found}
            for peer, found in zip(peers, campaign.versions(peers).values(), strict=True)
        ],
        "rows": [{"name": row.name, "number": row.number, "child": row.child, "holds": row.holds} for row in rows],
        "cells": cells,
        "elsewhere": {str(number): why for number, why in NUMBERS_ELSEWHERE.items()},
    }


def _verdict(measured: dict[str, Any]) -> int:
    """1, and a line for each failure, if a row did not hold for Holdfast or the pack itself failed."""
    ours = {peer["name"] for peer in measured["peers"] if peer["ours"]}
    bad = [
        f"conformance: {row}, {peer}: {cell['verdict']}, {cell.get('findings') or cell.get('reason')}"
        for row, found in measured["cells"].items()
        for peer, cell in found.items()
        if cell["verdict"] == "broken" or (peer in ours and cell["verdict"] == "failed")
    ]
    print(*bad, sep="\n", end="\n" if bad else "", file=sys.stderr)
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("--row", action="append", default=[], metavar="NAME", help="only this row; repeatable")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME", help="only this peer; repeatable")
    parser.add_argument("--no-install", action="store_true", help="what is not there is absent")
    parser.add_argument("--output", metavar="DIRECTORY", help="default: docs, or build/conformance for a part")
    parser.add_argument("--page-only", action="store_true", help="write the page again from the results that are there")
    parser.add_argument("--compare", nargs="+", metavar="JSON", help="show where the results of several runs differ")
    return parser


if __name__ == "__main__":
    sys.exit(main())
