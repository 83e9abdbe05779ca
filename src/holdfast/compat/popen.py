"""`Popen` as the standard library has it, whose process is the command of a run.

Streams, text, buffers and `communicate` are the standard library's own code. Only the start, the wait and the signals
are replaced. The command has the caller's own descriptors, so Holdfast copies no byte.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ..runs.ephemeral import start_ephemeral
from ..runs.guard_watch import await_exec
from ..values.entry import MOST_GROUPS, MOST_PASSED, Entry
from ..values.errors import ResourceError
from ..values.spec_cache import new_spec
from .child import Child, finish_ended, report_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..values.options import SpecOptions

# The options of a run that the drop-ins take beside the arguments of the original.
ADDED = frozenset(
    {
        *("cpu_time", "drain", "drain_idle", "env_drop", "env_keep", "grace", "idle_counts", "idle_timeout"),
        *("kill_wait", "labels", "ladder", "max_timeout", "memory", "name", "pids", "run_id", "session"),
        *("stragglers", "timeout", "warn_before", "warn_signal"),
    }
)
# A drop-in ends with its owner, and its output is the caller's: defaults for other runs do not count.
_ALWAYS = {"lifetime": "owner", "max_output": None, "on_max_output": None}
_STREAMS = ("stdin", "stdout", "stderr")
_LONGEST_S = 1e9
_NO_ID = 0xFFFFFFFF  # what the kernel takes for no number at all
_SHORTEST_S = 0.001


class PlainStartWarning(UserWarning):
    """A process was started by the standard library alone, and Holdfast does not end it."""


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen`, whose process is the command of a run that always ends well.

    It takes the options of `holdfast.run` beside its own arguments; `holdfast.defaults` sets them for all. `timeout` is
    the deadline of the run. `terminate` ends the whole tree by the ladder, `kill` ends it at once, and `send_signal`
    signals the command alone. A process that needs `preexec_fn`, or a process group of others, is started by the
    standard library alone: PlainStartWarning.
    """

    def __init__(self, *args: Any, **arguments: Any) -> None:
        self._added = {name: arguments.pop(name) for name in ADDED & arguments.keys()}
        self.child: Child | None = None  # None: the standard library started the process alone
        finish_ended()
        super().__init__(*args, **arguments)

    @property
    def report(self) -> dict[str, Any] | None:
        """The report of the run as it is now; None for a process that the standard library started alone."""
        return None if self.child is None else report_of(self.child)

    def why(self) -> str:
        """What happened to the process, as `holdfast why` tells it."""
        if self.child is None:
            return "The standard library started this process alone, because of preexec_fn or process_group.\n"
        from ..wording.story import story

        self.child.look()
        live = self.child.live
        return story(live.report(), live.reader.header, live.facts, live.outcome)

    # The start.

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Callable[[], Any] | None,
        close_fds: bool,
        pass_fds: Iterable[int],
        cwd: Any,
        env: Mapping[Any, Any] | None,
        startupinfo: Any,
        creationflags: Any,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        restore_signals: bool,
        gid: int | None,
        gids: Sequence[int] | None,
        uid: int | None,
        umask: int,
        start_new_session: bool,
        process_group: int,
    ) -> None:
        pipes = (p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        if preexec_fn in (os.setsid, os.setpgrp):
            preexec_fn = None  # the command has a session of its own in any case
        if preexec_fn is not None or process_group > 0:
            self._start_plainly("preexec_fn" if preexec_fn is not None else "process_group")
            super()._execute_child(  # type: ignore[misc]
                *(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell),
                *(*pipes, restore_signals, gid, gids, uid, umask, start_new_session, process_group),
            )
            return
        words, program = _command(args, executable, shell)
        sys.audit("subprocess.Popen", program, words, cwd, env)
        entry = Entry(
            program=os.fsdecode(program) if program != words[0] else "",
            passed=_passed(pass_fds) if close_fds else _inheritable(),
            umask=None if umask < 0 else umask,
            user=_checked_id(uid),
            group=_checked_id(gid),
            groups=None if gids is None else _checked_groups(gids),
            ignored=() if restore_signals else _ignored(),
        )
        options: dict[str, Any] = {**_environment(env), **self._added}
        if cwd is not None:
            options["cwd"] = os.fsdecode(cwd)
        given = _streams((p2cread, c2pwrite, errwrite))
        try:
            options.update(given.options)
            self.child = child = _start(words, options, entry)
        finally:
            given.close()
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._program, self._cwd = program, cwd
        self._await_exec(child)

    def _start_plainly(self, argument: str) -> None:
        if self._added:
            raise ValueError(f"{argument} cannot be combined with {', '.join(sorted(self._added))}: leave one out")
        message = f"{argument} needs a start by the standard library alone: Holdfast does not end this process"
        warnings.warn(message, PlainStartWarning, stacklevel=5)

    def _await_exec(self, child: Child) -> None:
        self._take_exec(child, await_exec(child.live))

    def _take_exec(self, child: Child, failure: tuple[str, int] | None) -> None:
        """Take in that the command is executed. OSError: it is not, and nothing is left of the run."""
        started = child.live.outcome.started
        if failure is None and started is None:
            child.wait_settled()  # the guard could not fork, or was asked to stop before
            fact = next((fact for fact in child.live.facts if fact.kind == "spawn_failed"), None)
            failure = ("fork", errno.EAGAIN) if fact is None else (fact.detail["step"], fact.detail["error"])
        if failure is None and started is not None:
            self.pid = child.pid = int(started.detail["pid"])
            return
        assert failure is not None
        child.wait_settled()
        self.returncode = 255
        step, code = failure
        raise OSError(code, os.strerror(code), self._cwd if step == "chdir" else self._program)

    # The wait.

    def _internal_poll(self, *args: Any, **arguments: Any) -> int | None:
        if self.child is None:
            return super()._internal_poll(*args, **arguments)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            self.returncode = self.child.look()
            if self.returncode is not None:
                self.child.wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.child is None:
            return super()._wait(timeout)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            code = self.child.wait(timeout)
            if code is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = code
        return self.returncode

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        if self.child is not None and self.returncode is not None:
            self.child.wait_settled()

    # The signals.

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command alone."""
        if self.child is None:
            super().send_signal(sig)
        elif self.poll() is None:
            if not 0 <= sig < signal.NSIG:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            if sig:
                self.child.signal(sig)

    def terminate(self) -> None:
        """End the whole tree by the ladder: the graceful signal, the grace, and then SIGKILL."""
        if self.child is None:
            super().terminate()
        elif self.poll() is None:
            self.child.start_ending(reason="the program called terminate()")

    def kill(self) -> None:
        """End the whole tree at once, with SIGKILL."""
        if self.child is None:
            super().kill()
        elif self.poll() is None:
            self.child.start_ending(now=True, reason="the program called kill()")


class StartingPopen(Popen):
    """A process whose start nobody waits for: an event loop calls `take_exec` when `entry` is readable."""

    def _await_exec(self, child: Child) -> None:
        pass

    def take_exec(self) -> None:
        """Take in that the command is executed. OSError: it is not, and nothing is left of the run."""
        assert self.child is not None
        try:
            self._take_exec(self.child, self.child.live.take_exec())
        except BaseException:
            self._close_streams()
            raise

    def abandon(self) -> None:
        """End a run whose start is not wanted any more. Blocks for milliseconds: a held command is never executed."""
        assert self.child is not None
        self._close_streams()
        self.child.start_ending(now=True, reason="the start was cancelled")
        self.child.wait_settled()
        self.returncode = self.child.exit_code

    def _close_streams(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


class TimedPopen(Popen):
    """The process of `run` and `call`: its run has their timeout as deadline, and ends with grace when they raise."""

    def __init__(self, *args: Any, holdfast_timeout: float | None = None, **arguments: Any) -> None:
        self._timeout = holdfast_timeout
        self._is_communicating = False
        if holdfast_timeout is not None and holdfast_timeout < _LONGEST_S and not is_plain(arguments):
            arguments["timeout"] = max(holdfast_timeout, _SHORTEST_S)
        super().__init__(*args, **arguments)

    def communicate(self, *args: Any, **arguments: Any) -> tuple[Any, Any]:
        """As in the standard library. TimeoutExpired also when the guard's clock was the faster one."""
        self._is_communicating = True  # it calls `wait`, and has the output
        try:
            output = super().communicate(*args, **arguments)
        except subprocess.TimeoutExpired as late:
            if self.child is None or late.timeout == self._timeout:
                raise
            # All output has come, and the rest of the time was too short for the end: the error knows neither the
            # output nor the whole timeout. The deadline of the run bounds this second wait.
            output = super().communicate()
        self._check_deadline(*output)
        return output

    def wait(self, timeout: float | None = None) -> int:
        """As in the standard library. TimeoutExpired also when the guard's clock was the faster one."""
        code = super().wait(timeout)
        if not self._is_communicating:
            self._check_deadline()
        return code

    def kill(self) -> None:
        """End the whole tree by the ladder. Nobody reads its output any more, so it is thrown away meanwhile."""
        child = self.child
        if child is None:
            super().kill()
            return
        if not isinstance(sys.exc_info()[1], subprocess.TimeoutExpired):
            number = signal.SIGINT if isinstance(sys.exc_info()[1], KeyboardInterrupt) else 0
            child.start_ending(signal=number, reason="the caller was interrupted")
        child.wait_settled([stream.fileno() for stream in (self.stdout, self.stderr) if stream and not stream.closed])

    def _check_deadline(self, stdout: Any = None, stderr: Any = None) -> None:
        if self.child is None or self._timeout is None or self.child.live.outcome.cause != "deadline":
            return
        raise subprocess.TimeoutExpired(self.args, self._timeout, self._bytes(stdout), self._bytes(stderr))

    def _bytes(self, output: Any) -> Any:
        # As in the standard library, where the output of a timeout is not decoded.
        if not isinstance(output, str):
            return output
        return output.encode(self.encoding, self.errors or "strict")  # type: ignore[attr-defined]


class _Streams:
    """The streams of one start as options of its run, and what was opened for them."""

    __slots__ = ("opened", "options")

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.opened: list[int] = []

    def close(self) -> None:
        for fd in self.opened:
            os.close(fd)


def _streams(given: Sequence[int]) -> _Streams:
    """Where the command's streams lead: to the given descriptors, and where there is none, where ours lead."""
    streams = _Streams()
    for number, (name, fd) in enumerate(zip(_STREAMS, given, strict=True)):
        if fd != -1:
            streams.options[name] = fd
        elif _is_open_descriptor(number):
            streams.options[name] = "inherit"
        elif name == "stdin":
            streams.options[name] = "null"
        else:
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            streams.opened.append(nowhere)
            streams.options[name] = nowhere
    return streams


def _start(words: list[Any], options: dict[str, Any], entry: Entry) -> Child:
    options.setdefault("idle_counts", "cpu")  # the guard does not see the output, which takes CPU time to write
    checked: SpecOptions = {**options, **_ALWAYS}  # type: ignore[typeddict-item]
    try:
        return Child(start_ephemeral(new_spec(words, checked), entry=entry))
    except ResourceError as error:
        code = error.errno or errno.EAGAIN
        raise OSError(code, os.strerror(code)) from error


def _command(args: Any, executable: Any, shell: bool) -> tuple[list[Any], Any]:
    """The words of the command, and the program to execute."""
    if isinstance(args, (str, bytes)):
        words: list[Any] = [args]
    elif isinstance(args, os.PathLike):
        if shell:
            raise TypeError("path-like args is not allowed when shell is true")
        words = [args]
    else:
        words = list(args)
    if shell:
        words = ["/bin/sh", "-c", *words]
        if executable:
            words[0] = executable
    program = words[0] if executable is None else executable
    if any(b"\0" in os.fsencode(word) for word in words):
        raise ValueError("embedded null byte")
    return words, program


def _environment(env: Mapping[Any, Any] | None) -> dict[str, Any]:
    """The environment as the original passes it: whole, or what was given and nothing else."""
    if env is None:
        return {"env_keep": "*"}
    variables = {}
    for name, value in env.items():
        encoded = os.fsencode(name)
        if b"=" in encoded:
            raise ValueError("illegal environment variable name")
        if b"\0" in encoded or b"\0" in os.fsencode(value):
            raise ValueError("embedded null byte")
        variables[os.fsdecode(encoded)] = os.fsdecode(value)
    return {"env": variables, "env_drop": "*"}


def _passed(descriptors: Iterable[int]) -> tuple[int, ...]:
    passed = tuple(sorted({int(fd) for fd in descriptors} - {0, 1, 2}))
    if any(fd < 0 for fd in passed):
        raise ValueError("bad value(s) in fds_to_keep")
    return _checked_count(passed)


def _checked_count(passed: tuple[int, ...]) -> tuple[int, ...]:
    if len(passed) > MOST_PASSED:
        raise ValueError(f"{len(passed)} descriptors cannot be passed at once: at most {MOST_PASSED}")
    return passed


def _inheritable() -> tuple[int, ...]:
    """The descriptors of this process that an exec keeps open."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    return _checked_count(tuple(sorted(fd for fd in numbers if fd > 2 and _is_inheritable(fd))))


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False  # it was the listing's own


def _checked_groups(groups: Sequence[int]) -> tuple[int, ...]:
    if len(groups) > MOST_GROUPS:
        raise ValueError("too many extra_groups")
    if any(group >= _NO_ID for group in groups):
        raise ValueError("invalid group id")
    return tuple(groups)


def _checked_id(number: int | None) -> int | None:
    if number is not None and number >= _NO_ID:
        raise OverflowError(f"{number} is greater than the largest number of a user or group")
    return number


def _ignored() -> tuple[int, ...]:
    return tuple(int(number) for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN)


def _is_open_descriptor(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def is_plain(arguments: Mapping[str, Any]) -> bool:
    """Whether a start with these arguments is for the standard library alone."""
    preexec_fn = arguments.get("preexec_fn")
    return preexec_fn not in (None, os.setsid, os.setpgrp) or (arguments.get("process_group") or 0) > 0
