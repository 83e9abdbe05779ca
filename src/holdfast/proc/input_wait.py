"""Is a run waiting for input: has it a terminal or a stdin pipe of ours, and is its command blocked reading it?

Nobody is told of this by the kernel, so it is looked at, from outside and when somebody wants to know. The answer is of
the moment, and has three values:

- True: the command's first thread sleeps in a read of its input, or polls it and nothing else that could make it go on;
  or it waits for a child that does (a shell for what it started). A timeout of the poll does not matter.
- False: it does something else. Also: there is no such input, its input is closed or was replaced, it is stopped.
- None: that cannot be known. It polls other things as well (a socket may bring the answer it is really waiting for), or
  another of its threads reads the input; the kernel does not show it to this user; it is inside a container.

The leader is looked at only when it is the process on record, by PID and start time.
"""

from __future__ import annotations

from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from ..values.identity import ProcessIdentity, boot_id, is_alive
from .blocked_call import BlockedProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..outcome import Outcome
    from .blocked_call import BlockedCall

_MOST_PROCESSES = 16
_MOST_THREADS = 64
_MOST_FILES = 256
# What programs poll to be woken up by themselves: it brings nothing from outside.
_INNER = ("anon_inode:[eventfd]", "anon_inode:[signalfd]", "anon_inode:[timerfd]", "anon_inode:inotify")
_POLLS = ("poll", "select", "epoll")


class Stdin(NamedTuple):
    """What a run reads, and who: `kind` is `pty`, `pipe`, `none` or `unknown`; no `leader`: nobody to look at."""

    kind: str
    leader: ProcessIdentity | None

    @classmethod
    def of(cls, header: Mapping[str, Any] | None, spec: Mapping[str, Any] | None, outcome: Outcome) -> Stdin:
        """That of a run on record."""
        asked = spec or {}
        kind = "pty" if asked.get("pty") else "pipe" if asked.get("stdin") == "pipe" else "none"
        if asked.get("in_container"):
            kind = "unknown" if kind != "none" else kind  # its leader here is not the one that reads
        if outcome.started is None or outcome.exited is not None or outcome.state not in ("running", "stopping"):
            return cls(kind, None)
        detail = outcome.started.detail
        return cls(kind, ProcessIdentity(detail["pid"], detail["start_ticks"], (header or {}).get("boot_id")))

    def is_waited_for(self) -> bool | None:
        """The look. None as well when the run is not live: then there is nothing to know."""
        if self.leader is None or self.kind == "unknown":
            return None
        return False if self.kind == "none" else is_waiting(self.leader, terminal=self.kind == "pty")


NO_STDIN = Stdin("unknown", None)  # of a run that is over, or was not started


def is_waiting(leader: ProcessIdentity, *, terminal: bool) -> bool | None:
    """Whether this process is blocked reading its stdin pipe, or its `terminal`. A look takes about 0.2 ms."""
    if boot_id() != leader.boot_id:
        return None
    try:
        with BlockedProcess(leader.pid) as process:
            if process.start_ticks != leader.start_ticks:
                return False  # it is gone, and somebody else has its number
            return _InputProbe(process, terminal=terminal).answer()
    except (FileNotFoundError, ProcessLookupError):
        return None if is_alive(leader) is None else False  # gone; or /proc hides it
    except (OSError, ValueError):
        return None


class _InputProbe:
    """One look at a tree of processes, as far down as each waits for the next."""

    def __init__(self, leader: BlockedProcess, *, terminal: bool) -> None:
        self._leader = leader
        self._terminal = terminal
        self._left = _MOST_PROCESSES
        stdin = leader.file(0) or ""
        wanted = "/dev/pts/" if terminal else "pipe:["
        self._inputs = {stdin} if stdin.startswith(wanted) else set()
        if terminal:
            self._inputs.add("/dev/tty")  # what asks for passwords reads this

    def answer(self) -> bool | None:
        return self._of(self._leader) if self._inputs else False

    def _of(self, process: BlockedProcess) -> bool | None:
        threads = process.threads()
        if len(threads) > _MOST_THREADS:
            return None
        found = self._of_thread(process, threads[0])
        if found is not False or len(threads) == 1:
            return found
        # Another thread may read for the first one, and nobody knows what that one makes of it.
        return None if any(self._of_thread(process, thread) is not False for thread in threads[1:]) else False

    def _of_thread(self, process: BlockedProcess, thread: int) -> bool | None:
        sleep = process.sleep(thread)
        if sleep.call == "unknown":
            return None
        found: bool | None = False
        if sleep.call == "read":
            found = self._reads(process, sleep)
        elif sleep.call in _POLLS:
            found = self._polls(process, sleep)
        elif sleep.call == "child":
            return self._of_children(process, thread)
        if found and self._terminal and not process.is_in_foreground:
            return False  # the terminal gives it nothing
        return found

    def _of_children(self, process: BlockedProcess, thread: int) -> bool | None:
        answers: set[bool | None] = {False}
        for pid in process.children(thread):
            self._left -= 1
            if self._left < 0:
                answers.add(None)
                break
            try:
                with BlockedProcess(pid) as child:
                    answers.add(self._of(child))
            except (FileNotFoundError, ProcessLookupError):
                pass
            except OSError:
                answers.add(None)
        return True if True in answers else None if None in answers else False

    def _reads(self, process: BlockedProcess, sleep: BlockedCall) -> bool | None:
        if sleep.arguments is not None:
            return process.file(sleep.arguments[0]) in self._inputs
        of_pipe = "pipe" in sleep.function
        if of_pipe == self._terminal:
            return False  # a pipe, but the input is a terminal; or the other way round
        # Only the function is known. When the input is all that could be read by it, that is enough.
        files = process.files()
        if len(files) > _MOST_FILES:
            return None
        rivals = [fd for fd, name in files.items() if name not in self._inputs and _may_be_read(name, of_pipe=of_pipe)]
        has_input = any(name in self._inputs for name in files.values())
        return None if any(process.is_readable(fd) for fd in rivals) else has_input

    def _polls(self, process: BlockedProcess, sleep: BlockedCall) -> bool | None:
        polled = process.polled(sleep)
        if polled is None or len(polled) > _MOST_FILES:
            return None
        names = {fd: process.file(fd) or "" for fd in polled}
        if not any(names[fd] in self._inputs for fd, for_reading in polled.items() if for_reading):
            return False
        others = [name for name in names.values() if name not in self._inputs and name not in _INNER]
        if others and all(name.startswith("pipe:[") for name in others):
            own = list(process.files().values())
            others = [name for name in others if own.count(name) < 2]  # both ends are its own: it wakes itself
        return None if others else True


def _may_be_read(name: str, *, of_pipe: bool) -> bool:
    """Whether a read of this could sleep in the same function: pipes and named ones; terminals and sockets."""
    if of_pipe:
        return name.startswith(("pipe:[", "/"))
    return name.startswith(("/dev/", "socket:["))
