"""Runs that wait in a daemon's queue. They have no directory yet, so the daemon is the only one to ask.

Everything else about runs is read from the state directory, whether or not there is a daemon: a run that has a
directory is the same run for both. See docs/decisions/0012-cli-and-daemon.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...client import calls
from ...outcome import decide
from ...values.errors import DaemonUnreachableError, HoldfastError, RunNotFoundError
from ..printing import messages
from .daemon import DaemonQuestion, ask, drive
from .followed_run import FollowedRun

if TYPE_CHECKING:
    from ...outcome import Outcome
    from ...state.directory import StateDirectory
    from ...state.index.summary import Filters, RunSummary
    from ...state.parallel_stop import StopResult

_AGAIN_S = 1.0
_PATIENCE_S = 60.0  # how long a daemon may be away, for a restart


class StillQueuedError(RunNotFoundError):
    """The run is there, but has not begun."""


def still_queued(run_id: str) -> StillQueuedError:
    """For what can only be done with a run that has begun."""
    remedy = "it begins when there is room; holdfast wait waits for its end, holdfast cancel takes it out"
    return StillQueuedError("the run is still queued", run_id=run_id, remedy=remedy)


def queued_reports(state: StateDirectory) -> dict[str, dict[str, Any]]:
    """The reports of all queued runs, by id. Empty, with a line when there is a daemon, if it does not answer."""
    try:
        return {report["run_id"]: report for report in drive(state, calls.all_pages({"state": "queued"}))}
    except DaemonUnreachableError:
        from ...state import owner_lock

        seen = owner_lock.look(state)
        if seen.state == owner_lock.ALIVE:
            who = "" if seen.owner is None else f" (process {seen.owner.pid})"
            messages.say(f"queued runs are not known: the daemon{who} does not answer")
    except HoldfastError as error:
        messages.say(f"queued runs are not known: {error}")
    return {}


def entries(state: StateDirectory, filters: Filters) -> list[RunSummary]:
    """The queued runs that match, oldest first, as lists show them."""
    from ...state.index.summary import RunSummary

    found = [
        RunSummary(run_id, _ns(report.get("queued_at")), report, None, 0, 0, guard="none", final=False)
        for run_id, report in queued_reports(state).items()
        if not state.has(run_id)
    ]
    return sorted((entry for entry in found if filters.matches(entry)), key=lambda entry: entry[1::-1])


def queued_report(state: StateDirectory, run_id: str) -> dict[str, Any]:
    """The report of a queued run, as it is now."""
    report: dict[str, Any] = ask(state, calls.about(run_id))
    return report


def cancel_queued(state: StateDirectory, run_id: str, reason: str, *, now: bool, wait: bool = True) -> dict[str, Any]:
    """Take it out of the queue; should it have begun meanwhile, end it. The report, when it is over."""
    report: dict[str, Any] = ask(state, calls.ask(run_id, "cancel", {"reason": reason, "now": now}))
    if wait and report["state"] != "settled":
        report = drive(state, calls.waiting(run_id, "settled", None))
    return report


def stopped(report: dict[str, Any]) -> StopResult:
    """What the daemon's report says of a run that was to end."""
    from ...state.parallel_stop import OF_TREE, StopResult

    return StopResult(report["run_id"], OF_TREE.get(report["tree"], "unknown"), report["status"] == "cancelled", report)


def close_session(state: StateDirectory, session: str, reason: str, *, now: bool) -> list[StopResult]:
    """Have the daemon end the queued runs of a session that is closed; with a line when it does not answer."""
    queued = [report for report in queued_reports(state).values() if report["session"] == session]
    found = []
    try:
        if queued:
            ask(state, calls.close_session(session, reason, now=now), within_s=_PATIENCE_S)
        for report in queued:
            ended = drive(state, calls.waiting(report["run_id"], "settled", None))
            found.append(stopped(ended))
    except DaemonUnreachableError as error:
        messages.say(f"its queued runs will be refused when they are to begin: {error.message}")
    return found


