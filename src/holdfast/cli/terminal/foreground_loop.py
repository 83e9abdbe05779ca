"""The loop of `holdfast run`: pass output, input and signals between the caller and the run until it is settled.

Theory of operation. One thread, one poll. It polls the guard's control socket, the signal pipe, our output writers
while they are full and, when the command has a terminal, our stdin and that terminal's master. Everything else is state
that the loop checks after each turn. The loop reads the journal only while the writers have room. Unread output fills
the guard's window, and then the command waits, as it would on a full pipe.

Ends. The run decides when it is over. The loop ends when the run is settled and its output is written. A reader that
keeps reading gets every byte, however slow it is: after the end of the run the loop bounds the time without progress,
not the whole time. A reader that stops is given up on after that bound, with one exception: after a command that exited
by itself without a deadline, the loop waits for the reader as long as any program waits on a slow pipe.
"""

from __future__ import annotations

import errno
import os
import select
import time

from ...runs.guard_watch import ms_until, watch
from ...runs.live import CHUNKS_BYTES
from ...values.errors import RequestError
from ...values.fast_imports import TYPE_CHECKING, signal
from ...values.signals import STOPS
from .output_writer import open_writers
from .signal_pipe import PASSED_ON, cause_of_signal

if TYPE_CHECKING:
    from ...runs.live import LiveRun
    from ...state.directory import StateDirectory
    from .signal_pipe import SignalPipe
    from .terminal_input import TerminalInput

# One act may send a signal twice: `timeout` signals its child and then the whole group, and shells pass on a signal
# that the terminal has sent already. Within this time it is the same act; nobody presses Ctrl-C twice so fast.
ECHO_S = 0.03
_LOOK_S = 0.25  # how often a background job looks whether it is in the foreground
_ROOM = 1 << 20  # the loop reads no more of the journal while the writers hold this many bytes
_PATIENCE_S = 1.0  # this long after Ctrl-C a line says how to kill the run


