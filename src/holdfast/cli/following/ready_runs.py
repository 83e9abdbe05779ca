"""Runs followed until they are ready: the waiting of `wait --ready` and `--ready-timeout`.

This process looks at the conditions itself, with pauses that grow to a quarter of a second. A run that ends before it
is ready is noticed at once, because its guard tells us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...projections.exit_code import OWN_FAILURE, TIMED_OUT, exit_code
from ...readiness.check import LONGEST_PAUSE_S, ReadyCheck
from ...readiness.last_lines import last_lines
from ...state import run_directory
from ...values.errors import HoldfastError
from ...wording.plain import plain
from ..parsing.command import put, show_json
from ..printing import messages
from .followed_run import FollowedRun
from .waited_runs import WaitedRuns

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from .queued_run import QueuedRun

ENDED = 1  # the exit code when a run has succeeded before it was ready


class ReadyRuns(WaitedRuns):
    """The runs that are to become ready. Call `add`, then `run`, `tell` and `close`."""

    def __init__(self, state: StateDirectory, *, deadline: float | None, quiet: bool) -> None:
        super().__init__(state, settled=False, deadline=deadline, quiet=quiet)
        self.ready: list[str] = []
        self.ended: list[str] = []  # without having been ready
        self._checks: dict[str, ReadyCheck] = {}

    def missing(self, run_id: str) -> str:
        """What is missing until the run is ready, in words."""
        return self._checks[run_id].missing() if run_id in self._checks else "the run has not begun"

    def tell(self, *, as_json: bool) -> int:
        """Print the result and return the exit code: 0 when all are ready, 124 when the time is over."""
        if as_json:
            show_json([{**run.report(), "ready": run_id in self.ready} for run_id, run in self.runs.items()])
        for run_id in self.ended:
            self._tell_ended(run_id)
        for run_id in [run_id for run_id in self.runs if run_id not in self._done]:
            messages.say(f"not ready in time: {self.missing(run_id)}; the run goes on; run {run_id}")
        if not self.complete:
            return OWN_FAILURE
        codes = [exit_code(self.runs[run_id].outcome) or ENDED for run_id in self.ended]
        return codes[0] if codes else TIMED_OUT if self.timed_out else 0

    def close(self) -> None:
        """Close the journals and the connections to all runs."""
        for check in self._checks.values():
            check.close()
        super().close()

    def _bounds(self, left: list[FollowedRun | QueuedRun]) -> list[float]:
        pauses = [self._checks[run.run_id].pause_s for run in left if run.run_id in self._checks]
        return [*super()._bounds(left), *pauses, LONGEST_PAUSE_S]

    def _note(self) -> None:
        for run_id, run in list(self.runs.items()):
            if run_id in self._done:
                continue
            try:
                self._look(run_id, run)
            except HoldfastError as error:
                messages.say(str(error))
                self.complete = False
                self.runs.pop(run_id).close()

    def _look(self, run_id: str, run: FollowedRun | QueuedRun) -> None:
        if run.ended or run.outcome.status is not None:
            self._done.add(run_id)
            self.ended.append(run_id)
            return
        followed = run if isinstance(run, FollowedRun) else run.followed
        if followed is None or followed.outcome.started is None:
            return  # queued, or about to start
        check = self._check_of(followed)
        if check.is_ready(followed.live.tree):
            self._done.add(run_id)
            self.ready.append(run_id)
            if not self.quiet:
                put(f"{run_id}  ready\n")

    def _check_of(self, followed: FollowedRun) -> ReadyCheck:
        run_id, conditions = followed.run_id, followed.live.spec.ready
        if not conditions:
            remedy = "start it with --ready port:3000, log:REGEX or http:URL"
            raise HoldfastError("the run has no condition of being ready", run_id=run_id, remedy=remedy)
        if run_id not in self._checks:
            journal = run_directory.open_journal(self.state.run_path(run_id))
            self._checks[run_id] = ReadyCheck(run_id, conditions, journal)
        return self._checks[run_id]

    def _tell_ended(self, run_id: str) -> None:
        outcome = self.runs[run_id].outcome
        how = f"{outcome.status}/{outcome.cause}: {outcome.reason}"
        messages.say(f"the run ended before it was ready, {how}; run {run_id}")
        try:
            journal = run_directory.open_journal(self.state.run_path(run_id))
        except OSError:
            return  # it was never started, or is removed: there is no output
        for line in last_lines(journal):
            messages.say(f"  {plain(line)}")
