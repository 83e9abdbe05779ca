"""`holdfast.run`: one run in a blocking call, without an event loop, from any thread."""

from __future__ import annotations

import array  # noqa: F401 - for the reader: loading it later may fail for want of a descriptor
import select
from io import BytesIO
from typing import TYPE_CHECKING

from ..journal.reader import JournalReader
from ..values.errors import JournalError, RequestError, SpecError
from ..values.fast_imports import signal
from ..values.spec_cache import new_spec
from .ephemeral import start_ephemeral
from .guard_watch import ms_until, watch
from .live import CHUNKS_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from ..journal.reader import Chunk
    from ..values.fields import Text
    from ..values.options import SpecOptions
    from .live import LiveRun
    from .result import Result

_FIRST_LOOK_MS = 20
_NEXT_LOOK_MS = 4
_BUFFER_BYTES = 256 << 10
_LAST_LOOK_MS = 60_000


def run(
    argv: Sequence[Text],
    *,
    input: bytes | None = None,  # noqa: A002 - the name subprocess.run taught everybody
    on_output: Callable[[Chunk], object] | None = None,
    **options: Unpack[SpecOptions],
) -> Result:
    """Run a command until it is settled and return its result. A command that fails is a result, not an exception.

    `input` is written to the command's stdin, which is then closed. `on_output` gets each piece of output as it comes;
    the pieces are not kept, so memory stays bounded, and the command waits while `on_output` is slow. The options are
    those of `make_spec`. An exception while waiting, KeyboardInterrupt included, ends the run by its ladder and is
    raised again. A second KeyboardInterrupt kills the run.

    SpecError: the options are wrong. ResourceError, GuardError: the run was not started, and nothing is left of it.
    """
    if input is not None:
        options = with_input(input, options)
    spec = new_spec(argv, options)
    if spec.lifetime != "owner":
        remedy = "use a Supervisor with a state_dir, or holdfast run --detach"
        message = f"a run of lifetime {spec.lifetime!r} cannot end with the call that started it"
        raise SpecError(message, field="lifetime", run_id=spec.run_id, remedy=remedy)
    streaming = on_output is not None
    live = start_ephemeral(spec, wake_output=streaming, windowed=streaming)
    try:
        waiting = _Waiting(live, input, on_output)
        waiting.until_settled()
        return waiting.result()
    except BaseException as error:
        _end(live, int(signal.SIGINT) if isinstance(error, KeyboardInterrupt) else 0)
        raise
    finally:
        # Only now, because the guard was exiting while we collected the output. We wait only for a guard that is
        # exiting: it has recorded END, or has closed its socket.
        live.reap(wait=live.ended or _wait_gone(live, 0))
        live.close()


