"""The system call in which a process is blocked, and the files it waits for, read from `/proc` without stopping it.

All reads go through one open `/proc/PID`, which stands for that process for ever: when the process is gone, reads fail,
even if another process has its PID by then. The answer is None for what the kernel hides from this user, and `unknown`
for a kernel or machine that is not in the tables here. It is never a guess.
"""

from __future__ import annotations

import os

from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from ..values.identity import parse_stat

if TYPE_CHECKING:
    from collections.abc import Iterator

_MACHINES: dict[str, dict[str, tuple[int, ...]]] = {
    "x86_64": {
        "read": (0, 19, 275),  # read, readv, splice
        "poll": (7, 271),
        "select": (23, 270),
        "epoll": (232, 281, 441),
        "child": (61, 247),
        "unknown": (219, 426),  # restart_syscall hides the restarted call; io_uring hides everything
    },
    "aarch64": {
        "read": (63, 65, 76),
        "poll": (73,),
        "select": (72,),
        "epoll": (22, 441),
        "child": (260, 95),
        "unknown": (128, 426),
    },
}
_CALLS = {number: call for call, numbers in _MACHINES.get(os.uname().machine, {}).items() for number in numbers}
# Where a security module such as Yama hides the call, the kernel may still show the function in which a thread sleeps.
_FUNCTIONS = {
    "read": ("anon_pipe_read", "pipe_read", "pipe_wait_readable", "n_tty_read", "wait_woken", "tty_read"),
    "child": ("do_wait", "kernel_wait4", "kernel_waitid"),
    "other": ("futex", "hrtimer_nanosleep", "do_nanosleep", "sigsuspend", "do_sigtimedwait", "do_signal_stop"),
}
_COMPAT = 1 << 32  # a stack below this belongs to a 32-bit program, whose calls have other numbers
_MOST_POLLED = 256
_LARGEST = 1 << 16
_POLLIN, _EPOLLIN = 0x43, 0x3


class BlockedCall(NamedTuple):
    """The call in which a thread sleeps: `read`, `poll`, `select`, `epoll`, `child`, `other`, `unknown`; or `awake`.

    `arguments` is None when only the kernel function is known; `function` is its name.
    """

    call: str
    arguments: tuple[int, ...] | None = None
    function: str = ""


class BlockedProcess:
    """An open `/proc/PID`. Use as a context manager. OSError from every method: the process is gone, or hidden."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._directory = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.stat = self._read("stat")
            self.start_ticks = parse_stat(self.stat)[1]
        except (OSError, ValueError):
            os.close(self._directory)
            raise

    @property
    def is_in_foreground(self) -> bool:
        """Whether the process is in the foreground of its terminal; True when it has no controlling terminal.

        A terminal gives no input to a process in the background.
        """
        group, _session, terminal, foreground = map(int, self.stat.rpartition(b")")[2].split()[2:6])
        return terminal == 0 or group == foreground

    def threads(self) -> list[int]:
        """The ids of its threads, the main thread first."""
        directory = os.open("task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._directory)
        try:
            return sorted(
                (int(name) for name in os.listdir(directory)), key=lambda thread: (thread != self.pid, thread)
            )
        finally:
            os.close(directory)

    def children(self, thread: int) -> list[int]:
        """The PIDs of the children that this thread has started and not waited for."""
        return [int(word) for word in self._read(f"task/{thread}/children").split()]

    def sleep(self, thread: int) -> BlockedCall:
        """The call in which this thread sleeps."""
        if parse_stat(self._read(f"task/{thread}/stat"))[0] != "S":
            return BlockedCall("awake")  # or stopped, dead, or waiting for a disk: in no case for input
        try:
            words = self._read(f"task/{thread}/syscall").split()
        except PermissionError:
            return self._function(thread)
        if words == [b"running"]:
            return BlockedCall("awake")
        numbers = [int(word, 0) for word in words]
        if not _CALLS or len(numbers) < 9 or numbers[7] < _COMPAT:
            return BlockedCall("unknown")
        return BlockedCall(_CALLS.get(numbers[0], "other"), tuple(numbers[1:7]))

    def _function(self, thread: int) -> BlockedCall:
        function = self._read(f"task/{thread}/wchan").decode("ascii", "replace")
        for call, names in _FUNCTIONS.items():
            if function.startswith(names):
                return BlockedCall(call, None, function)
        return BlockedCall("unknown", None, function)

    def file(self, fd: int) -> str | None:
        """The file behind this descriptor, as the kernel names it; None when the descriptor is not open."""
        try:
            return os.readlink(f"fd/{fd}", dir_fd=self._directory)
        except FileNotFoundError:
            os.stat("stat", dir_fd=self._directory)  # raises if the process is gone, and not only the descriptor
            return None

    def files(self) -> dict[int, str]:
        """All open descriptors and their files."""
        directory = os.open("fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._directory)
        try:
            found = {int(name): self.file(int(name)) for name in os.listdir(directory)}
        finally:
            os.close(directory)
        return {fd: name for fd, name in found.items() if name is not None}

    def is_readable(self, fd: int) -> bool:
        """Whether the descriptor was opened for reading."""
        for line in self._read(f"fdinfo/{fd}").splitlines():
            if line.startswith(b"flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE != os.O_WRONLY
        return True

    def polled(self, sleep: BlockedCall) -> dict[int, bool] | None:
        """The descriptors for which a `poll`, `select` or `epoll` waits, and whether for reading. None: hidden."""
        arguments = sleep.arguments
        if arguments is None:
            return None
        try:
            match sleep.call:
                case "poll":
                    return self._poll_set(arguments[0], arguments[1])
                case "select":
                    return self._select_sets(arguments[0], arguments[1:4])
                case "epoll":
                    return dict(self._epoll_set(arguments[0]))
        except PermissionError:
            pass
        return None

    def _poll_set(self, address: int, count: int) -> dict[int, bool] | None:
        if not 0 < count <= _MOST_POLLED:
            return None
        data = self._memory(address, count * 8)
        if len(data) < count * 8:
            return None
        entries = ((data[at : at + 4], data[at + 4 : at + 6]) for at in range(0, len(data), 8))
        pairs = [(int.from_bytes(fd, "little", signed=True), int.from_bytes(how, "little")) for fd, how in entries]
        return {fd: bool(how & _POLLIN) for fd, how in pairs if fd >= 0}

    def _select_sets(self, count: int, addresses: tuple[int, ...]) -> dict[int, bool] | None:
        found: dict[int, bool] = {}
        for place, address in enumerate(addresses):
            if address == 0 or count <= 0:
                continue
            size = (min(count, _LARGEST) + 7) // 8
            data = self._memory(address, size)
            if len(data) < size:
                return None
            mask = int.from_bytes(data, "little")
            for fd in range(min(count, _LARGEST)):
                if mask >> fd & 1:
                    found[fd] = found.get(fd, False) or place == 0
        return found

    def _epoll_set(self, fd: int) -> Iterator[tuple[int, bool]]:
        for line in self._read(f"fdinfo/{fd}").splitlines():
            words = line.split()
            if words[:1] == [b"tfd:"]:
                yield int(words[1]), bool(int(words[3], 16) & _EPOLLIN)

    def _memory(self, address: int, size: int) -> bytes:
        memory = os.open("mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)
        try:
            return os.pread(memory, size, address)
        finally:
            os.close(memory)

    def _read(self, name: str) -> bytes:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)
        try:
            return os.read(file, _LARGEST)
        finally:
            os.close(file)

    def __enter__(self) -> BlockedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._directory)
