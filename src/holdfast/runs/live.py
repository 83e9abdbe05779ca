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
  consumer have read, because a hole reads as zeros, and zeros mean "nothing more yet". Output that rolls is taken out
  of a journal that others read, too: there a gap frame tells a hole (`journal/gap_trail.py`).
- a fork of the embedding program holds copies of our descriptors, so closing ours is no end of file for the guard. The
  guard therefore watches `owner_pid` as well. `close` and the finaliser never send anything, so a copy that goes away
  in a forked child does nothing to the run.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import time

from .. import outcome as outcomes
from ..guard import packets
from ..guard.conversation import ANSWER_S, Conversation, settle_bound_s
from ..guard.descriptors import set_window_size
from ..guard.processes import continue_both, kill_both
from ..journal.facts import CAUSES, SPAWN_STEPS, make_fact
from ..journal.reader import JournalReader
from ..values.durations import parse_duration
from ..values.entry import FAILURE_BYTES
from ..values.errors import HoldfastError, JournalDamagedError, RequestError, SpecError
from ..values.fast_imports import TYPE_CHECKING, signal
from ..values.identity import is_exiting
from .watchdog import watchdog_of

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from typing import Any

    from ..guard.launch import GuardHandle
    from ..guard.pool import GuardPool
    from ..journal.facts import Fact
    from ..outcome import Outcome
    from ..proc.run_tree import RunTree
    from ..values.fields import Duration
    from ..values.spec import RunSpec
    from .result import Result

_FORKED_S = 1.0
_EXITS_WITHIN_MS = 1000  # from the end of the run to the exit of the sentinel
CHUNKS_BYTES = 1 << 20  # how much a consumer takes at once
STOP_CAUSES = tuple(CAUSES.words.values())
_going_on: list[int] = []  # pidfds of sentinels, children of ours, whose guards keep the stragglers of ended runs


