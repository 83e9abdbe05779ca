"""A connection to the guard of one run, from any process: send a request, wait for the answer or for the end.

The guard's socket only wakes us. Whether a run is over, and whether its tree is gone, is read from its journal. A run
that is still starting has its socket already, and its guard finds the request there.

Rejected: signalling the guard's process. It would need no socket, but says neither why nor by whom the run was stopped.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from ..guard import packets
from ..guard.conversation import ANSWER_S, Conversation, extension_refused, settle_bound_s
from ..values.errors import JournalDamagedError, RequestError
from ..values.spec import spec_on_record
from . import recovery, run_directory
from .directory import StateDirectory, state_error
from .record import RunRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

STARTING_S = 10.0
RETRY_S = 0.05  # how soon a guard that has no room for us is tried again


class GuardConnection:
    """A connection to one run, live or not. Use as a context manager.

    RunNotFoundError: there is no such run. JournalError: it cannot be read. StateError: the directory cannot be.
    """

    def __init__(self, state: StateDirectory, run_id: str) -> None:
        self.state = state
        self.run_id = run_id
        self.conversation = Conversation(run_id)
        self.problem: str | None = None
        self.sent = False
        self._ticket = 0
        try:
            self.record = RunRecord(state, run_id)
        except OSError as error:
            raise state_error(error, state.run_path(run_id), run_id) from None

    def look(self) -> str:
        """`live`, or `over`: then the record has its end, as far as it can have one."""
        self.record.read()
        if self.record.unfinished:
            try:
                recovery.finish(self.state, self.run_id)
            except OSError as error:
                self.problem = f"its record cannot be finished: {error.strerror}"
            self.record.read()
        return "live" if self.record.guard != "gone" else "over"

    def connect(self) -> bool:
        """Connect to the guard; False, with `problem`, when nobody answers there (now)."""
        try:
            self.conversation.socket = run_directory.connect(self.record.path)
            self.problem = None
        except OSError as error:
            self.problem = f"its guard cannot be reached: {error.strerror}"
        return self.is_connected

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self.fileno() >= 0

    def fileno(self) -> int:
        """What to poll for the guard's words; -1 without a connection."""
        return self.conversation.socket.fileno()

    def send(self, make: Callable[[int], bytes]) -> None:
        """Send one request. RequestError: the guard does not take it."""
        self._ticket = self.conversation.ask(make)
        self.sent = True

    @property
    def is_answered(self) -> bool:
        """Whether the guard has taken the last request."""
        return self.conversation.has_answered(self._ticket)

    def ask(self, make: Callable[[int], bytes], within_s: float = ANSWER_S) -> None:
        """One request and its answer. RequestError: refused, too late, or no answer in time."""
        end = time.monotonic() + within_s
        while self.look() == "live":
            if self.connect() and self._is_done(make, end):
                return
            self.disconnect()  # gone without an answer: the guard has no room for us, or it is over
            if time.monotonic() >= end:
                started = self.record.outcome.started
                self.conversation.guard_pid = 0 if started is None else int(started.detail["guard_pid"])
                raise self.conversation.unanswered(self.problem)
            select.select((), (), (), RETRY_S)
        raise RequestError.too_late(self.run_id)

    def _is_done(self, make: Callable[[int], bytes], end: float) -> bool:
        try:
            self.send(make)
        except RequestError:
            return False
        if not self.conversation.wait(self._ticket, end):
            return False
        self.conversation.conclude(self._ticket)
        return True

    def wait_readable(self, within_s: float) -> bool:
        """Wait until the guard has sent something, or has gone; False when the time is over."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(max(0.0, within_s) * 1000))

    def bound_s(self, *, now: bool) -> float:
        """How long this run may take to end once it is asked to, by the ladder that its journal has."""
        try:
            asked = self.record.reader.spec or {}
        except JournalDamagedError:
            asked = {}
        starting_s = STARTING_S if self.record.guard == "starting" else 0.0
        return starting_s + settle_bound_s(spec_on_record(self.run_id, asked), now=now)

    def disconnect(self) -> None:
        """Close the connection, if there is one."""
        self.conversation.close()

    def close(self) -> None:
        """Close everything."""
        self.disconnect()
        self.record.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def ask_stop(state: StateDirectory, run_id: str, reason: str, *, now: bool) -> None:
    """Ask a live run to end, and return when the request is on record. RequestError when it is not done."""
    with GuardConnection(state, run_id) as asking:
        asking.ask(lambda ticket: packets.stop(ticket, "user", reason, now=now))


def extend(state: StateDirectory, run_id: str, seconds: float) -> None:
    """Move the deadline of a live run. RequestError: over its ceiling, without a deadline, or over."""
    with GuardConnection(state, run_id) as asking:
        try:
            asking.ask(lambda ticket: packets.extend(ticket, round(seconds * 1e9)))
        except RequestError as error:
            raise extension_refused(error) from None


def send_signal(state: StateDirectory, run_id: str, number: int, *, tree: bool = False) -> None:
    """Send one signal to a live run's leader, or to all of its processes. RequestError when it is not done."""
    with GuardConnection(state, run_id) as asking:
        asking.ask(lambda ticket: packets.signal(ticket, number, tree=tree))
