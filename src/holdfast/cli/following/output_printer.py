"""Print the output of a run, now or until its end: stdout to our stdout, stderr to our stderr."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...journal.reader import JournalReader
from ...outcome import lost_output
from ...runs.live import CHUNKS_BYTES
from ...values.timestamps import format_timestamp
from ...wording.sentences import output_lost
from ...wording.terminal_output import TerminalFilter
from ..lookup.records import damage_of, read_record
from ..parsing.command import put
from ..printing import messages
from ..printing.last_lines import LastLines
from .followed_run import FollowedRun

if TYPE_CHECKING:
    from ...journal.reader import Chunk
    from ...state.directory import StateDirectory
    from ..parsing.options import CommandLine

STREAMS = {"stdout": 1, "stderr": 2}
_LONGEST = 64 << 10  # bytes: a longer unfinished line is printed at once, and the bytes after it begin a new line


def print_output(
    state: StateDirectory, run_id: str, printer: LogPrinter, *, lines: int | None = None, follow: bool = False
) -> str | None:
    """Print the output of a run that has begun; with `lines` only the last ones, with `follow` until the run ends.

    Returns a sentence about output that is missing; None when there is all of it.
    """
    with read_record(state, run_id) as record:
        reader = JournalReader(record.fd, run_id=run_id)
        printer.offset_ns = _wall_offset(record.reader.header)
        if lines is None:
            printer.take_all(reader)
        else:
            printer.take_last(reader, lines)
        if follow:
            _follow(state, run_id, reader, printer)
        printer.end()
        lost = lost_output(reader.facts)
        return damage_of(record) or (f"{output_lost(lost)}; run {run_id}" if lost else None)


class LogPrinter:
    """Prints the output of a run: stdout to our stdout and stderr to our stderr.

    With --timestamps all output goes to stdout, as lines with their time; with --stream, only one stream does.
    """

    def __init__(self, given: CommandLine, since_ns: int | None) -> None:
        self.stream = given.last("--stream")
        self.since_ns = since_ns
        self.late = not given.has("--no-late")
        self.lines = LogLines() if given.has("--timestamps") else None
        self.offset_ns = 0  # a time of the journal plus this offset is wall-clock time
        self._late_mark = LateMark()
        self._missing: dict[str, int] = {}  # by stream: bytes that were not kept before the next piece
        self._filters = (
            {}
            if given.has("--raw")
            else {stream: TerminalFilter() for stream in STREAMS if os.isatty(self._descriptor(stream))}
        )

    def take_all(self, reader: JournalReader) -> None:
        """Print all output that the journal has now, and say where some is missing."""
        while chunks := reader.read(CHUNKS_BYTES):
            for chunk in chunks:
                self._take(chunk)
        self._tell_missing()

    def take_last(self, reader: JournalReader, lines: int) -> None:
        """Print the last lines of the output that the journal has now."""
        last = LastLines(lines)
        while chunks := reader.read(CHUNKS_BYTES):
            for chunk in chunks:
                if self._shows(chunk):
                    last.add(chunk)
        for chunk in last.cut():
            self._take(chunk)
        self._tell_missing()

    def _tell_missing(self) -> None:
        for stream, count in self._missing.items():
            self._late_mark.say(f"{count} bytes of {stream} are missing here: the run wrote more than its limit keeps")
        self._missing = {}

    def _shows(self, chunk: Chunk) -> bool:
        if (chunk.late and not self.late) or self.stream not in (None, chunk.stream):
            return False
        return self.since_ns is None or chunk.at_ns + self.offset_ns >= self.since_ns

    def _take(self, chunk: Chunk) -> None:
        if not self._shows(chunk):
            return
        if chunk.missing_bytes:
            self._missing[chunk.stream] = self._missing.get(chunk.stream, 0) + chunk.missing_bytes
            return
        self._tell_missing()
        if (terminal := self._filters.get(chunk.stream)) is not None:
            chunk = chunk._replace(data=terminal.feed(chunk.data))
        if self.lines is not None:
            put(self.lines.add(chunk, chunk.at_ns + self.offset_ns))
        else:
            fd = self._descriptor(chunk.stream)
            self._late_mark.before(chunk, fd)
            put(chunk.data, fd)

    def _descriptor(self, stream: str) -> int:
        # With --stream the user asked for this stream alone, so it goes to stdout.
        return 1 if self.stream or self.lines is not None else STREAMS[stream]

    def end(self) -> None:
        """Print the unfinished lines, and reset the colours that the run left on."""
        if self.lines is not None:
            put(self.lines.rest())
        for stream, terminal in self._filters.items():
            put(terminal.end(), self._descriptor(stream))


class LateMark:
    """Says once for each stream, on stderr, that the bytes from here on came after the verdict.

    Nothing is added to stdout, where programs read them.
    """

    def __init__(self) -> None:
        self._marked: set[str] = set()
        self._shared = os.path.sameopenfile(1, 2)  # an unfinished line of stdout is then unfinished on stderr, too
        self._line_open = False  # whether the last byte on stderr was in the middle of a line

    def before(self, chunk: Chunk, fd: int) -> None:
        """Print the mark if this is the first late chunk of its stream. Call it before the chunk is written to `fd`."""
        if chunk.late and chunk.stream not in self._marked:
            self._marked.add(chunk.stream)
            self.say(f"{chunk.stream} from here on is late: it came after the verdict (--no-late leaves it out)")
        if chunk.data and (fd == 2 or self._shared):
            self._line_open = not chunk.data.endswith(b"\n")

    def say(self, text: str) -> None:
        """Print a line of our own on stderr, after the end of an unfinished one."""
        if self._line_open:
            put(b"\n", 2)
        messages.say(text)
        self._line_open = False


class LogLines:
    """Cuts output into lines, and puts the time and the stream before each line; the bytes of a line stay as they are.

    Each stream's unfinished line is collected, so that two streams never share a line.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[bytes, bytes]] = {}

    def add(self, chunk: Chunk, wall_ns: int) -> bytes:
        """The lines that this chunk completes."""
        head, text = self._open.pop(chunk.stream, (b"", b""))
        fresh = f"{format_timestamp(wall_ns)} {chunk.stream}{' late' if chunk.late else ''}  ".encode()
        *lines, rest = (text + chunk.data).split(b"\n")
        done = b"".join((head or fresh if at == 0 else fresh) + line + b"\n" for at, line in enumerate(lines))
        if lines:
            head = b""
        if len(rest) > _LONGEST:
            done, rest = done + (head or fresh) + rest + b"\n", b""
        if rest:
            self._open[chunk.stream] = (head or fresh, rest)
        return done

    def rest(self) -> bytes:
        """The unfinished lines, each with a newline added."""
        left = b"".join(head + text + b"\n" for head, text in self._open.values())
        self._open.clear()
        return left


def _follow(state: StateDirectory, run_id: str, reader: JournalReader, printer: LogPrinter) -> None:
    """Print until the run ends. The guard is asked to report new output before each read, so that none is missed."""
    with FollowedRun(state, run_id) as followed:
        while True:
            ended = followed.ended
            followed.live.arm_output(reader.position)
            printer.take_all(reader)
            if ended:
                return
            followed.wait()


def _wall_offset(header: dict[str, int] | None) -> int:
    return header["wall_ns"] - header["boottime_ns"] if header else 0