def with_input(data: object, options: SpecOptions) -> SpecOptions:
    """The options of a run that gets input. SpecError: the input is not bytes, or the options name another stdin."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SpecError(f"input is of type {type(data).__name__}", field="input", remedy="pass bytes: text.encode()")
    if options.get("stdin") not in (None, "pipe"):
        raise SpecError("input and stdin were both given", field="stdin", remedy="leave one of them out")
    return {**options, "stdin": "pipe"}


class _Waiting:
    """The poll loop of one blocking run."""

    __slots__ = ("data", "gathered", "live", "look_ms", "on_output", "output", "poll", "released")

    def __init__(self, live: LiveRun, data: bytes | None, on_output: Callable[[Chunk], object] | None) -> None:
        self.live = live
        self.on_output = on_output
        self.output = None if on_output is None else JournalReader(live.journal, trusted=live.trusted)
        self.released = 0
        self.gathered: _Gathered | None = None
        self.look_ms = _FIRST_LOOK_MS
        self.data = memoryview(_typed(data) if data and live.spec.pty else data or b"")
        self.poll = select.poll()
        self.poll.register(live.control.fileno(), select.POLLIN)
        if live.input >= 0:
            self.poll.register(live.input, select.POLLOUT)

    def until_settled(self) -> None:
        while True:
            ended = self.live.ended  # before the read: then the read finds everything that was recorded before the end
            more = self.deliver(ended)
            if ended and not more:
                return
            if not ended:
                self.serve(more)

    def serve(self, more: bool) -> None:
        """Wait until the guard sends something or stdin has room. With `more` to deliver, look without waiting."""
        live, control = self.live, self.live.control.fileno()
        events = self.poll.poll(0 if more else self.wait_ms())
        for fd, _ in events:
            if fd != control:
                self.feed(fd)
                continue
            live.hear_guard()
        watch(live)
        if not events and self.output is None:
            self.look()

    def wait_ms(self) -> float:
        watch_ms = ms_until(self.live.watchdog.next_at)
        return watch_ms if self.output is not None else min(self.look_ms, watch_ms)

    def look(self) -> None:
        """Take output over while the command still runs, once there is much of it.

        The guard does not wake us for output here. So we look at intervals, which grow while there is little output.
        """
        live = self.live
        live.refresh()
        much = live.reader.stdout_bytes + live.reader.stderr_bytes >= CHUNKS_BYTES
        if self.gathered is None and much and live.spec.on_max_output != "roll":  # or some of it is taken out again
            self.gathered = _Gathered(live)
        flows = self.gathered is not None and self.gathered.take()
        self.look_ms = _NEXT_LOOK_MS if flows else min(self.look_ms * 2, _LAST_LOOK_MS)

    def result(self) -> Result:
        return self.live.result(None if self.gathered is None else self.gathered.output())

    def feed(self, fd: int) -> None:
        """Write some of the input. Close stdin after the last byte, or when the command has closed it: no error."""
        live = self.live
        written = live.write_input(self.data) if self.data else None
        if written is not None:
            self.data = self.data[written:]
        if written is None or not self.data:
            self.poll.unregister(fd)  # before the close: after it, another file may get this number
            live.close_input()

    def deliver(self, ended: bool) -> bool:
        """Give some of the output to `on_output`; True when there may be more."""
        if self.output is None:
            return False
        if self.take(self.output):
            self.arm(self.output)
            return True
        if ended:
            return False
        self.arm(self.output)
        return self.take(self.output)  # once more after arming: there may be output already

    def arm(self, output: JournalReader) -> None:
        if output.position != self.released or not self.live.conversation.is_armed:
            self.released = output.position
            self.live.arm_output(self.released, release=True)

    def take(self, output: JournalReader) -> bool:
        chunks = output.read(CHUNKS_BYTES)
        if self.on_output is not None:
            for chunk in chunks:
                if not chunk.late:
                    self.on_output(chunk)
        return bool(chunks)


class _Gathered:
    """Output taken over while the command still runs, so that the journal's memory can be given back.

    Touching new memory costs most here. So every byte is kept once, and is copied through one buffer.
    """

    __slots__ = ("buffer", "live", "size", "stderr", "stdout")

    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self.stdout = BytesIO()
        self.stderr = BytesIO()
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        self.size = 0

    def take(self) -> bool:
        """Take over the output that the facts' reader has passed; returns whether there was any."""
        live, before = self.live, self.size
        live.reader.hand_over("stdout", self.stdout.write, self.buffer)
        live.reader.hand_over("stderr", self.stderr.write, self.buffer)
        self.size = self.stdout.tell() + self.stderr.tell()
        if self.size != before and not live.ended:
            live.release(live.reader.position)
        return self.size != before

    def output(self) -> tuple[bytes, bytes]:
        self.take()
        return self.stdout.getvalue(), self.stderr.getvalue()


def _typed(data: bytes) -> bytes:
    """Add end-of-file characters to input for a terminal: one ends an unfinished line, the next one ends the input."""
    return data + (b"\x04" if data.endswith(b"\n") else b"\x04\x04")


def _end(live: LiveRun, number: int) -> None:
    """End a run whose caller raises, and wait until its guard is gone: the run has its grace. The wait is bounded.

    Interrupted again, by a second Ctrl-C, it kills the run.
    """
    if live.ended:
        return
    try:
        _end_within(live, number, now=False)
    except BaseException:
        _end_within(live, number, now=True)
        raise
    try:
        live.hear_guard()
    except JournalError:
        pass  # perhaps this is the error that the caller gets


def _end_within(live: LiveRun, number: int, *, now: bool) -> None:
    try:
        live.ask_stop("user", "the caller was interrupted", now=now, signal=number)
    except RequestError:
        pass  # the guard is gone, or stopped: the wait below tells
    try:
        while not _wait_gone(live, ms_until(live.watchdog.next_at)) and not watch(live):
            pass
    except JournalError:
        live.kill_guard()  # perhaps this is the error that the caller gets


def _wait_gone(live: LiveRun, within_ms: float) -> bool:
    """Wait until the guard has closed its end of the socket, which it does when it exits."""
    poll = select.poll()
    poll.register(live.control.fileno(), 0)  # hang-up only: what the guard says does not matter any more
    return bool(poll.poll(within_ms))
