"""The end of a session's runs when its harness ends. The session stays open: the harness may resume it later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..state.parallel_stop import stop_all
from ..state.sessions import live_runs

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..state.directory import StateDirectory
    from ..state.parallel_stop import StopResult

_ROUNDS = 3  # a run that begins while others end is found in the next round


def end_runs(
    state: StateDirectory, session: str, *, reason: str, grace_s: float | None = None, but: Collection[str] = ()
) -> list[StopResult]:
    """Stop the live runs of a session, newest first. `but`: runs that go on, such as the one that we are in."""
    results: dict[str, StopResult] = {}
    for _ in range(_ROUNDS):
        run_ids, _ = live_runs(state, session)
        left = [run_id for run_id in run_ids if run_id not in but and run_id not in results]
        if not left:
            break
        stopped = stop_all(state, left, cause="session", reason=reason, grace_s=grace_s)
        results.update({result.run_id: result for result in stopped})
    return list(results.values())
