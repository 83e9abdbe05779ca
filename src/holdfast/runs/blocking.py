"""Blocking runs: no event loop, usable from any thread."""

from __future__ import annotations

import array  # noqa: F401 - the reader's, now that there are descriptors to load it with
import select
from io import BytesIO
from typing import TYPE_CHECKING

from ..journal.reader import JournalReader
from ..values.errors import JournalError, RequestError, SpecError
from ..values.spec_cache import new_spec
from .ephemeral import start_ephemeral
from .live import CHUNKS_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from ..journal.reader import Chunk
    from ..values.fields import Text
    from ..values.options import SpecOptions
    from .live import LiveRun
    from .result import Result

_KILLED_S = 5.0
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
    """Run a command to its very end and return its result; a command that fails is a result, not an exception.

    `input` is written to the command's stdin, which is then closed. With `on_output` each piece of output is handed
    over as it comes and not kept, so memory stays bounded; when it is slow, the command waits. The options are those of
    `make_spec`. Any exception while waiting, KeyboardInterrupt included, kills the run first and is then raised again.

    SpecError: the options are wrong. ResourceError, GuardError: the run could not be started; nothing is left of it.
    """
    if input is not None:
        if not isinstance(input, (bytes, bytearray, memoryview)):
            raise SpecError(
                f"input is of type {type(input).__name__}", field="input", remedy="pass bytes: text.encode()"
            )
        if options.get("stdin") not in (None, "pipe"):
            raise SpecError("input and stdin were both given", field="stdin", remedy="leave one of them out")
        options["stdin"] = "pipe"
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
    except BaseException:
        _end(live)
        raise
    finally:
        # Only now: the guard was exiting while we collected. After END nothing holds it up any more, and a guard that
        # has closed its socket is exiting, too; for one that neither ended nor died we do not wait.
        live.reap(wait=live.ended or _wait_gone(live, 0))
        live.close()


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
            ended = self.live.ended  # looked at first: what was recorded before the end is then in what is read next
            more = self.deliver(ended)
            if ended and not more:
                return
            if not ended:
                self.serve(more)

    def serve(self, more: bool) -> None:
        """Wait for the guard, and for room in the command's stdin; not at all when there is more to deliver."""
        live, control = self.live, self.live.control.fileno()
        events = self.poll.poll(0 if more else None if self.output else self.look_ms)
        for fd, _ in events:
            if fd != control:
                self.feed(fd)
                continue
            live.hear_guard()
        if not events and self.output is None:
            self.look()

    def look(self) -> None:
        """Much output is gathered while the command still runs, on the other core; little is not worth waking for."""
        live = self.live
        live.refresh()
        if self.gathered is None and live.reader.stdout_bytes + live.reader.stderr_bytes >= CHUNKS_BYTES:
            self.gathered = _Gathered(live)
        flows = self.gathered is not None and self.gathered.take()
        self.look_ms = _NEXT_LOOK_MS if flows else min(self.look_ms * 2, _LAST_LOOK_MS)

    def result(self) -> Result:
        return self.live.result(None if self.gathered is None else self.gathered.output())

    def feed(self, fd: int) -> None:
        """Write some of the input; at its end, or when nobody reads it any more (which is no error), close it."""
        live = self.live
        written = live.write_input(self.data) if self.data else None
        if written is not None:
            self.data = self.data[written:]
        if written is None or not self.data:
            self.poll.unregister(fd)  # a closed number would be polled as whatever is opened next
            live.close_input()

    def deliver(self, ended: bool) -> bool:
        """Hand over some of the output that is there; True when there may be more."""
        if self.output is None:
            return False
        if self.take(self.output):
            self.arm(self.output)
            return True
        if ended:
            return False
        self.arm(self.output)
        return self.take(self.output)  # once more after arming: it may be there already

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
    """Much output on its way into a result: taken over, and given back to the journal, while the command still runs.

    Memory that a process has not touched before is what costs most here. So every byte is kept once, and comes through
    a buffer that is used again and again.
    """

    __slots__ = ("buffer", "live", "size", "stderr", "stdout")

    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self.stdout = BytesIO()
        self.stderr = BytesIO()
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        self.size = 0

    def take(self) -> bool:
        """Take over what the facts' reader has passed; whether there was something."""
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
    """Input as typed at a terminal: the end-of-file character ends a line that is under way, then the input."""
    return data + (b"\x04" if data.endswith(b"\n") else b"\x04\x04")


def _end(live: LiveRun) -> None:
    """End a run whose caller is going away, and wait until its guard is gone, which is bounded."""
    if live.ended:
        return
    try:
        live.ask_stop("user", "the caller was interrupted", now=True)
    except RequestError:
        pass  # the guard is gone, or stopped: the wait below finds out
    if not _wait_gone(live, live.settle_bound_s()):
        live.kill_guard()
        _wait_gone(live, _KILLED_S)
    try:
        live.hear_guard()
    except JournalError:
        pass  # perhaps that is what ended the waiting


def _wait_gone(live: LiveRun, within_s: float) -> bool:
    """Wait until the guard has closed its end of the socket, which it does by exiting."""
    poll = select.poll()
    poll.register(live.control.fileno(), 0)  # hang-up only: what it still says does not matter any more
    return bool(poll.poll(within_s * 1000))
