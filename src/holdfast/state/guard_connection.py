"""A connection to the guard of one run, from any process: send a request, wait for the answer or for the end.

The guard's socket only wakes us. Whether a run is over, and whether its tree is gone, is read from its journal. A run
that is still starting has its socket already, and its guard finds the request there.

Rejected: signalling the guard's process. It would need no socket, but says neither why nor by whom the run was stopped.
"""

from __future__ import annotations

import errno
import os
import select
import time
from _socket import MSG_DONTWAIT, MSG_NOSIGNAL
from typing import TYPE_CHECKING

from ..guard import packets
from ..values.errors import JournalDamagedError, RequestError
from ..values.ladder import parse_ladder
from . import recovery, run_directory
from .directory import StateDirectory, state_error
from .record import RunRecord

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

STARTING_S = 10.0
_MARGIN_S = 3.0
RETRY_S = 0.05  # how soon a guard that has no room for us is tried again
_DEFAULTS = {"grace_s": 10.0, "kill_wait_s": 5.0, "drain_s": 2.0}


class GuardConnection:
    """A connection to one run, live or not. Use as a context manager.

    RunNotFoundError: there is no such run. JournalError: it cannot be read. StateError: the directory cannot be.
    """

    def __init__(self, state: StateDirectory, run_id: str) -> None:
        self.state = state
        self.run_id = run_id
        self.socket: socket | None = None
        self.problem: str | None = None
        self.sent = False
        self._ticket = 0
        self._answers: dict[int, int] = {}
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
            self.socket = run_directory.connect(self.record.path)
            self.problem = None
        except OSError as error:
            self.problem = f"its guard cannot be reached: {error.strerror}"
        return self.socket is not None

    def send(self, make: Callable[[int], bytes]) -> int:
        """Send one request; returns its ticket. OSError when the guard does not take it."""
        assert self.socket is not None
        self._ticket += 1
        self.socket.send(make(self._ticket), MSG_DONTWAIT | MSG_NOSIGNAL)
        self.sent = True
        return self._ticket

    def receive(self) -> bool:
        """Take in everything the guard has sent; False when it has closed the connection."""
        assert self.socket is not None
        while True:
            try:
                packet = self.socket.recv(packets.PACKET_MAX, MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except ConnectionResetError:
                continue  # it went with requests unread; what it had sent before is still there
            if not packet:
                return False
            match packets.decode(packet):
                case packets.Answer(ticket, error):
                    self._answers[ticket] = error

    @property
    def is_answered(self) -> bool:
        """Whether the guard has taken the last request."""
        return self._ticket in self._answers

    def ask(self, make: Callable[[int], bytes], within_s: float = packets.ANSWER_S) -> None:
        """One request and its answer. RequestError: refused, too late, or no answer in time."""
        end = time.monotonic() + within_s
        while self.look() == "live":
            if self.connect():
                ticket = self._deliver(make)
                if ticket and self._await(ticket, end):
                    return
                self.disconnect()  # gone without an answer: it has no room for us, or it is over
            if time.monotonic() >= end:
                why = self.problem or "it did not answer in time; is it stopped?"
                raise RequestError(f"the run cannot be asked: {why}", errno=errno.ETIMEDOUT, run_id=self.run_id)
            select.select((), (), (), RETRY_S)
        raise RequestError("the run is over: it takes no more requests", errno=errno.ESRCH, run_id=self.run_id)

    def _deliver(self, make: Callable[[int], bytes]) -> int:
        try:
            return self.send(make)
        except OSError:
            return 0

    def wait_readable(self, within_s: float) -> bool:
        """Wait until the guard has sent something, or has gone; False when the time is over."""
        assert self.socket is not None
        poll = select.poll()
        poll.register(self.socket.fileno(), select.POLLIN)
        return bool(poll.poll(max(0.0, within_s) * 1000))

    def _await(self, ticket: int, end: float) -> bool:
        is_open = True
        while is_open and ticket not in self._answers:
            if not self.wait_readable(end - time.monotonic()):
                self.problem = "its guard does not answer; is it stopped?"
                return False
            is_open = self.receive()
        if error := self._answers.get(ticket):
            raise RequestError(f"the run refused: {os.strerror(error)}", errno=error, run_id=self.run_id)
        return ticket in self._answers

    def bound_s(self, *, now: bool) -> float:
        """How long this run may take to end once it is asked to, by the ladder that its journal has."""
        try:
            asked = self.record.reader.spec or {}
        except JournalDamagedError:
            asked = {}
        number = {name: float(asked.get(name, default)) for name, default in _DEFAULTS.items()}
        rungs_s = number["grace_s"]
        if text := asked.get("ladder"):
            rungs_s = sum(rung.wait_s for rung in parse_ladder(text, grace_s=rungs_s))
        starting_s = STARTING_S if self.record.guard == "starting" else 0.0
        return (0.0 if now else rungs_s) + number["kill_wait_s"] + number["drain_s"] + starting_s + _MARGIN_S

    def disconnect(self) -> None:
        """Close the connection, if there is one."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

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
        asking.ask(lambda ticket: packets.extend(ticket, round(seconds * 1e9)))


def send_signal(state: StateDirectory, run_id: str, number: int, *, tree: bool = False) -> None:
    """Send one signal to a live run's leader, or to all of its processes. RequestError when it is not done."""
    with GuardConnection(state, run_id) as asking:
        asking.ask(lambda ticket: packets.signal(ticket, number, tree=tree))
