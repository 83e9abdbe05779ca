"""`holdfast wait`: until runs are decided or settled, with their exit code.

Of many runs the worst gives the exit code: a lost one before a failed one, then timed out, cancelled, succeeded; of
several that are equally bad the first that was named (or begun).
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from ...projections.exit_code import OWN_FAILURE, exit_code
from ...values.durations import parse_duration
from ...values.errors import HoldfastError
from ...wording.plain import plain
from ..lookup.followed_run import FollowedRun
from ..lookup.selection import LABEL, SESSION, filters_of, find_all, has_daemon, open_index, queued_entries
from ..parsing.command import JSON, Command, open_state, put, show_json
from ..parsing.options import Option, UsageError
from ..printing import messages

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ...state.index.summary import Filters
    from ..lookup.queued import QueuedRun
    from ..parsing.options import Parsed

_BAD_FIRST = ("lost", "failed", "timed_out", "cancelled", "succeeded")


def act(given: Parsed) -> int:
    selects = given.has("--session") or given.has("--label")
    if bool(given.words) == selects:
        raise UsageError(
            "no run was given" if not given.words else "runs and --session or --label were both given",
            remedy="write holdfast wait ID..., or holdfast wait --session NAME",
        )
    until = given.last("--until") or "settled"
    if until not in ("verdict", "settled"):
        raise UsageError(f"--until {until!r} is unknown", remedy="use verdict or settled")
    bound_s = given.last("--timeout")
    deadline = None if bound_s is None else time.monotonic() + parse_duration(bound_s, field="--timeout")
    state = open_state(given)
    waiting = WaitedRuns(state, settled=until == "settled", deadline=deadline, quiet=_is_quiet(given))
    try:
        if given.words:
            run_ids, waiting.complete = find_all(state, given.words)
            waiting.add(run_ids)
            waiting.run()
        else:
            waiting.run_matching(filters_of(given))
        return waiting.tell(as_json=given.has("--json"))
    finally:
        waiting.close()


def _is_quiet(given: Parsed) -> bool:
    return given.has("--quiet") or given.has("--json")


class WaitedRuns:
    """Several runs, followed side by side with one poll."""

    def __init__(self, state: StateDirectory, *, settled: bool, deadline: float | None, quiet: bool) -> None:
        self.state = state
        self.settled = settled
        self.deadline = deadline
        self.quiet = quiet
        self.complete = True  # no run that was asked for is missing
        self.timed_out = False
        self.runs: dict[str, FollowedRun | QueuedRun] = {}
        self._done: set[str] = set()

    def add(self, run_ids: list[str]) -> None:
        """Follow these, too; one that cannot be read is told and left out."""
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
        from ..lookup.queued import QueuedRun

        return QueuedRun(self.state, run_id, settled=self.settled)

    def run(self) -> None:
        """Wait until each has come as far as was asked for, or the time is over."""
        self._note()
        while left := [run for run_id, run in self.runs.items() if run_id not in self._done]:
            poll = select.poll()
            for run in left:
                if run.fd >= 0:
                    poll.register(run.fd, select.POLLIN)
            bounds = [run.timeout_s for run in left if run.timeout_s is not None]
            if self.deadline is not None:
                bounds.append(max(0.0, self.deadline - time.monotonic()))
            ready = {fd for fd, _ in poll.poll(min(bounds) * 1000 if bounds else None)}
            for run in left:
                if run.fd in ready or run.timeout_s is not None:
                    self._take(run)
            self._note()
            if self.deadline is not None and time.monotonic() >= self.deadline and len(self._done) < len(self.runs):
                self.timed_out = True
                return

    def _take(self, run: FollowedRun | QueuedRun) -> None:
        try:
            run.on_ready()
        except HoldfastError as error:
            messages.say(f"cannot wait for run {run.run_id} any longer: {error}")
            self.complete = False
            self.runs.pop(run.run_id).close()

    def run_matching(self, filters: Filters) -> None:
        """Wait for every run that matches, also those that ended, and those that begin while we wait."""
        if not self._add_matching(filters):
            raise UsageError("no run matches", remedy="holdfast ps --all lists those there are")
        while not self.timed_out:
            self.run()
            if not self._add_matching(filters):
                return

    def _add_matching(self, filters: Filters) -> bool:
        """Follow what matches now, also what ended between two looks; False when nothing is new."""
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
        """The exit code, after the reports or what is missing were told."""
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
        """Let go of all of them."""
        for run in self.runs.values():
            run.close()


COMMAND = Command(
    "wait [OPTIONS] ID...",
    "Wait for runs to end, and exit with their exit code; of several, with that of the worst.",
    (
        SESSION,
        LABEL,
        Option("--until", "MOMENT", "verdict (the outcome is decided) or settled (all is gone; the default)"),
        Option("--timeout", "DURATION", "wait no longer than this: then exit code 125; the runs go on"),
        Option("--quiet", None, "no line for each run"),
        JSON,
    ),
    act,
    "Exit codes are those of `holdfast run`. The worst: lost, failed, timed out, cancelled, succeeded, in this order;\n"
    "among equals the first that was named. 125 also when a run was not found or the time to wait is over.\n",
)
