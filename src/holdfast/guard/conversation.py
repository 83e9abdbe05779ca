"""The conversation with a guard: requests and their tickets, answers, wakes, bounds, and the errors of requests.

Theory of operation. Each request carries a ticket, and the guard's answer carries the same one. A wake says that the
journal has grown. It carries no fact, so a lost wake only delays the reading. All tickets of this process are
different, because a guard that is used again may still answer a request of an earlier run.

Ends. The guard closes its socket when it exits. If it exits with unread requests, the next receive fails once with
ECONNRESET. The packets that the guard sent before come after that error, so receiving goes on to the real end of file.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import time
from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SCM_RIGHTS,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
)
from itertools import count

from ..values.errors import RequestError
from ..values.fast_imports import TYPE_CHECKING
from . import packets
from .processes import guard_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..values.spec import RunSpec

ANSWER_S = 5.0  # a guard that is well answers at once; a silent one is stopped or stuck
_MARGIN_S = 3.0  # what a busy host may add to the end of a run
_NOBODY = socket(AF_UNIX, SOCK_SEQPACKET)
_NOBODY.close()
_tickets = count(1)
# What a guard's refusal of a later deadline means, and what to do.
_EXTENSION_REFUSED = {
    errno.ESRCH: ("it is too late: the run has its verdict", "start it again with a longer timeout"),
    errno.EINVAL: ("the run has no deadline", "there is nothing to extend"),
    errno.ERANGE: ("that goes past the longest timeout the run may have", "ask for less"),
    errno.EPERM: (
        "a command may not move its own deadline",
        "extend it from outside, or start it with max_timeout: then it may use the time up to there",
    ),
}


class Conversation:
    """A connection to the guard of one run, with what was asked on it and what the guard answered.

    `socket` may be replaced by a newer connection to the same guard: tickets and answers stay.
    """

    __slots__ = (
        "_answers",
        "_asked",
        "_descriptor",
        "_guard_pid",
        "_wants_descriptor",
        "is_armed",
        "run_id",
        "sentinel_pid",
        "socket",
        "unrecorded",
    )

    def __init__(
        self,
        run_id: str,
        connection: socket = _NOBODY,
        *,
        sentinel_pid: int = 0,
        is_armed: bool = False,
        is_kept: bool = False,
    ) -> None:
        """`is_kept`: the journal is a file, and so the guard may have to send the rest of it: see `unrecorded`."""
        self.run_id = run_id
        self.socket = connection
        self.sentinel_pid = sentinel_pid  # 0 when it is not known
        self._guard_pid = 0
        self.is_armed = is_armed  # whether the guard is to wake us at the next output
        self._asked: set[int] = set()
        self._answers: dict[int, int] = {}
        self.unrecorded: packets.Unrecorded | None = None  # the rest of the journal is in the descriptor that came
        self._wants_descriptor = is_kept
        self._descriptor = -1

    @property
    def guard_pid(self) -> int:
        """The PID of the guard; 0 when it is not known."""
        return self._guard_pid or guard_of(self.sentinel_pid)

    @guard_pid.setter
    def guard_pid(self, pid: int) -> None:
        self._guard_pid = pid

    # Asking.

    def ask(self, make: Callable[[int], bytes]) -> int:
        """Send the request that `make` returns for a ticket, and return the ticket.

        RequestError: the run is over (ESRCH), or its guard does not read (EAGAIN).
        """
        return self.ask_with(make, ())

    def ask_with(self, make: Callable[[int], bytes], descriptors: Collection[int]) -> int:
        """As `ask`, with descriptors for the guard. They stay open here."""
        ticket = next(_tickets)
        sent = b"".join(fd.to_bytes(4, sys.byteorder) for fd in descriptors)
        rights = [(SOL_SOCKET, SCM_RIGHTS, sent)] if sent else []
        try:
            self.socket.sendmsg([make(ticket)], rights, MSG_DONTWAIT | MSG_NOSIGNAL)
        except BlockingIOError:
            raise self._silent("its guard does not read", errno.EAGAIN) from None
        except OSError:  # the guard has closed its end, or we have closed ours
            raise RequestError.too_late(self.run_id) from None
        self._asked.add(ticket)
        return ticket

    def ask_descriptor(self, make: Callable[[int], bytes]) -> int:
        """As `ask`, for a request whose answer brings a descriptor: see `take_descriptor`."""
        ticket = self.ask(make)
        self._wants_descriptor = True
        return ticket

    def tell(self, packet: bytes) -> bool:
        """Send a packet that the guard does not answer; False when the packet cannot be sent.

        Then the guard is gone, and end of file follows; or it is stopped, and reads earlier packets when it goes on.
        """
        try:
            self.socket.send(packet, MSG_DONTWAIT | MSG_NOSIGNAL)
        except OSError:
            return False
        return True

    # Hearing.

    def take_in(self) -> bool:
        """Take in every packet that has arrived; False when the guard has closed the connection."""
        while True:
            try:
                packet = self._receive()
            except BlockingIOError:
                return True
            except ConnectionResetError:
                continue  # see "Ends"
            if not packet:
                return False
            news = packets.decode(packet)
            if isinstance(news, packets.Wake):
                self.is_armed = False  # perhaps not a wake for output; arming once too often costs a packet
            elif isinstance(news, packets.Unrecorded):
                self.unrecorded = news
            elif news is not None and news.ticket in self._asked:
                self._asked.discard(news.ticket)
                self._answers[news.ticket] = news.error

    def _receive(self) -> bytes:
        if not self._wants_descriptor:
            return self.socket.recv(packets.PACKET_MAX, MSG_DONTWAIT)
        packet, rights, _flags, _address = self.socket.recvmsg(
            packets.PACKET_MAX, CMSG_SPACE(4), MSG_DONTWAIT | MSG_CMSG_CLOEXEC
        )
        for _level, _kind, data in rights:
            self._close_descriptor()
            self._descriptor = int.from_bytes(data[:4], sys.byteorder)
        return packet

    def take_descriptor(self) -> int:
        """Take the descriptor that came with the last packet that had one; -1: none. The caller closes it."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def has_answered(self, ticket: int) -> bool:
        """Whether the guard has answered this request."""
        return ticket in self._answers

    def wait(self, ticket: int, until: float) -> bool:
        """Block until the guard has answered; False when it closed the connection, or when `until` has passed."""
        poll = select.poll()
        poll.register(self.socket.fileno(), select.POLLIN)
        is_open = True
        while is_open and not self.has_answered(ticket):
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                return False
            is_open = self.take_in()
        return self.has_answered(ticket)

    # How a request ends.

    def conclude(self, ticket: int) -> None:
        """Return when the guard did what was asked. RequestError: it refused, or has not answered (ETIMEDOUT)."""
        if ticket not in self._answers:
            raise self.unanswered()
        if code := self._answers.pop(ticket):
            message = f"the run refused the request: {os.strerror(code)}"
            raise RequestError(message, errno=code, run_id=self.run_id)

    def unanswered(self, why: str | None = None) -> RequestError:
        """The error for a request without an answer in time."""
        return self._silent(why or "its guard does not answer", errno.ETIMEDOUT)

    def _silent(self, why: str, code: int) -> RequestError:
        guard_pid = self.guard_pid
        which = f"its guard is process {guard_pid}: is it" if guard_pid else "is its guard"
        remedy = f"{which} stopped? (kill -CONT)"
        return RequestError(f"the run cannot be asked: {why}", errno=code, run_id=self.run_id, remedy=remedy)

    # The end.

    def hand_over(self) -> socket:
        """Return the socket, which the caller closes. From now on this conversation has no connection."""
        connection, self.socket = self.socket, _NOBODY
        return connection

    def close(self) -> None:
        """Close the connection; what the guard has answered stays known."""
        self.hand_over().close()
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if (descriptor := self.take_descriptor()) >= 0:
            os.close(descriptor)


def extension_refused(error: RequestError) -> RequestError:
    """The error of a request for a later deadline, in words about deadlines."""
    what, remedy = _EXTENSION_REFUSED.get(error.errno or 0, (error.message, error.remedy))
    return RequestError(what, errno=error.errno, run_id=error.run_id, remedy=remedy)


def settle_bound_s(spec: RunSpec, *, now: bool = False) -> float:
    """How long a run may take from the request to stop until it is settled, when its guard is well.

    `now`: the request asks the guard to go to the last rung at once.
    """
    rungs_s = 0.0 if now else sum(rung.wait_s for rung in spec.ladder)
    return rungs_s + spec.kill_wait_s + spec.drain_s + _MARGIN_S
