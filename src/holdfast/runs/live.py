"""One live run as its owner sees it, without an event loop: what is known of it, and what can be asked of it.

`blocking` and `supervisor` wait for the control socket; this module takes in what is there. Only `wait_answered`,
`clean_up` and `reap(wait=True)` block.

Theory of operation. The guard writes facts to the journal and sends small packets on the control socket: wakes ("there
is something to read") and answers. Packets decide nothing. Whatever arrives, `on_readable` empties the socket and then
reads the journal, so a lost, doubled or reordered wake changes nothing but the moment.

Races, and why they do no harm:
- verdict against cancel: both are facts and the guard orders them; we only read the order.
- cancel before the start: the request is in the socket before the guard first looks, and it looks before it lets the
  command go.
- guard death against END: end of file on the socket comes after the guard's last write. The journal is read once more
  after it; only if END is still missing is the guard lost.
- release against read: the guard gives bytes back to the kernel only up to where both the facts' reader and the
  consumer have read, because a hole reads as zeros, and zeros mean "nothing more yet".
- a fork of the embedding program holds copies of our descriptors, so closing ours is no end of file for the guard. The
  guard therefore watches `owner_pid` as well. `close` and the finaliser never send anything, so a copy that goes away
  in a forked child does nothing to the run.
"""

from __future__ import annotations

import errno
import os
import select
import time

from .. import outcome as outcomes
from ..guard import packets
from ..guard.conversation import ANSWER_S, Conversation, settle_bound_s
from ..guard.descriptors import set_window_size
from ..guard.processes import kill_both
from ..journal.facts import CAUSES
from ..journal.reader import JournalReader
from ..values.durations import parse_duration
from ..values.errors import HoldfastError, JournalDamagedError, RequestError, SpecError
from ..values.fast_imports import TYPE_CHECKING, signal
from ..values.identity import is_exiting

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from typing import Any

    from ..guard.launch import GuardHandle
    from ..guard.pool import GuardPool
    from ..journal.facts import Fact
    from ..outcome import Outcome
    from ..values.fields import Duration
    from ..values.spec import RunSpec
    from .result import Result

_FORKED_S = 1.0
_EXITS_WITHIN_MS = 1000  # from the end of the run to the exit of the sentinel
CHUNKS_BYTES = 1 << 20  # how much a consumer takes at once
STOP_CAUSES = tuple(CAUSES.words.values())


