"""The keyword arguments of the drop-ins, for type checkers: what the originals take, and the options of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from ..values.fields import Duration
from ..values.ladder import Ladder

if TYPE_CHECKING:
    import trio

Word = str | bytes | PathLike[str] | PathLike[bytes]
Command = Word | Sequence[Word]
Stream = int | IO[Any] | None


class HasFileno(Protocol):
    """What trio takes for a file."""

    def fileno(self) -> int:
        """The descriptor."""


class Added(TypedDict, total=False):
    """The options that Holdfast adds everywhere."""

    max_timeout: Duration | None
    idle_timeout: Duration | None
    idle_counts: str | Iterable[str]
    grace: Duration
    ladder: Ladder | None
    drain: Duration
    drain_idle: Duration
    kill_wait: Duration
    stragglers: str
    warn_before: Duration | None
    warn_signal: str | int
    memory: str | int | None
    pids: str | int | None
    cpu_time: Duration | None
    env_keep: str | Iterable[str]
    env_drop: str | Iterable[str]
    session: str | None
    labels: Mapping[str, str] | None
    name: str | None
    run_id: str | None


class Deadline(TypedDict, total=False):
    """The deadline of the run, where the original has no timeout."""

    timeout: Duration | None


class ChildKeywords(TypedDict, total=False):
    """What all originals take for the child."""

    cwd: Word | None
    env: Mapping[str, str] | Mapping[bytes, bytes] | None
    start_new_session: bool
    pass_fds: Collection[int]
    user: str | int | None
    group: str | int | None
    extra_groups: Iterable[str | int] | None
    umask: int


class WindowsKeywords(TypedDict, total=False):
    """What most originals take for Windows; it means nothing elsewhere."""

    startupinfo: Any
    creationflags: int


class PosixKeywords(ChildKeywords, total=False):
    """What all but anyio take for the child."""

    preexec_fn: Callable[[], Any] | None
    close_fds: bool
    restore_signals: bool
    pipesize: int
    process_group: int | None


class Start(Added, PosixKeywords, WindowsKeywords, total=False):
    """The arguments of `subprocess` that do not change the type of the result."""

    executable: Word | None
    stdin: Stream
    stderr: Stream
    shell: bool
    bufsize: int


class StartWithOutput(Start, total=False):
    """The same, with the command's stdout."""

    stdout: Stream


class AsyncioStart(Added, Deadline, PosixKeywords, WindowsKeywords, total=False):
    """What asyncio takes beside streams and limit. It takes the last six with these values only."""

    executable: Word | None
    universal_newlines: Literal[False]
    shell: bool
    bufsize: Literal[0]
    encoding: None
    errors: None
    text: Literal[False] | None


class AnyioOpen(Added, Deadline, ChildKeywords, WindowsKeywords, total=False):
    """What `anyio.open_process` takes beside the command."""

    stdin: Stream
    stdout: Stream
    stderr: Stream


class AnyioRun(AnyioOpen, total=False):
    """What `anyio.run_process` takes beside the command."""

    input: bytes | None
    check: bool


class _TrioStart(Added, Deadline, PosixKeywords, total=False):
    executable: Word | None
    stdout: int | HasFileno | None
    stderr: int | HasFileno | None
    shell: bool


class TrioOpen(_TrioStart, total=False):
    """What `trio.lowlevel.open_process` takes beside the command."""

    stdin: int | HasFileno | None


class TrioRun(_TrioStart, total=False):
    """What `trio.run_process` takes beside the command."""

    stdin: bytes | bytearray | memoryview | int | HasFileno | None
    capture_stdout: bool
    capture_stderr: bool
    check: bool
    deliver_cancel: Callable[[trio.Process], Awaitable[object]] | None
    task_status: trio.TaskStatus[trio.Process]
