"""`python -m bench`: measure, write the results as JSON, and make the page and its charts from them."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from . import campaign, excerpt, machine, native, page, plan
from .progress import Progress

_ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks that the arguments name; 1 if Holdfast could not be measured in one of them."""
    options = _parser().parse_args(arguments)
    if options.publish:
        return _publish(Path(options.publish), Path(options.output) if options.output else _ROOT / "docs")
    scale = plan.QUICK if options.quick else plan.STANDARD
    figures = [figure for figure in plan.figures(scale) if _is_wanted(figure, options.only)]
    if not figures:
        names = ", ".join(figure.name for figure in plan.figures(scale))
        print(f"bench: there is no figure {', '.join(options.only)}; there are: {names}", file=sys.stderr)
        return 2
    # Results of a part, or of a shorter run, do not belong in the documentation.
    default = _ROOT / "docs" if scale is not plan.QUICK and not options.only else _ROOT / "build" / "bench"
    directory = Path(options.output) if options.output else default
    directory.mkdir(parents=True, exist_ok=True)
    results = directory / "benchmarks.json"
    if not options.page_only:
        results.write_text(json.dumps(_measure(scale, figures), indent=1) + "\n", encoding="utf-8")
    measured = json.loads(results.read_text(encoding="utf-8"))
    if options.only:
        print(page.targets_table(measured["figures"]))
    print(page.write(measured, directory))
    if directory.resolve() == _ROOT / "docs":
        excerpt.put("bench", page.excerpt(measured))
    return (
        1 if any(peer.startswith("holdfast") for one in measured["figures"].values() for peer in one["errors"]) else 0
    )


def _publish(part: Path, directory: Path) -> int:
    """Put the results of a part into the published ones, each with the machine as it was, and write the page again."""
    measured, added = (json.loads((each / "benchmarks.json").read_text(encoding="utf-8")) for each in (directory, part))
    if added["scale"] != measured["scale"]:
        print(f"bench: results of scale {added['scale']} do not belong to the published ones", file=sys.stderr)
        return 2
    figures = measured["figures"]
    figures.update({name: result | {"machine": added["machine"]} for name, result in added["figures"].items()})
    order = [figure.name for figure in plan.figures(plan.STANDARD)]
    measured["figures"] = dict(sorted(figures.items(), key=lambda item: order.index(item[0])))
    (directory / "benchmarks.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(page.write(measured, directory))
    return 0


def _measure(scale: plan.Scale, figures: list[plan.Figure]) -> dict[str, object]:
    described = machine.describe()
    began = time.monotonic()
    progress = Progress(campaign.steps(figures))
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        programs = native.build(Path(scratch), with_shim=any(_uses_shim(figure) for figure in figures))
        measured = campaign.carry_out(figures, programs, Path(scratch), progress)
    progress.finish()
    described["load_after"] = machine.load()
    described["load_most"] = round(progress.most_load, 2)
    return {"scale": scale.name, "machine": described, "took_s": time.monotonic() - began, "figures": measured}


def _uses_shim(figure: plan.Figure) -> bool:
    return any(peer.function == "shim" for peer in figure.peers)


def _is_wanted(figure: plan.Figure, only: list[str]) -> bool:
    names = [name for word in only for name in plan.GROUPS.get(word, (word,))]
    return not only or figure.name in names or figure.section in names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="a few seconds: shows that everything can be measured")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a figure, a section or `cost`; repeatable"
    )
    parser.add_argument("--output", metavar="DIRECTORY", help="default: docs, or build/bench for a part of the whole")
    parser.add_argument("--page-only", action="store_true", help="write the page again from the results that are there")
    parser.add_argument(
        "--publish", metavar="DIRECTORY", help="measure nothing: put the results of a part into the published ones"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