class ForegroundLoop:
    """One run in the foreground, from just after its start."""

    def __init__(
        self,
        live: LiveRun,
        signals: SignalPipe,
        terminal_input: TerminalInput | None,
        *,
        state: StateDirectory | None,
        late: bool,
        quiet: bool,
    ) -> None:
        self.live = live
        self._state = state  # the directory that keeps the run, if any
        self.signals = signals
        self.terminal_input = terminal_input
        self.late = late or live.spec.pty  # the last output of a terminal program restores the terminal
        self.writers = open_writers()
        self.undelivered = False
        self.given_up_by = 0  # the signal that came while we waited only for a slow reader
        self._written = 0
        self._progress_at = 0.0  # when a reader last took bytes
        self._output = live.output_reader()
        self._read_all = False
        self._started_at = time.monotonic()
        self._ended_at = 0.0
        self._asked_at: float | None = None
        self._notice_at: float | None = None
        self._notices = not quiet and os.isatty(2)
        self._asked: list[int] = []  # tickets of the stop requests that signals caused
        self._asked_with = 0  # the last signal that asked for a stop
        self._facts_seen = 0
        self._poll = select.poll()
        self._watched: dict[int, int] = {}

    # The loop.

    def until_settled(self) -> None:
        """Return when the run is settled and its output is written, or when the reader does not take it in time."""
        while not self._done():
            self._watch()
            # Twice: a poll that was interrupted until its time was over, because we were stopped, has not looked.
            ready = dict(self._poll.poll(self._timeout_ms()) or self._poll.poll(0))
            if self.signals.fd in ready:
                self.take_signals(self.signals.take())
            if self.live.control.fileno() in ready:
                self._hear_guard()
            self._watch_guard()
            if self.terminal_input is not None:
                self._pass_input(self.terminal_input, ready)
            self._relay()
            self._notify()

    def close(self) -> None:
        """Close the descriptors that the writers opened."""
        for writer in self.writers.values():
            writer.close()

    def _done(self) -> bool:
        if not self.live.ended:
            return False
        if self._read_all and not self._waiting():
            self.given_up_by = 0  # the reader has everything after all
            return True
        until = self._deliver_until()
        self.undelivered = bool(self.given_up_by) or (until is not None and time.monotonic() >= until)
        return self.undelivered

    def _watch(self) -> None:
        wanted = {self.signals.fd: select.POLLIN}
        if not self.live.ended:
            wanted[self.live.control.fileno()] = select.POLLIN
        wanted.update((writer.fd, select.POLLOUT) for writer in set(self.writers.values()) if writer.pending)
        if self.terminal_input is not None:
            wanted.update(self.terminal_input.watch())
        for fd in self._watched.keys() - wanted.keys():
            self._poll.unregister(fd)
        for fd, events in wanted.items() - self._watched.items():
            self._poll.register(fd, events)  # or changes the events of a registered descriptor
        self._watched = wanted

    def _timeout_ms(self) -> float | None:
        waits = []
        if not self.live.ended:
            waits.append(ms_until(self.live.watchdog.next_at) / 1000)
        elif (until := self._deliver_until()) is not None:
            waits.append(max(0.0, until - time.monotonic()))
        if self._notice_at is not None:
            waits.append(max(0.0, self._notice_at - time.monotonic()))
        if self.terminal_input is not None and self.terminal_input.waits_for_foreground():
            waits.append(_LOOK_S)
        return min(waits) * 1000 if waits else None

    # The guard.

    def _watch_guard(self) -> None:
        if not self.live.ended and watch(self.live):
            self._note_end()

    def _note_end(self) -> None:
        self._ended_at = time.monotonic()
        # A signal that came when the run was over, and we had not heard of it, ends the wait for the reader.
        if self._asked_at is not None and not any(fact.kind == "stop_asked" for fact in self.live.facts):
            self.given_up_by = self._asked_with

    def _hear_guard(self) -> None:
        live = self.live
        live.hear_guard()
        if live.ended:
            self._note_end()
        changes = [fact.kind for fact in live.reader.facts[self._facts_seen :] if fact.kind in ("stopped", "continued")]
        self._facts_seen = len(live.reader.facts)
        # Only the last change counts: the run may be continued before we hear that it stopped.
        if changes and changes[-1] == "stopped" and self.terminal_input is not None and live.outcome.state == "running":
            self._suspend(group=True)

    def _stop(self, reason: str, number: int = 0, *, cause: str = "user", now: bool = False) -> int | None:
        """Ask for the end; returns the ticket of the answer, or None when the run is over."""
        person = cause == "user" and number != 0
        try:
            return self.live.ask_stop(cause, reason, now=now, signal=number, person=person)
        except RequestError:
            return None  # the journal says how it ended

    # Signals.

    def take_signals(self, numbers: bytes) -> None:
        """Turn each signal into its request to the guard, or suspend, or resize."""
        for number in numbers:
            if number in STOPS:
                self._stop_by_signal(number)
            elif number == signal.SIGTSTP:
                self._ask_signal(signal.SIGSTOP, tree=True)
                self._suspend(group=False)
            elif number in PASSED_ON:
                self._ask_signal(number, tree=False)
            elif self.terminal_input is not None and number in (signal.SIGWINCH, signal.SIGCONT):
                if number == signal.SIGCONT:
                    self.terminal_input.enter()
                self.terminal_input.resize()

    def _stop_by_signal(self, number: int) -> None:
        """The first signal asks the run to end, the second kills it; further signals add nothing.

        The rungs of an enclosing run are no second signal, however many come: they join the end that is under way.
        """
        if not self.live.ended and (cause := cause_of_signal(self._state, self.live.spec.parent)) == "parent":
            self._stop("", number, cause=cause)
            return
        at = time.monotonic()
        again = self._asked_at is not None
        if self._asked_at is not None and at - self._asked_at < ECHO_S:
            return
        self._asked_at, self._asked_with = at, number
        if self.live.ended:
            self.given_up_by = number
        elif len(self._asked) >= 2 and not any(map(self.live.conversation.has_answered, self._asked)):
            self.live.kill_guard()  # the guard answered neither request, and the user asks a third time
        else:
            if (ticket := self._stop("", number, now=again or number == signal.SIGQUIT)) is not None:
                self._asked.append(ticket)
            self._notice_at = at + _PATIENCE_S if self._notices and not again and number == signal.SIGINT else None

    def _notify(self) -> None:
        if self._notice_at is None or (not self.live.ended and time.monotonic() < self._notice_at):
            return
        self._notice_at = None
        if not self.live.ended:
            from ..printing.messages import say  # here, because most runs say nothing

            how = "stopping, its grace is running; press Ctrl-C once more to kill it now"
            say(f"{how}; run {self.live.spec.run_id}")

    def _suspend(self, *, group: bool) -> None:
        if self.terminal_input is not None:
            self.terminal_input.restore()
        self.signals.suspend(group=group)
        if self.terminal_input is not None:
            self.terminal_input.enter()
            self.terminal_input.resize()
        self._ask_signal(signal.SIGCONT, tree=True)

    def _ask_signal(self, number: int, *, tree: bool) -> None:
        try:
            self.live.ask_signal(number, tree=tree)
        except RequestError:
            pass  # the run is over

    # Input.

    def _pass_input(self, terminal_input: TerminalInput, ready: dict[int, int]) -> None:
        if terminal_input.waits_for_foreground():
            terminal_input.enter()
        terminal_input.on_ready(ready)
        if terminal_input.hung_up:
            terminal_input.hung_up = False
            cause = cause_of_signal(self._state, self.live.spec.parent)
            self._stop("the terminal was closed", signal.SIGHUP, cause=cause)

    # Output.

    def _relay(self) -> None:
        """Pass on the output, ask the guard to report new output, and read again what came in between."""
        armed_at = -1
        self._flush()
        while self._waiting() < _ROOM:
            chunks = self._output.read(CHUNKS_BYTES)
            for chunk in chunks:
                if self.late or not chunk.late:
                    self.writers[chunk.stream].add(chunk.data)
            self._flush()
            position = self._output.position
            if not chunks and self.live.ended:
                self._read_all = True
                return
            if not chunks and armed_at == position:
                return
            if not chunks or position - armed_at >= CHUNKS_BYTES:
                armed_at = position
                self.live.arm_output(position, release=True)

    def _flush(self) -> None:
        for name, writer in self.writers.items():
            was_broken = writer.broken
            writer.flush()
            if writer.broken and not was_broken:
                gone = writer.broken in (errno.EPIPE, errno.EIO)
                self._stop(f"nobody reads its {name}" if gone else f"{name} failed: {os.strerror(writer.broken)}")
        if (written := self._count_written()) != self._written:
            self._written, self._progress_at = written, time.monotonic()

    def _count_written(self) -> int:
        return sum(writer.written for writer in set(self.writers.values()))

    def count_undelivered(self) -> int:
        """Bytes of the ended run that were due to our readers and are not written."""
        recorded = self.live.reader
        late = 0 if self.late else recorded.late_bytes
        return recorded.stdout_bytes + recorded.stderr_bytes - late - self._count_written()

    def _waiting(self) -> int:
        return sum(writer.size for writer in set(self.writers.values()))

    def _deliver_until(self) -> float | None:
        """Until when to wait for a reader that does not read; None when there is no bound."""
        spec, decided_by = self.live.spec, self.live.outcome.decided_by
        by_itself = decided_by is not None and decided_by.kind == "exited" and self._asked_at is None
        if by_itself and spec.timeout_s is None:
            return None
        deadline = self._started_at + (spec.timeout_s or 0.0) if by_itself else 0.0
        return max(deadline, max(self._ended_at, self._progress_at) + spec.drain_s)