def wait_begun(state: StateDirectory, run_id: str) -> None:
    """Until the run has written something, or is over. DaemonUnreachableError: the daemon is gone for good."""
    since = time.monotonic()
    while not state.has(run_id):
        try:
            with DaemonQuestion(state, calls.output(run_id, "all", 0, follow=True, late=True)) as question:
                since = time.monotonic()
                while not question.has_body:
                    question.wait()
                if question.done:
                    question.check()
        except DaemonUnreachableError:
            if time.monotonic() - since > _PATIENCE_S:
                raise
            time.sleep(_AGAIN_S)


class QueuedRun:
    """A queued run for `wait`: like `FollowedRun`, which it becomes as soon as the run has come far enough.

    `on_ready` raises DaemonUnreachableError when the daemon is gone for good and the run has not begun.
    """

    def __init__(self, state: StateDirectory, run_id: str, *, settled: bool) -> None:
        self.state = state
        self.run_id = run_id
        self.until = "settled" if settled else "verdict"
        self.followed: FollowedRun | None = None
        self._question: DaemonQuestion | None = None
        self._again_at: float | None = None
        self._away_since: float | None = None
        self._asked_at = 0.0
        self._ask()

    @property
    def outcome(self) -> Outcome:
        """Nothing is known before it has begun."""
        return decide(()) if self.followed is None else self.followed.outcome

    @property
    def ended(self) -> bool:
        """Whether nothing more will be recorded."""
        return self.followed is not None and self.followed.ended

    @property
    def fd(self) -> int:
        """What to poll for input; -1 while there is nobody to ask."""
        if self.followed is not None:
            return self.followed.fd
        return -1 if self._question is None else self._question.fd

    @property
    def timeout_s(self) -> float | None:
        """After how long to call `on_ready` in any case; None: never."""
        if self.followed is not None:
            return self.followed.timeout_s
        return None if self._again_at is None else max(0.0, self._again_at - time.monotonic())

    def on_ready(self) -> None:
        """Take in what is new."""
        if self.followed is not None:
            self.followed.on_ready()
        elif self._question is None:
            if self._again_at is not None and time.monotonic() >= self._again_at:
                self._ask()
        else:
            self._read(self._question)

    def report(self) -> dict[str, Any]:
        """Its report, as it is now."""
        return queued_report(self.state, self.run_id) if self.followed is None else self.followed.report()

    def close(self) -> None:
        """Let go of it."""
        if self._question is not None:
            self._question.close()
        if self.followed is not None:
            self.followed.close()

    def _ask(self) -> None:
        if self.state.has(self.run_id):
            self.followed = FollowedRun(self.state, self.run_id)
            return
        try:
            self._question = DaemonQuestion(self.state, calls.wait_once(self.run_id, self.until, calls.SLICE_S))
            self._again_at, self._asked_at = None, time.monotonic()
        except DaemonUnreachableError as error:
            self._nobody(error)

    def _read(self, question: DaemonQuestion) -> None:
        try:
            question.on_ready()
            if not question.done:
                return
            question.answer()
            self._away_since = None
        except DaemonUnreachableError as error:
            self._nobody(error)
            return
        self._drop()
        if time.monotonic() - self._asked_at < _AGAIN_S and not self.state.has(self.run_id):
            self._again_at = time.monotonic() + _AGAIN_S  # a daemon that is about to leave answers at once
        else:
            self._ask()  # it has come far enough and has a directory; or it is asked again

    def _nobody(self, error: DaemonUnreachableError) -> None:
        self._drop()
        now = time.monotonic()
        self._away_since = now if self._away_since is None else self._away_since
        if now - self._away_since > _PATIENCE_S:
            raise error
        self._again_at = now + _AGAIN_S

    def _drop(self) -> None:
        if self._question is not None:
            self._question.close()
            self._question = None


def _ns(text: object) -> int:
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * 1e9) if isinstance(text, str) else 0
