"""Whether a run waits for input: its command is blocked in a read of its terminal or stdin pipe.

The kernel does not report this. So we look from outside, when a caller wants to know. The answer is true for this
moment only, and has three values:

- True: the command's main thread sleeps in a read of its input; or it polls its input and nothing else that could make
  it go on; or it waits for a child that does so, as a shell does. A timeout of the poll does not matter.
- False: the command does something else, or is stopped; or it has no such input, or its input is closed or replaced.
- None: unknown. The command polls other things as well (a socket may bring the answer that it really waits for);
  another of its threads reads the input; the kernel hides the command from this user; or it is inside a container.

We look at the leader only if it is the process on record, by PID and start time.
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
# Programs poll these to wake themselves up: they bring nothing from outside.
_INNER = ("anon_inode:[eventfd]", "anon_inode:[signalfd]", "anon_inode:[timerfd]", "anon_inode:inotify")
_POLLS = ("poll", "select", "epoll")


class Stdin(NamedTuple):
    """A run's stdin (`pty`, `pipe`, `none` or `unknown`) and the leader that reads it, None when it is not live."""

    kind: str
    leader: ProcessIdentity | None

    @classmethod
    def of(cls, header: Mapping[str, Any] | None, spec: Mapping[str, Any] | None, outcome: Outcome) -> Stdin:
        """The stdin of a run, from its journal's header, spec and outcome."""
        asked = spec or {}
        kind = "pty" if asked.get("pty") else "pipe" if asked.get("stdin") == "pipe" else "none"
        if asked.get("in_container"):
            kind = (
                "unknown" if kind != "none" else kind
            )  # the process that reads is inside the container, and not this leader
        if outcome.started is None or outcome.exited is not None or outcome.state not in ("running", "stopping"):
            return cls(kind, None)
        detail = outcome.started.detail
        return cls(kind, ProcessIdentity(detail["pid"], detail["start_ticks"], (header or {}).get("boot_id")))

    def is_waited_for(self) -> bool | None:
        """Whether the run waits for input now. None: unknown, or the run is not live."""
        if self.leader is None or self.kind == "unknown":
            return None
        return False if self.kind == "none" else is_waiting(self.leader, terminal=self.kind == "pty")


NO_STDIN = Stdin("unknown", None)  # the stdin of a run that is over, or was not started


def is_waiting(leader: ProcessIdentity, *, terminal: bool) -> bool | None:
    """Whether this process is blocked in a read of its stdin pipe, or of its `terminal`. This takes about 0.2 ms."""
    if boot_id() != leader.boot_id:
        return None
    try:
        with BlockedProcess(leader.pid) as process:
            if process.start_ticks != leader.start_ticks:
                return False  # the leader is gone, and another process has its PID
            return _InputProbe(process, terminal=terminal).answer()
    except (FileNotFoundError, ProcessLookupError):
        return None if is_alive(leader) is None else False  # the process is gone, or /proc hides it
    except (OSError, ValueError):
        return None


class _InputProbe:
    """One look at a process, and at its children as far down as each process waits for the next."""

    def __init__(self, leader: BlockedProcess, *, terminal: bool) -> None:
        self._leader = leader
        self._terminal = terminal
        self._left = _MOST_PROCESSES
        stdin = leader.file(0) or ""
        wanted = "/dev/pts/" if terminal else "pipe:["
        self._inputs = {stdin} if stdin.startswith(wanted) else set()
        if terminal:
            self._inputs.add("/dev/tty")  # programs that ask for passwords read this

    def answer(self) -> bool | None:
        return self._of(self._leader) if self._inputs else False

    def _of(self, process: BlockedProcess) -> bool | None:
        threads = process.threads()
        if len(threads) > _MOST_THREADS:
            return None
        found = self._of_thread(process, threads[0])
        if found is not False or len(threads) == 1:
            return found
        # Another thread reads the input. We cannot know whether the main thread waits for it.
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
            return False  # the terminal gives input only to the foreground
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
            return False  # it reads a pipe, but the input is a terminal; or the other way round
        # Only the kernel function is known. That is enough if the input is the only file that it could be reading.
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
            others = [name for name in others if own.count(name) < 2]  # it has both ends, and so wakes itself
        return None if others else True


def _may_be_read(name: str, *, of_pipe: bool) -> bool:
    """Whether a read of this file could sleep in the same kernel function: a pipe, or else a terminal or socket."""
    if of_pipe:
        return name.startswith(("pipe:[", "/"))
    return name.startswith(("/dev/", "socket:["))
