"""A connection to the guard of one run, from any process: send a request, wait for the answer.

The guard's socket only wakes us. The journal tells whether a run is over, and whether its tree is gone. A run that is
still starting has its socket already, and its guard finds the request there.

Rejected: a signal to the guard's process. It would need no socket, but tells neither why nor by whom a run is stopped.
"""

from __future__ import annotations

import errno
import select
import time
from typing import TYPE_CHECKING

from ..guard import packets
from ..guard.conversation import ANSWER_S, Conversation, extension_refused, settle_bound_s
from ..values.errors import JournalDamagedError, RequestError
from ..values.spec import spec_on_record
from . import recovery, run_directory
from .directory import StateDirectory, state_error
from .forced_end import continue_guard
from .record import RunRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

STARTING_S = 10.0
CONTINUE_S = 1.0  # how long a guard may be silent before we continue it: perhaps it is stopped
RETRY_S = 0.05  # how soon we try again to connect to a guard that has no room for us


class GuardConnection:
    """A run and, once connected, the conversation with its guard. Use as a context manager.

    RunNotFoundError: the run does not exist. JournalError: its journal cannot be read. StateError: the state directory
    cannot be used.
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
        """Read the record, and finish it if the guard is gone. Returns the state of the run: `live` or `over`."""
        self.record.read()
        if self.record.unfinished:
            try:
                recovery.finish(self.state, self.run_id)
            except OSError as error:
                self.problem = f"its record cannot be finished: {error.strerror}"
            self.record.read()
        return "live" if self.record.guard != "gone" else "over"

    def elsewhere(self) -> RequestError:
        """The error for a run that is on another host."""
        message = "the run is on another host, and only the daemon that placed it reaches it"
        return RequestError(message, errno=errno.EREMOTE, run_id=self.run_id, remedy="start the daemon, or try again")

    def connect(self) -> bool:
        """Connect to the guard. False when that fails; `problem` then says why."""
        try:
            self.conversation.socket = run_directory.connect(self.record.path)
            self.problem = None
        except OSError as error:
            self.problem = f"its guard cannot be reached: {error.strerror}"
        return self.is_connected

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open on our side."""
        return self.fileno() >= 0

    def fileno(self) -> int:
        """The descriptor of the connection, for `poll`; -1 without a connection."""
        return self.conversation.socket.fileno()

    def send(self, make: Callable[[int], bytes]) -> None:
        """Send one request. RequestError: the guard does not accept it."""
        self._ticket = self.conversation.ask(make)
        self.sent = True

    @property
    def is_answered(self) -> bool:
        """Whether the guard has answered the last request."""
        return self.conversation.has_answered(self._ticket)

    def ask(self, make: Callable[[int], bytes], within_s: float = ANSWER_S) -> None:
        """Send one request and wait for the answer. RequestError: refused, the run is over, or no answer in time."""
        end = time.monotonic() + within_s
        while self.look() == "live":
            if self.record.guard == "elsewhere":
                raise self.elsewhere()
            if self.connect() and self._is_done(make, end):
                return
            self.disconnect()  # the guard closed without an answer: it has no room for us, or the run is over
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
        while not self.conversation.wait(self._ticket, min(end, time.monotonic() + CONTINUE_S)):
            if time.monotonic() >= end or not self.conversation.take_in():
                return False
            continue_guard(self.record)
        self.conversation.conclude(self._ticket)
        return True

    def wait_readable(self, within_s: float) -> bool:
        """Wait until the guard sends something or closes the connection; False when the time is over."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(max(0.0, within_s) * 1000))

    def bound_s(self, *, now: bool) -> float:
        """How long this run may take to end after a stop request, by the ladder of the spec in its journal."""
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
        """Close the connection and the journal."""
        self.disconnect()
        self.record.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ask_stop(
    state: StateDirectory, run_id: str, reason: str, *, now: bool, person: bool = False, grace_s: float | None = None
) -> None:
    """Ask a live run to end; returns when its guard has recorded the request. RequestError: it has not.

    `person`: a person asks, and the second such request climbs the ladder. `grace_s` may shorten the run's grace.
    """
    with GuardConnection(state, run_id) as connection:
        connection.ask(lambda ticket: packets.stop(ticket, "user", reason, now=now, person=person, grace_s=grace_s))


def extend(state: StateDirectory, run_id: str, seconds: float) -> None:
    """Move the deadline of a live run. RequestError: the ceiling is lower, there is no deadline, or the run is over."""
    with GuardConnection(state, run_id) as connection:
        try:
            connection.ask(lambda ticket: packets.extend(ticket, round(seconds * 1e9)))
        except RequestError as error:
            raise extension_refused(error) from None


def send_signal(state: StateDirectory, run_id: str, number: int, *, tree: bool = False) -> None:
    """Send a signal to the leader of a live run, or to all its processes. RequestError: it was not sent."""
    with GuardConnection(state, run_id) as connection:
        connection.ask(lambda ticket: packets.signal(ticket, number, tree=tree))
