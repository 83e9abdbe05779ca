"""A queued run, followed through the daemon until it begins, and from then on in its run directory."""

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
    """Wait until a queued run has written output, or is over. DaemonUnreachableError: the daemon does not come back."""
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
    """A queued run for `wait`, used like `FollowedRun`. When the run has begun, a `FollowedRun` answers all calls.

    `on_ready` raises DaemonUnreachableError when the daemon does not come back and the run has not begun.
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
        """The outcome as far as it is known; empty before the run begins."""
        return decide(()) if self.followed is None else self.followed.outcome

    @property
    def ended(self) -> bool:
        """Whether the journal has its END."""
        return self.followed is not None and self.followed.ended

    @property
    def fd(self) -> int:
        """The descriptor to poll for input; -1 while no daemon answers."""
        if self.followed is not None:
            return self.followed.fd
        return -1 if self._request is None else self._request.fd

    @property
    def timeout_s(self) -> float | None:
        """The longest wait until the next `on_ready`; None when there is no bound."""
        if self.followed is not None:
            return self.followed.timeout_s
        return None if self._again_at is None else max(0.0, self._again_at - time.monotonic())

    def on_ready(self) -> None:
        """Read what is new; ask the daemon again when its answer is there or the pause is over."""
        if self.followed is not None:
            self.followed.on_ready()
        elif self._request is None:
            if self._again_at is not None and time.monotonic() >= self._again_at:
                self._ask()
        else:
            self._read(self._request)

    def report(self) -> dict[str, Any]:
        """The report of the run, as it is now."""
        return queued_report(self.state, self.run_id) if self.followed is None else self.followed.report()

    def close(self) -> None:
        """Close the connections. The run goes on."""
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
            self._again_at = time.monotonic() + _AGAIN_S  # a daemon that is shutting down answers at once
        else:
            self._ask()  # follow its directory if it has one by now, else ask the daemon again

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
