"""The loop of `holdfast attach`: relay output and input of a live run until it ends or the user detaches.

One thread and one poll, as in the foreground loop. The difference: another process owns the run. A signal to us, a
reader that goes away, or a terminal that hangs up ends the attachment and not the run.
"""

from __future__ import annotations

import select
import signal
from collections import deque
from typing import TYPE_CHECKING

from ...journal.reader import JournalReader
from ...runs.live import CHUNKS_BYTES
from ...values.errors import RequestError
from ...values.signals import STOPS
from ..terminal.output_writer import OutputWriter
from .attached_input import AttachedInput

if TYPE_CHECKING:
    from ...journal.reader import Chunk
    from ..terminal.signal_pipe import SignalPipe
    from .followed_run import FollowedRun

_ROOM = 1 << 20
_LOOK_S = 0.25  # how often a background job looks whether it is in the foreground


class Attachment:
    """One attachment to a run, made when its guard is connected. The caller closes `journal`."""

    def __init__(self, followed: FollowedRun, journal: int, signals: SignalPipe, key: bytes) -> None:
        self.followed = followed
        self.signals = signals
        self.key = key
        self.output = JournalReader(journal, run_id=followed.run_id)
        self.writers = {"stdout": OutputWriter(1), "stderr": OutputWriter(2)}
        self.left_by: str | None = None
        self.input: AttachedInput | None = None
        self._read_all = False

    def skip(self, keep_bytes: int) -> None:
        """Skip the output that the run has written so far, except for its last bytes."""
        kept: deque[Chunk] = deque()
        size = 0
        while chunks := self.output.read(CHUNKS_BYTES):
            for chunk in chunks:
                kept.append(chunk)
                size += len(chunk.data)
                while kept and size - len(kept[0].data) >= keep_bytes:
                    size -= len(kept.popleft().data)
        for chunk in kept:
            cut = max(0, size - keep_bytes)
            self.writers[chunk.stream].add(chunk.data[cut:])
            size -= min(cut, len(chunk.data))

    def until_over(self) -> None:
        """Return when the run is settled and its output is written, or when the user leaves: `left_by` says how."""
        self._ask_input()
        try:
            self._relay()  # before the first wait, because it asks the guard to wake us for output
            while self.left_by is None and not (self.followed.ended and self._read_all and not self._waiting()):
                self._turn()
        finally:
            if self.input is not None:
                self.input.restore()
            for writer in self.writers.values():
                writer.flush()
                writer.close()

    def _turn(self) -> None:
        ready = self._poll()
        if self.signals.fd in ready:
            self._take_signals(self.signals.take())
        live = self.followed.live
        if self.followed.fd in ready or self.followed.timeout_s is not None:
            self.followed.on_ready()
            if self.followed.live is not live:
                self._ask_input()
        if self.input is not None:
            self._pass_input(self.input, ready)
        self._relay()

    def _poll(self) -> dict[int, int]:
        poll = select.poll()
        poll.register(self.signals.fd, select.POLLIN)
        if self.followed.fd >= 0 and not self.followed.ended:
            poll.register(self.followed.fd, select.POLLIN)
        for writer in self.writers.values():
            if writer.pending:
                poll.register(writer.fd, select.POLLOUT)
        bounds = [] if self.followed.timeout_s is None else [self.followed.timeout_s]
        if self.input is not None and not self.followed.ended:
            for fd, events in self.input.watch().items():
                poll.register(fd, events)
            if self.input.waits_for_foreground():
                bounds.append(_LOOK_S)
        elif self.followed.ended and not self._waiting():
            bounds.append(0.0)
        return dict(poll.poll(min(bounds) * 1000 if bounds else None))

    def _ask_input(self) -> None:
        """Ask the guard for the command's terminal or stdin, if there is one to write to."""
        self.input = None
        if self.followed.ended:
            return
        live = self.followed.live
        try:
            live.wait_answered(live.ask_input())
        except RequestError:
            return  # the run has no input, is over, or its guard does not answer: its output can still be read
        self.input = AttachedInput(live, self.key)
        self._resize(self.input)
        self.input.enter()

    def _pass_input(self, source: AttachedInput, ready: dict[int, int]) -> None:
        if source.waits_for_foreground():
            source.enter()
        source.on_ready(ready)
        if source.detached or source.hung_up:
            self.left_by = "the detach key" if source.detached else "the end of the terminal"

    def _take_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number in STOPS:
                self.left_by = signal.Signals(number).name
            elif number == signal.SIGTSTP:
                self._suspend()
            elif self.input is not None and number in (signal.SIGWINCH, signal.SIGCONT):
                self.input.enter()
                self._resize(self.input)

    def _suspend(self) -> None:
        if self.input is not None:
            self.input.restore()
        self.signals.suspend(group=False)
        if self.input is not None:
            self.input.enter()

    def _resize(self, source: AttachedInput) -> None:
        if not self.followed.live.spec.pty:
            return
        try:
            source.resize()
        except RequestError:
            pass  # its terminal is gone: the run is about to end

    def _relay(self) -> None:
        """Pass on the output that the journal has. The guard is asked to report new output before each read."""
        self._flush()
        while self._waiting() < _ROOM:
            ended = self.followed.ended
            if not ended:
                self.followed.live.arm_output(self.output.position)
            chunks = self.output.read(CHUNKS_BYTES)
            for chunk in chunks:
                self.writers[chunk.stream].add(chunk.data)
            self._flush()
            if not chunks:
                self._read_all = ended
                return

    def _flush(self) -> None:
        for name, writer in self.writers.items():
            writer.flush()
            if writer.broken:
                self.left_by = self.left_by or f"the end of our {name}"

    def _waiting(self) -> int:
        return sum(writer.size for writer in self.writers.values())
