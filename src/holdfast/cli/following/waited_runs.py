"""Several runs, followed side by side with one poll: the waiting of `wait` and `submit --wait`.

The worst run gives the exit code: a lost run before a failed one, then timed out, cancelled, succeeded. Of equally bad
runs the run that the user named first counts, or with a filter the run that began first.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from ...projections.exit_code import OWN_FAILURE, exit_code
from ...values.errors import HoldfastError
from ...wording.plain import plain
from ..lookup.selection import has_daemon, open_index, queued_entries
from ..parsing.command import put, show_json
from ..parsing.options import UsageError
from ..printing import messages
from .followed_run import FollowedRun

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ...state.index.summary import Filters
    from .queued_run import QueuedRun

_BAD_FIRST = ("lost", "failed", "timed_out", "cancelled", "succeeded")


class WaitedRuns:
    """The runs to wait for. Call `add`, then `run`, `tell` and `close`."""

    def __init__(self, state: StateDirectory, *, settled: bool, deadline: float | None, quiet: bool) -> None:
        self.state = state
        self.settled = settled
        self.deadline = deadline
        self.quiet = quiet
        self.complete = True  # False when a run could not be found or read
        self.timed_out = False
        self.runs: dict[str, FollowedRun | QueuedRun] = {}
        self._done: set[str] = set()

    def add(self, run_ids: list[str]) -> None:
        """Follow these runs, too. A run that cannot be read is named on stderr and left out."""
        for run_id in run_ids:
            if run_id in self.runs:
                continue
            try:
                self.runs[run_id] = self._follow(run_id)
            except HoldfastError as error:
                messages.say(str(error))
                self.complete = False

    def _follow(self, run_id: str) -> FollowedRun | QueuedRun:
        if self.state.has(run_id) or not has_daemon(self.state):
            return FollowedRun(self.state, run_id)
        from .queued_run import QueuedRun

        return QueuedRun(self.state, run_id, settled=self.settled)

    def run(self) -> None:
        """Wait until each run is decided, or settled, as the caller wants; or until the deadline."""
        self._note()
        while left := [run for run_id, run in self.runs.items() if run_id not in self._done]:
            poll = select.poll()
            for run in left:
                if run.fd >= 0:
                    poll.register(run.fd, select.POLLIN)
            bounds = self._bounds(left)
            ready = {fd for fd, _ in poll.poll(min(bounds) * 1000 if bounds else None)}
            for run in left:
                if run.fd in ready or run.timeout_s is not None:
                    self._take(run)
            self._note()
            if self.deadline is not None and time.monotonic() >= self.deadline and len(self._done) < len(self.runs):
                self.timed_out = True
                return

    def _bounds(self, left: list[FollowedRun | QueuedRun]) -> list[float]:
        """The times after which there is something to do although no run has news."""
        bounds = [bound for run in left if (bound := run.timeout_s) is not None]
        return bounds if self.deadline is None else [*bounds, max(0.0, self.deadline - time.monotonic())]

    def _take(self, run: FollowedRun | QueuedRun) -> None:
        try:
            run.on_ready()
        except HoldfastError as error:
            messages.say(f"cannot wait for run {run.run_id} any longer: {error}")
            self.complete = False
            self.runs.pop(run.run_id).close()

    def run_matching(self, filters: Filters) -> None:
        """Wait for every run that matches: ended runs count, and so do runs that begin while we wait."""
        if not self._add_matching(filters):
            raise UsageError("no run matches", remedy="holdfast ps --all lists all runs")
        while not self.timed_out:
            self.run()
            if not self._add_matching(filters):
                return

    def _add_matching(self, filters: Filters) -> bool:
        """Follow the runs that match now, including runs that ended between two looks; False when none is new."""
        queued = queued_entries(self.state, filters)
        with open_index(self.state) as index:
            live = [entry for entry in index.refresh() if filters.matches(entry) and entry.problem is None]
            ended = index.list(filters, max(1, index.count())).entries
        known = len(self.runs)
        for entry in sorted([*ended, *live, *queued], key=lambda entry: (entry.begun_ns, entry.run_id)):
            self.add([entry.run_id])
        return len(self.runs) > known

    def _note(self) -> None:
        for run_id, run in self.runs.items():
            if run_id not in self._done and (run.ended or (not self.settled and run.outcome.status is not None)):
                self._done.add(run_id)
                if not self.quiet:
                    outcome = run.outcome
                    text = f"{run_id}  {outcome.status or 'lost'}/{outcome.cause or 'guard'}  {outcome.reason or ''}"
                    put(plain(text).rstrip() + "\n")

    def tell(self, *, as_json: bool) -> int:
        """Print the reports (`as_json`) and the runs that are not over in time, and return the exit code."""
        if as_json:
            show_json([run.report() for run in self.runs.values()])
        if self.timed_out:
            left = [run_id for run_id in self.runs if run_id not in self._done]
            shown = ", ".join(left[:3]) + (", ..." if len(left) > 3 else "")
            messages.say(f"the time to wait is over: {len(left)} of {len(self.runs)} not there yet: run {shown}")
        if self.timed_out or not self.complete:
            return OWN_FAILURE
        worst = min(self.runs.values(), key=lambda run: _BAD_FIRST.index(run.outcome.status or "lost"))
        return OWN_FAILURE if worst.outcome.status is None else exit_code(worst.outcome)

    def close(self) -> None:
        """Close the connections to all runs."""
        for run in self.runs.values():
            run.close()
