"""Follow a run of another process to its end: reconnect while its guard lives, finish the record when it is gone."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Any

from ...runs.durable import adopt
from ...runs.guard_watch import watch
from ...values.errors import RequestError
from ..lookup.records import read_record

if TYPE_CHECKING:
    from ...outcome import Outcome
    from ...runs.live import LiveRun
    from ...state.directory import StateDirectory

_AGAIN_S = 0.25  # a guard keeps fourteen followers, and the newest of the others; they try again this often


class FollowedRun:
    """One followed run: poll `fd` for at most `timeout_s`, then call `on_ready`. Use as a context manager.

    RunNotFoundError: there is no such run. JournalError: its journal cannot be read.
    """

    def __init__(self, state: StateDirectory, run_id: str) -> None:
        self.state = state
        self.run_id = run_id
        # If the guard is gone, finish the record first: there is no guard to connect to.
        read_record(state, run_id).close()
        self.live: LiveRun = adopt(state, run_id)
        self._again_at: float | None = None
        self.live.refresh()

    @property
    def outcome(self) -> Outcome:
        """The outcome as far as the journal was read."""
        return self.live.outcome

    @property
    def ended(self) -> bool:
        """Whether the journal has its END."""
        return self.live.ended

    @property
    def fd(self) -> int:
        """The descriptor to poll for input; -1 while there is no connection."""
        return -1 if self._again_at is not None else self.live.control.fileno()

    @property
    def timeout_s(self) -> float | None:
        """The longest wait until the next `on_ready`; None when the run is over."""
        if self.ended:
            return None
        at = self.live.watchdog.next_at if self._again_at is None else self._again_at
        return max(0.0, at - time.monotonic())

    def on_ready(self) -> None:
        """Read what is new. Reconnect after a lost connection, and finish the record when the guard is gone."""
        if self._again_at is None:
            try:
                self.live.hear_guard()
            except RequestError:
                pass  # only our connection was lost: the guard has no room for one more
        elif time.monotonic() >= self._again_at:
            self._connect()
        if not self.ended:
            self._watch_guard()
        if self.live.guard_lost and not self.live.ended and self._again_at is None:
            self._again_at = time.monotonic() + _AGAIN_S

    def _watch_guard(self) -> None:
        try:
            watch(self.live)
        except RequestError:
            pass  # as above

    def _connect(self) -> None:
        live = adopt(self.state, self.run_id)
        self.live.close()
        self.live, self._again_at = live, None
        self.live.refresh()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for news, then call `on_ready`."""
        bounds = [bound for bound in (timeout_s, self.timeout_s) if bound is not None]
        poll = select.poll()
        if self.fd >= 0:
            poll.register(self.fd, select.POLLIN)
        poll.poll(min(bounds) * 1000 if bounds else None)
        self.on_ready()

    def report(self) -> dict[str, Any]:
        """The report of the run, as far as its journal was read."""
        return {**self.live.report(), "run_id": self.run_id}

    def close(self) -> None:
        """Close the connection. The run goes on."""
        self.live.close()

    def __enter__(self) -> FollowedRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
