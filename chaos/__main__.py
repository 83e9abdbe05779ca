"""`python -m chaos --runs N --seed S`: 0 if everything held, 1 with the evidence if something did not."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import machine
from tests.support.cgroups import OWN_GROUPS
from tests.support.children import Children
from tests.support.processes import become_subreaper, kill_children

from holdfast.guard import containment
from holdfast.guard.leftovers import remove_leaf
from holdfast.state.directory import StateDirectory

from . import catalogue, page
from .inspection import Violation
from .plan import Planner
from .round import Round
from .tally import Tally, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROUND = 250  # children end themselves after two minutes: a leak has to be counted before that
_SHOWN = 20


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign in each containment that the arguments name; without a name, in each that there is here."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a signal that stops the campaign still cleans up
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # sweeps find lost guards all the time here
    become_subreaper()
    here = ["cgroup", "subreaper"] if containment.probe().cgroup_base else ["subreaper"]
    if missing := set(options.containment) - set(here):
        print(f"chaos: {', '.join(missing)}: {containment.probe().why_not}", file=sys.stderr)
        return 2
    return max(_contained(kind, options) for kind in options.containment or here)


def _contained(kind: str, options: argparse.Namespace) -> int:
    """Run the campaign in one containment."""
    with _containment(kind):
        OWN_GROUPS.enter()
        directory = Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
        try:
            results, violations = campaign(options, directory)
            print(table(results), flush=True)
        finally:
            kill_children(set())
            for leaf in OWN_GROUPS.find_runs():
                remove_leaf(leaf)  # the failure is a violation, and on record
            OWN_GROUPS.leave()
    for violation in violations[:_SHOWN]:
        print(f"\nVIOLATION {violation.run_id}: {violation.what}\n    {violation.evidence}")
    if options.output:
        page.write(results, Path(options.output))
    if violations:
        print(f"\nchaos: {len(violations)} violations; the state directory is kept: {directory}/state", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    return 0


@contextlib.contextmanager
def _containment(kind: str) -> Iterator[None]:
    """Give our runs this containment, and those of our children, too."""
    if kind == "subreaper":
        os.environ[containment.FORCE_VARIABLE] = kind
    containment.forget()
    try:
        yield
    finally:
        os.environ.pop(containment.FORCE_VARIABLE, None)
        containment.forget()


def campaign(options: argparse.Namespace, directory: Path) -> tuple[dict[str, Any], list[Violation]]:
    """Run round after round; stop at the first violation, unless told to go on."""
    with_cgroup = containment.probe().cgroup_base is not None
    kind = "cgroup" if with_cgroup else "subreaper"
    about = machine.describe()
    state = StateDirectory.open(str(directory / "state"))
    planner = Planner(options.seed, Children(directory), directory, state.path, with_cgroup=with_cgroup)
    tally, violations, begun = Tally(), list[Violation](), time.monotonic()
    for first in range(0, options.runs, _ROUND):
        one = Round(state, planner, tally, bound_s=options.bound)
        one.run(range(first, min(first + _ROUND, options.runs)))
        violations += [violation for violation in one.violations if violation not in violations]
        took_s = time.monotonic() - begun
        print(
            f"chaos: {kind}, {tally.runs} runs, {len(violations)} violations, {took_s:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if violations and not options.keep_going:
            break
    seconds = time.monotonic() - begun
    indexed, wrong = catalogue.compare(state, tally.made)
    violations += wrong
    results = {
        "machine": about,
        "seed": options.seed,
        "containment": kind,
        **tally.as_dict(),
        "indexed": indexed,
        "seconds": round(seconds, 1),
        "runs_per_second": round(tally.runs / seconds, 1),
        "load_after": machine.load(),
        "violations": len(violations),
    }
    return results, violations


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how many runs in each containment (default 200)")
    parser.add_argument(
        "--containment", action="append", default=[], choices=("cgroup", "subreaper"), help="only this one; repeatable"
    )
    parser.add_argument("--seed", type=int, default=1, help="what is drawn from (default 1)")
    parser.add_argument("--bound", type=float, default=45.0, help="seconds until a round must rest (default 45)")
    parser.add_argument("--keep-going", action="store_true", help="go on after a violation, and show all")
    parser.add_argument(
        "--output", metavar="PAGE", help="write the figures to this page (docs/reliability.md), and as JSON beside it"
    )
    return parser


if __name__ == "__main__":
    os.environ.pop("HOLDFAST_RUN_ID", None)  # our runs are no children of the run that we may be in
    sys.exit(main())
