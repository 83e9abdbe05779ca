"""A run in the daemon's queue, followed until it begins, and from then on in its directory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...client import calls
from ...outcome import decide
from ...values.errors import DaemonUnreachableError
from ..lookup.daemon_request import DaemonRequest
from ..lookup.queued_runs import PATIENCE_S, queued_report
from .followed_run import FollowedRun

if TYPE_CHECKING:
    from ...outcome import Outcome
    from ...state.directory import StateDirectory

_AGAIN_S = 1.0


def wait_begun(state: StateDirectory, run_id: str) -> None:
    """Until the run has written something, or is over. DaemonUnreachableError: the daemon is gone for good."""
    since = time.monotonic()
    while not state.has(run_id):
        try:
            with DaemonRequest(state, calls.output(run_id, "all", 0, follow=True, late=True)) as request:
                since = time.monotonic()
                while not request.has_body:
                    request.wait()
                if request.done:
                    request.check()
        except DaemonUnreachableError:
            if time.monotonic() - since > PATIENCE_S:
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
        self._request: DaemonRequest | None = None
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
        return -1 if self._request is None else self._request.fd

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
        elif self._request is None:
            if self._again_at is not None and time.monotonic() >= self._again_at:
                self._ask()
        else:
            self._read(self._request)

    def report(self) -> dict[str, Any]:
        """Its report, as it is now."""
        return queued_report(self.state, self.run_id) if self.followed is None else self.followed.report()

    def close(self) -> None:
        """Let go of it."""
        if self._request is not None:
            self._request.close()
        if self.followed is not None:
            self.followed.close()

    def _ask(self) -> None:
        if self.state.has(self.run_id):
            self.followed = FollowedRun(self.state, self.run_id)
            return
        try:
            self._request = DaemonRequest(self.state, calls.wait_once(self.run_id, self.until, calls.SLICE_S))
            self._again_at, self._asked_at = None, time.monotonic()
        except DaemonUnreachableError as error:
            self._nobody(error)

    def _read(self, request: DaemonRequest) -> None:
        try:
            request.on_ready()
            if not request.done:
                return
            request.answer()
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
        if now - self._away_since > PATIENCE_S:
            raise error
        self._again_at = now + _AGAIN_S

    def _drop(self) -> None:
        if self._request is not None:
            self._request.close()
            self._request = None