class LiveRun:
    """A run under its guard: its descriptors, what is known of it, and what can be asked of it."""

    __slots__ = (
        "_end_lost",
        "_known_facts",
        "_observed",
        "_outcome",
        "_reported",
        "conversation",
        "first_run",
        "guard_lost",
        "heartbeat",
        "input",
        "journal",
        "pidfd",
        "pool",
        "reader",
        "spec",
        "trusted",
        "windowed",
    )

    def __init__(
        self,
        spec: RunSpec,
        handle: GuardHandle,
        end_lost: Callable[[LiveRun], tuple[Fact, ...]],
        *,
        wake_output: bool = False,
        windowed: bool = False,
    ) -> None:
        """`end_lost` ends what a lost guard left, and returns the facts that no journal will hold."""
        self.spec = spec
        self._end_lost = end_lost
        self.pool: GuardPool | None = None  # where the guard goes when the run is over
        self.conversation = Conversation(
            spec.run_id, handle.control, sentinel_pid=handle.sentinel_pid, is_armed=wake_output
        )
        self.journal = handle.journal
        self.pidfd = handle.pidfd
        self.first_run = handle.first_run
        self.input = -1 if handle.input is None else handle.input
        self.heartbeat = -1 if handle.heartbeat is None else handle.heartbeat
        self.trusted = handle.trusted
        self.reader = JournalReader(
            handle.journal, trusted=handle.trusted, run_id=spec.run_id, beginning=handle.beginning
        )
        self.windowed = windowed
        self.guard_lost = False
        self._observed: tuple[Fact, ...] = ()
        self._outcome: Outcome | None = None
        self._known_facts = -1
        self._reported: tuple[tuple[int, int], dict[str, Any]] | None = None

    # What is known.

    @property
    def control(self) -> socket:
        """The control socket: readable when the guard has sent something, or is gone."""
        return self.conversation.socket

    @property
    def guard_pid(self) -> int:
        """The process id of the guard; 0 when it is not known. In a run that has just begun, this waits for it."""
        if self.outcome.started is None:
            self.refresh()
        until = time.monotonic() + _FORKED_S
        while self.conversation.guard_pid == 0 and is_exiting(self.sentinel_pid) is False and time.monotonic() < until:
            time.sleep(0.001)  # the sentinel is about to fork it: there is no event to wait for
        if self.conversation.guard_pid == 0:
            self.refresh()  # the run was over before we looked into /proc
        if (started := self.outcome.started) is not None:
            self.conversation.guard_pid = int(started.detail["guard_pid"])
        return self.conversation.guard_pid

    @property
    def sentinel_pid(self) -> int:
        """The process id of the sentinel, which the owner started; 0 when it is not known."""
        return self.conversation.sentinel_pid

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Everything recorded so far, and what we observed ourselves when the guard was lost."""
        return outcomes.join(self.reader.facts, self._observed) if self._observed else tuple(self.reader.facts)

    @property
    def outcome(self) -> Outcome:
        """The outcome of the facts that were read so far."""
        count = len(self.reader.facts) + len(self._observed)
        if self._outcome is None or count != self._known_facts:
            self._outcome = outcomes.decide(self.facts)
            self._known_facts = count
        return self._outcome

    @property
    def ended(self) -> bool:
        """Whether the run is settled: nothing more will be recorded."""
        return self.reader.ended or bool(self._observed)

    def refresh(self) -> None:
        """Read the facts that are new. JournalError when the journal cannot be understood (any more)."""
        if self.journal < 0 or self.ended:
            return  # nothing more comes; or the journal is closed, and the number may be another file's by now
        self.reader.scan()
        if self.reader.damage is not None:  # nothing behind the damage can be read, so waiting would last for ever
            message = f"the guard's record cannot be read on: {self.reader.damage}"
            remedy = "is it the guard of another version? (make guard, HOLDFAST_GUARD)"
            raise JournalDamagedError(message, run_id=self.spec.run_id, remedy=remedy)

    def on_readable(self) -> None:
        """Take in what the guard has said. Then the answers, `outcome`, `ended` and `guard_lost` are up to date."""
        is_open = self.conversation.take_in()
        self._take_input()
        self.refresh()
        self.guard_lost = not is_open and not self.reader.ended

    def hear_guard(self) -> None:
        """Take in what the guard has said, and clean up if it is lost. Raises as `refresh` and `clean_up` do."""
        self.on_readable()
        if self.guard_lost:
            self.clean_up()

    def wait_answered(self, ticket: int) -> None:
        """Block until the guard has done what was asked. RequestError: refused, too late, or no answer in time."""
        is_answered = self.conversation.wait(ticket, time.monotonic() + ANSWER_S)
        self._take_input()
        self.refresh()  # the wakes that came before the answer are taken in
        if not is_answered and self.ended:
            raise RequestError.too_late(self.spec.run_id)
        self.conversation.conclude(ticket)

    def _take_input(self) -> None:
        if (descriptor := self.conversation.take_descriptor()) >= 0:
            self.close_input()
            self.input = descriptor

    # What can be asked.

    def ask_input(self) -> int:
        """Ask the guard for the command's stdin or terminal, which is in `input` after the answer. As `ask_signal`."""
        return self.conversation.ask_descriptor(packets.give_input)

    def ask_stop(
        self,
        cause: str = "user",
        reason: str = "",
        *,
        now: bool = False,
        signal: int = 0,
        person: bool = False,
        grace: Duration | None = None,
    ) -> int:
        """Ask for the end of the run; returns the ticket of the answer. RequestError when the guard cannot be asked.

        The request joins an end that is under way, unless it says `now` or a `person` asks a second time. `signal` is
        the signal that made the caller ask, if there was one. A `grace` may shorten the grace of the run, and never
        makes it longer. SpecError: the cause, the reason or the grace is wrong.
        """
        if not isinstance(reason, str):
            raise SpecError(
                f"the reason is of type {type(reason).__name__}",
                field="reason",
                run_id=self.spec.run_id,
                remedy="pass text",
            )
        if cause not in STOP_CAUSES:
            remedy = f"use one of {', '.join(STOP_CAUSES)}"
            raise SpecError(f"{cause!r} is no cause", field="cause", run_id=self.spec.run_id, remedy=remedy)
        grace_s = None if grace is None else parse_duration(grace, field="grace")
        return self.conversation.ask(
            lambda ticket: packets.stop(ticket, cause, reason, now=now, signal=signal, person=person, grace_s=grace_s)
        )

    def ask_signal(self, number: int, *, tree: bool) -> int:
        """Ask for one signal; returns the ticket of the answer. RequestError when the guard cannot be asked."""
        return self.conversation.ask(lambda ticket: packets.signal(ticket, number, tree=tree))

    def ask_extend(self, seconds: Duration) -> int:
        """Ask for a later deadline; returns the ticket of the answer. RequestError when the guard cannot be asked."""
        by_ns = round(parse_duration(seconds, field="seconds") * 1e9)
        return self.conversation.ask(lambda ticket: packets.extend(ticket, by_ns))

    def ask_close_input(self) -> int:
        """Ask the guard to close its copy of stdin; returns the ticket. RequestError when the guard cannot be asked."""
        return self.conversation.ask(packets.close_input)

    def arm_output(self, seen: int, *, release: bool = False) -> None:
        """Ask to be woken as soon as there is output beyond `seen`, the journal offset that the consumer has reached.

        Output may be recorded while the request is on its way. The guard knows from `seen` that we have not read it,
        and wakes us for it, too. `release`: the consumer of a windowed run needs nothing before `seen` any more.
        """
        if self.conversation.is_armed and not release:
            return
        consumed = 0
        if release:
            self.refresh()  # the facts' reader must have passed whatever is given back; see the races above
            consumed = min(seen, self.reader.position)
        if self.conversation.tell(packets.read(consumed, seen)):
            self.conversation.is_armed = True

    def release(self, consumed: int) -> None:
        """Give the journal's memory back up to this offset. Nobody may read what is before it any more."""
        self.conversation.tell(packets.release(consumed))

    def refused(self, what: str, code: int, remedy: str | None = None) -> RequestError:
        """The error for a request that this run cannot do."""
        return RequestError(f"the run {what}: {os.strerror(code)}", errno=code, run_id=self.spec.run_id, remedy=remedy)

    # Input.

    def write_input(self, data: memoryview) -> int | None:
        """Write to stdin what fits without waiting; returns how many bytes: 0 when it is full, None when it is closed.

        It is closed by us, or by the command; then we close our end, too.
        """
        if self.input < 0:
            return None
        try:
            return os.write(self.input, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):  # EIO: a terminal without a program on it
                raise
            self.close_input()
            return None

    def close_input(self) -> None:
        """Close our end of the command's stdin, if it is open."""
        if self.input >= 0:
            fd, self.input = self.input, -1
            os.close(fd)

    def resize(self, rows: int, columns: int) -> None:
        """Tell the run's terminal its size. RequestError when it has none, or it is gone."""
        if not self.spec.pty or self.input < 0:
            raise self.refused("has no terminal", errno.ENOTTY, "start it with pty=True")
        try:
            set_window_size(self.input, rows, columns)
        except OSError as error:
            raise self.refused("has lost its terminal", error.errno or errno.EIO) from None

    # The end.

    def settle_bound_s(self) -> float:
        """How long the run may take from the request to stop until it is settled; see `conversation.settle_bound_s`."""
        return settle_bound_s(self.spec)

    def kill_guard(self) -> None:
        """Kill sentinel and guard: the last resort when they do not answer. The run is lost; the caller cleans up."""
        kill_both(self.pidfd, self.sentinel_pid, self.guard_pid, self.first_run)

    def clean_up(self) -> None:
        """End what a lost guard left, and note that as facts. Blocks for milliseconds, at most 10 s.

        RequestError: the guard lives, only our connection was lost. StateError, OSError: the end cannot be recorded.
        """
        self._observed = self._end_lost(self)
        self.refresh()

    def reap(self, *, wait: bool = False) -> bool:
        """Reap the sentinel; False while it has not exited yet.

        `wait`: the run is over, and the sentinel exits after its guard. A sentinel that a process stops again and again
        is killed then: it has nothing to do any more.
        """
        if self.pidfd < 0:
            return True
        if wait:
            self._await_exit()
        try:
            if os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | (0 if wait else os.WNOHANG)) is None:
                return False
        except ChildProcessError:
            pass  # a waitpid(-1) of the embedding program was faster, or SIGCHLD is ignored: it is reaped
        fd, self.pidfd = self.pidfd, -1
        os.close(fd)
        return True

    def _await_exit(self) -> None:
        gone = select.poll()
        gone.register(self.pidfd, select.POLLIN)
        for number in (signal.SIGCONT, signal.SIGKILL):
            if gone.poll(_EXITS_WITHIN_MS):
                return
            signal.pidfd_send_signal(self.pidfd, number)

    def report(self) -> dict[str, Any]:
        """The report as far as the journal was read. It is made again only when there is more."""
        seen = (self.reader.position, len(self._observed))
        if self._reported is None or self._reported[0] != seen:
            from .result import report_of  # here, because `holdfast run` seldom needs a report

            self._reported = (seen, report_of(self.reader, self.facts))
        return dict(self._reported[1])

    def result(self, output: tuple[bytes, bytes] | None = None) -> Result:
        """The result of a settled run. Collects the output unless the caller has it already.

        In a windowed run the consumer has taken the output, and the result has none.
        """
        from .result import Result

        reader = self.reader
        if output is None:
            output = (b"", b"") if self.windowed else (reader.collect("stdout"), reader.collect("stderr"))
        return Result(self.spec.run_id, self.outcome, output, self.facts, reader)

    @property
    def guard_is_reusable(self) -> bool:
        """Whether the guard can go to the pool: it waits for another run once its tree is gone, and there is room."""
        tree = self.outcome.tree
        return (
            self.pool is not None
            and self.pool.has_room
            and self.reader.ended
            and tree is not None
            and tree.detail["how"] == "gone"
        )

    def part_from_guard(self) -> None:
        """Give the guard to the pool of idle guards. What is known of the run stays."""
        assert self.pool is not None
        self.pool.give(self.conversation.hand_over(), self.pidfd, self.sentinel_pid, self.first_run)
        self.pool, self.pidfd = None, -1

    def close_control(self) -> None:
        """Close what only a live run needs. If the run has not ended, its guard sees that its owner is gone."""
        self.conversation.close()
        self.close_input()
        if self.heartbeat >= 0:
            fd, self.heartbeat = self.heartbeat, -1
            os.close(fd)

    def close(self) -> None:
        """Close every descriptor. What was read stays readable."""
        self.close_control()
        if self.pidfd >= 0:
            fd, self.pidfd = self.pidfd, -1
            os.close(fd)
        self.close_journal()

    def close_journal(self) -> None:
        """Close the journal, if it is open. The facts that were read stay; its output cannot be read any more."""
        if self.journal >= 0:
            fd, self.journal = self.journal, -1
            os.close(fd)

    def check_open(self) -> None:
        """Check that the output can be read. HoldfastError: the journal was closed."""
        if self.journal < 0:
            message, remedy = "the run was closed", "ask for its output before close()"
            raise HoldfastError(message, run_id=self.spec.run_id, remedy=remedy)

    def __del__(self) -> None:
        if hasattr(self, "journal"):
            self.close()