class LiveRun:
    """A run under its guard: its descriptors, what is known of it, and what can be asked of it."""

    __slots__ = (
        "_end_lost",
        "_entry",
        "_keep",
        "_known_facts",
        "_observed",
        "_outcome",
        "_output_readers",
        "_reported",
        "_rest",
        "_was_killed",
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
        "watchdog",
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
        kept: bool = False,
        keep: Callable[[LiveRun], None] | None = None,
    ) -> None:
        """`end_lost` ends what a lost guard left, and returns the facts that no journal will hold.

        `kept`: the journal is a file. `keep` lets stragglers go on as a run of their own, when there are some.
        """
        self.spec = spec
        self._keep = keep
        self._end_lost = end_lost
        self.pool: GuardPool | None = None  # where the guard goes when the run is over
        self.conversation = Conversation(
            spec.run_id, handle.control, sentinel_pid=handle.sentinel_pid, is_armed=wake_output, is_kept=kept
        )
        self.journal = handle.journal
        self.pidfd = handle.pidfd
        self.first_run = handle.first_run
        self.input = -1 if handle.input is None else handle.input
        self.heartbeat = -1 if handle.heartbeat is None else handle.heartbeat
        self._entry = -1 if handle.entry is None else handle.entry
        self.trusted = handle.trusted
        self.reader = JournalReader(
            handle.journal, trusted=handle.trusted, run_id=spec.run_id, beginning=handle.beginning
        )
        self._rest = -1  # the rest of the journal, if the guard had to end before its file had all of it
        self._output_readers: list[JournalReader] = []
        self.windowed = windowed
        self.watchdog = watchdog_of(spec, is_ours=handle.sentinel_pid != 0)
        self.guard_lost = False
        self._was_killed = False
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
        # Each look into /proc may see another moment of a short run, so the first PID that one finds is the answer.
        while (found := self.conversation.guard_pid) == 0 and is_exiting(self.sentinel_pid) is False:
            if time.monotonic() >= until:
                break
            time.sleep(0.001)  # the sentinel is about to fork it: there is no event to wait for
        if found == 0:
            self.refresh()  # the run was over before we looked into /proc
        if (started := self.outcome.started) is not None:
            found = self.conversation.guard_pid = int(started.detail["guard_pid"])
        return found

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

    @property
    def tree(self) -> RunTree:
        """The live processes of the run, by the facts that were read so far."""
        from ..proc.run_tree import RunTree  # here, because most owners never ask

        return RunTree.of(self.spec.run_id, self.reader.header, self.outcome)

    @property
    def is_unrecorded(self) -> bool:
        """Whether the run ended while its storage hung: we know the end from its guard, and the file has it later."""
        return self.conversation.unrecorded is not None

    @property
    def kept_on(self) -> str | None:
        """The id of the run in which the stragglers of this run go on; None when there is none."""
        facts = self.reader.facts if self.spec.stragglers == "session" else ()
        return next((str(fact.detail["run_id"]) for fact in facts if fact.kind == "kept_on"), None)

    def output_reader(self) -> JournalReader:
        """A reader for the output, with a position of its own."""
        reader = JournalReader(self.journal, trusted=self.trusted, run_id=self.spec.run_id)
        if self._rest >= 0 and self.conversation.unrecorded is not None:
            reader.continue_in(self._rest, self.conversation.unrecorded.kept_from)
        self._output_readers.append(reader)
        if self.rolls:
            self._hold()
        return reader

    def forget_reader(self, reader: JournalReader) -> None:
        """Nobody reads on with this reader of the output. What it has not read may be taken out of the journal."""
        if reader in self._output_readers:
            self._output_readers.remove(reader)
            if self.rolls and not self.ended:
                self._hold()

    def _hold(self) -> None:
        held = [max(1, reader.position) for reader in self._output_readers]
        self.conversation.tell(packets.release(min(held)) if held else packets.hold_nothing())

    @property
    def rolls(self) -> bool:
        """Whether output is taken out of the journal when there is much. Readers here tell the guard what they need."""
        return self.spec.on_max_output == "roll" and self.spec.max_output_bytes is not None and not self.windowed

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
        self._take_descriptor()
        self.refresh()
        if self._keep is not None and self.outcome.stragglers is not None and not self.ended:
            keep, self._keep = self._keep, None
            keep(self)
            self.refresh()
        self.guard_lost = not is_open and not self.reader.ended

    def hear_guard(self) -> None:
        """Take in what the guard has said, and clean up if it is lost. Raises as `refresh` and `clean_up` do."""
        self.on_readable()
        if self.guard_lost:
            self.clean_up()

    @property
    def entry(self) -> int:
        """Readable when the command of a run with an entry is executed, or cannot be; see `take_exec`."""
        return self._entry

    def take_exec(self) -> tuple[str, int] | None:
        """The step that failed before the exec and its errno, if one did. The run is read up to its start.

        Does not block: without an answer, nobody is left who would give one.
        """
        os.set_blocking(self._entry, False)
        try:
            answer = self._read_entry()
        except ConnectionResetError:  # the child has not read its entry; what it told comes after this error
            answer = self._read_entry()
        os.close(self._entry)
        self._entry = -1
        self.refresh()
        if len(answer) == FAILURE_BYTES:
            step, code = (int.from_bytes(answer[at : at + 4], sys.byteorder, signed=True) for at in (0, 4))
            return SPAWN_STEPS.word(step), code
        return None

    def _read_entry(self) -> bytes:
        try:
            return os.read(self._entry, FAILURE_BYTES)  # end of file: exec closed the other end
        except BlockingIOError:
            return b""

    def wait_answered(self, ticket: int) -> None:
        """Block until the guard has done what was asked. RequestError: refused, too late, or no answer in time."""
        is_answered = self.conversation.wait(ticket, time.monotonic() + ANSWER_S)
        self._take_descriptor()
        self.refresh()  # the wakes that came before the answer are taken in
        if not is_answered and self.ended:
            raise RequestError.too_late(self.spec.run_id)
        self.conversation.conclude(ticket)

    def _take_descriptor(self) -> None:
        if (descriptor := self.conversation.take_descriptor()) < 0:
            return
        if (rest := self.conversation.unrecorded) is None:
            self.close_input()
            self.input = descriptor
            return
        self._close_rest()
        self._rest = descriptor
        for reader in (self.reader, *self._output_readers):
            reader.continue_in(descriptor, rest.kept_from)
        self.refresh()
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._observed = (make_fact("recording_stalled", now, for_ns=rest.stalled_ns),)

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
        self.watchdog.stop_was_asked(time.monotonic())
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
        if release and self.rolls:
            consumed = min((reader.position for reader in self._output_readers), default=0)
        elif release:
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

    def kill_guard(self, within_s: float = 1.0, *, pidfd: int | None = None) -> None:
        """Kill sentinel and guard: the last resort when they do not answer. The run is lost; the caller cleans up.

        Returns when the guard is dead, or after `within_s`. `pidfd`: the caller's own descriptor of the sentinel.
        """
        self._was_killed = True
        kill_both(self.pidfd if pidfd is None else pidfd, self.sentinel_pid, self.guard_pid, self.first_run, within_s)

    def clean_up(self) -> None:
        """End what a lost guard left, and note that as facts. Blocks for milliseconds, at most 10 s.

        RequestError: the guard lives, only our connection was lost. StateError, OSError: the end cannot be recorded.
        """
        self._observed = self._end_lost(self)
        self.refresh()

    def reap(self, *, wait: bool = False) -> bool:
        """Reap the sentinel; False while it has not exited yet.

        `wait`: the run is over, and the sentinel exits after its guard. A sentinel that a process stops again and again
        is killed then: it has nothing to do any more. If it cannot be killed, it is left to init.
        """
        if self.pidfd < 0:
            return True
        if self.kept_on is not None:
            self._leave_guard()
            return True
        if wait:
            self._await_exit()
        try:
            # Never without WNOHANG: a sentinel that waits for a device cannot even be killed.
            ended = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
            if ended is None and not wait:
                return False
            if ended is not None and ended.si_code != os.CLD_EXITED:
                self._continue_guard()
        except ChildProcessError:
            pass  # a waitpid(-1) of the embedding program was faster, or SIGCHLD is ignored: it is reaped
        fd, self.pidfd = self.pidfd, -1
        os.close(fd)
        if self._was_killed:
            self._remove_leaf()
        return True

    def _continue_guard(self) -> None:
        """Continue a guard whose sentinel was killed: if it was stopped as well, nobody else will."""
        started = self.outcome.started
        continue_both(0 if started is None else int(started.detail["guard_pid"]), self.first_run)

    def _leave_guard(self) -> None:
        """Leave the guard to its next run. When it exits, a later call for another such run reaps it, or init does."""
        _going_on.append(self.pidfd)
        self.pidfd = -1
        for fd in list(_going_on):
            try:
                if os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG) is None:
                    continue
            except ChildProcessError:
                pass  # a waitpid(-1) of the embedding program was faster
            _going_on.remove(fd)
            os.close(fd)

    def _remove_leaf(self) -> None:
        """Remove the empty cgroup of a guard that was killed: it may have ended the run, and kept its leaf."""
        from ..guard.leftovers import remove_leaf  # here, because guards are seldom killed

        if (started := self.outcome.started) is not None and started.detail["cgroup"]:
            remove_leaf(started.detail["cgroup"])

    def _await_exit(self) -> None:
        gone = select.poll()
        gone.register(self.pidfd, select.POLLIN)
        for number in (signal.SIGCONT, signal.SIGKILL):
            if gone.poll(_EXITS_WITHIN_MS):
                return
            signal.pidfd_send_signal(self.pidfd, number)
        gone.poll(_EXITS_WITHIN_MS)

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
            and not self.watchdog.has_acted
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
        if self._entry >= 0:
            fd, self._entry = self._entry, -1
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
            self.reader.close()
            fd, self.journal = self.journal, -1
            os.close(fd)
        self._close_rest()

    def _close_rest(self) -> None:
        if self._rest >= 0:
            fd, self._rest = self._rest, -1
            os.close(fd)

    def check_open(self) -> None:
        """Check that the output can be read. HoldfastError: the journal was closed."""
        if self.journal < 0:
            message, remedy = "the run was closed", "ask for its output before close()"
            raise HoldfastError(message, run_id=self.spec.run_id, remedy=remedy)

    def __del__(self) -> None:
        if hasattr(self, "journal"):
            self.close()
