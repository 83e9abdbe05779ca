"""Print the results of `cancel` and `reap`: whether the processes of each run are confirmed gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...projections.exit_code import OWN_FAILURE
from ...wording.plain import plain
from ..parsing.command import put, show_json
from . import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...state.parallel_stop import StopResult

NOT_CONFIRMED = 1


def show_stop_results(
    results: Sequence[StopResult], problems: Sequence[str] = (), *, as_json: bool, complete: bool = True
) -> int:
    """Print one line for each run; return 0 when every tree is confirmed gone, 1 when not, 125 when we failed."""
    if as_json:
        show_json([as_dict(result) for result in results])
    else:
        put("".join(f"{plain(line(result))}\n" for result in results))
    for problem in problems:
        messages.say(problem)
    if problems or not complete:
        return OWN_FAILURE
    return 0 if all(result.how == "confirmed" for result in results) else NOT_CONFIRMED


def line(result: StopResult) -> str:
    """One run as a line: what is known of its processes, and how it ended."""
    report = result.report or {}
    tree = {
        "confirmed": "gone",
        "survivors": f"survivors: process {', '.join(map(str, report.get('survivors') or ['?']))}",
    }.get(result.how, "unknown: nobody saw its processes end")
    ended = f"{report['status']}/{report['cause']}" if report.get("status") else "no verdict"
    before = "" if result.asked or not report.get("status") else " before it was asked"
    problem = f"; {result.problem}" if result.problem else ""
    return f"{result.run_id}  {tree}  {ended}{before}{problem}"


def as_dict(result: StopResult) -> dict[str, Any]:
    """One run as JSON."""
    report = result.report or {}
    return {
        "run_id": result.run_id,
        "tree": {"confirmed": "gone"}.get(result.how, result.how),
        "asked": result.asked,
        "status": report.get("status"),
        "cause": report.get("cause"),
        "reason": report.get("reason"),
        "survivors": report.get("survivors"),
        "problem": result.problem,
    }
