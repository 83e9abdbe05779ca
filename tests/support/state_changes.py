"""Programs that change one thing that their children inherit, between two runs of one supervisor.

`python -m tests.support.state_changes NAME...` prints a JSON object with an object for each name: the thing as the
command of a first run saw it (`before`), as the second run saw it (`after`), as a child of `subprocess` saw it
(`expected`), and as a second run saw it whose supervisor takes every guard for current (`stale`). `unavailable`: why
this host cannot change it. `error`: why there is no answer. Each name has a process of its own.

The same file is the command: it shows one thing. Therefore it imports little.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Supervisor

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_ARM = os.uname().machine == "aarch64"
_SET_MEMPOLICY, _GET_MEMPOLICY = (237, 236) if _ARM else (238, 239)
_IOPRIO_SET, _IOPRIO_GET = (30, 31) if _ARM else (251, 252)
_KEYCTL = 219 if _ARM else 250
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_MARK = "marked"
_SHOW = [sys.executable, "-I", "-S", os.path.abspath(__file__), "--show"]


def _checked(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def _call(number: int, *arguments: object) -> int:
    return _checked(_libc.syscall(number, *arguments))


def _prctl(option: int, *arguments: int) -> int:
    return _checked(_libc.prctl(option, *arguments, *[0] * (4 - len(arguments))))


def _line(name: str) -> Callable[[], str]:
    """A reader of one line of /proc/self/status."""
    return lambda: next(line for line in _read("/proc/self/status").splitlines() if line.startswith(name))


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _file(path: str) -> Callable[[], str]:
    return lambda: _read(path)


def _writer(path: str, text: str) -> Callable[[], object]:
    return lambda: _write(path, text)


def _namespace(flag: int, name: str) -> Change:
    return Change(lambda: _checked(_libc.unshare(flag)), lambda: os.readlink(f"/proc/self/ns/{name}"), root=True)


def _mempolicy() -> int:
    mode, nodes = ctypes.c_int(), ctypes.create_string_buffer(128)
    _call(_GET_MEMPOLICY, ctypes.byref(mode), nodes, 1024, None, 0)
    return mode.value


def _install_filter() -> None:
    """A seccomp filter that allows everything."""
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(allow))
    _prctl(38, 1)
    _checked(_libc.prctl(22, 2, program, 0, 0))


def _enter_landlock() -> None:
    """A domain in which only the files that are needed here can be read: not those of /etc."""
    read = struct.pack("<Q", 1 << 2)
    ruleset = _call(_CREATE_RULESET, read, len(read), 0)
    for path in {"/usr", "/lib", "/proc", "/dev", "/sys", sys.prefix, sys.base_prefix, os.getcwd(), "/tmp"}:
        directory = os.open(path, os.O_PATH)
        _call(_ADD_RULE, ruleset, 1, struct.pack("<Qi", 1 << 2, directory), 0)
        os.close(directory)
    if os.geteuid() != 0:
        _prctl(38, 1)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _can_read_etc() -> bool:
    try:
        return bool(_read("/etc/passwd"))
    except PermissionError:
        return False


def _change_root() -> None:
    """To the same directory in another mount: nothing but the mount tells the two apart."""
    _checked(_libc.unshare(0x20000))
    _checked(_libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None))
    os.mkdir(jail := f"{os.environ['TMPDIR']}/jail")
    _checked(_libc.mount(b"/", jail.encode(), None, 0x1000 | 0x4000, None))
    _checked(_libc.mount(b"none", f"{jail}/mnt".encode(), b"tmpfs", 0, None))
    _write(f"{jail}/mnt/{_MARK}", "")
    here = os.getcwd()
    os.chroot(jail)
    os.chdir(here)


def _enter_pid_namespace() -> None:
    """With a first child that stays: when it exits, the kernel refuses every later fork into the namespace."""
    global _init
    _checked(_libc.unshare(0x20000000))
    _init = os.fork()
    if _init == 0:
        _prctl(1, signal.SIGKILL)
        while True:
            signal.pause()


def _end_pid_namespace() -> None:
    os.kill(_init, signal.SIGKILL)
    os.waitpid(_init, 0)


_init = 0


def _move_to_another_cgroup() -> None:
    from holdfast.guard.containment import probe

    base = probe().cgroup_base
    if base is None:
        raise OSError(probe().why_not)
    os.mkdir(group := f"{base}/{_MARK}-{os.getpid()}")
    _write(f"{group}/cgroup.procs", str(os.getpid()))


def _leave_cgroup() -> None:
    from holdfast.guard.containment import probe

    group = probe().cgroup_base or ""
    _write(f"{os.path.dirname(group)}/cgroup.procs", str(os.getpid()))
    os.rmdir(group)


class Change:
    """How to change one thing, and how a child sees it."""

    def __init__(
        self,
        make: Callable[[], object],
        show: Callable[[], object],
        *,
        root: bool = False,
        undo: Callable[[], object] = lambda: None,
    ) -> None:
        self.make, self.show, self.root, self.undo = make, show, root, undo


def _affinity() -> object:
    return sorted(os.sched_getaffinity(0))


CHANGES = {
    "group ids": Change(lambda: os.setresgid(4242, 4242, 4242), os.getresgid, root=True),
    "groups": Change(lambda: os.setgroups([4242]), os.getgroups, root=True),
    "umask": Change(lambda: os.umask(0o027), _line("Umask:")),
    "capabilities": Change(lambda: _prctl(24, 13), _line("CapBnd:"), root=True),
    "securebits": Change(lambda: _prctl(28, 1 << 6), lambda: _prctl(27), root=True),
    "no_new_privs": Change(lambda: _prctl(38, 1), _line("NoNewPrivs:")),
    "seccomp": Change(_install_filter, _line("Seccomp:")),
    "speculation": Change(lambda: _prctl(53, 0, 4), _line("Speculation_Store_Bypass:")),
    "Landlock": Change(_enter_landlock, _can_read_etc),
    "session keyring": Change(lambda: _call(_KEYCTL, 1, b"holdfast test"), lambda: _call(_KEYCTL, 0, -3, 0)),
    "login uid": Change(_writer("/proc/self/loginuid", "4242"), _file("/proc/self/loginuid"), root=True),
    "resource limits": Change(
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (777, 7777)), _file("/proc/self/limits")
    ),
    "priority": Change(lambda: os.nice(3), lambda: os.getpriority(os.PRIO_PROCESS, 0)),
    "scheduling policy": Change(
        lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)), lambda: os.sched_getscheduler(0)
    ),
    "CPU affinity": Change(lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}), _affinity),
    "timer slack": Change(lambda: _prctl(29, 123456), lambda: _prctl(30)),
    "I/O priority": Change(lambda: _call(_IOPRIO_SET, 1, 0, 2 << 13 | 6), lambda: _call(_IOPRIO_GET, 1, 0)),
    "memory policy": Change(lambda: _call(_SET_MEMPOLICY, 3, ctypes.byref(ctypes.c_ulong(1)), 64), _mempolicy),
    "out-of-memory score": Change(_writer("/proc/self/oom_score_adj", "777"), _file("/proc/self/oom_score_adj")),
    "huge pages": Change(lambda: _prctl(41, 1), lambda: _prctl(42)),
    "core dump filter": Change(_writer("/proc/self/coredump_filter", "0x1"), _file("/proc/self/coredump_filter")),
    "written or executed": Change(lambda: _prctl(65, 1), lambda: _prctl(66)),
    "merged memory": Change(lambda: _prctl(67, 1), lambda: _prctl(68), root=True),
    "machine check policy": Change(lambda: _prctl(33, 1, 1), lambda: _prctl(34)),
    "personality": Change(lambda: _checked(_libc.personality(0x40000)), lambda: _libc.personality(0xFFFFFFFF)),
    "cgroup": Change(
        _move_to_another_cgroup, lambda: _MARK in _read("/proc/self/cgroup"), root=True, undo=_leave_cgroup
    ),
    "cgroup namespace": _namespace(0x2000000, "cgroup"),
    "IPC namespace": _namespace(0x8000000, "ipc"),
    "mount namespace": _namespace(0x20000, "mnt"),
    "network namespace": _namespace(0x40000000, "net"),
    "PID namespace": Change(
        _enter_pid_namespace, lambda: os.readlink("/proc/self/ns/pid"), root=True, undo=_end_pid_namespace
    ),
    "time namespace": _namespace(0x80, "time"),
    "user namespace": Change(lambda: _checked(_libc.unshare(0x10000000)), lambda: os.readlink("/proc/self/ns/user")),
    "UTS namespace": _namespace(0x4000000, "uts"),
    "root directory": Change(_change_root, lambda: os.listdir("/mnt") == [_MARK], root=True),
}


async def _see(supervisor: Supervisor, argv: list[str]) -> str:
    run = await supervisor.start(argv)
    result = await run.result()
    if not result.stdout:
        raise RuntimeError(f"{result.status} {result.cause}: {result.stderr.decode()}")
    return result.stdout.decode()


async def _try(name: str) -> dict[str, object]:
    import subprocess

    import holdfast
    from holdfast.guard.inherited_state import StateReader
    from holdfast.guard.pool import GuardPool

    change, show = CHANGES[name], [*_SHOW, name]
    careful, always = (GuardPool.is_current, StateReader.may_look_at), (property(lambda _: True), lambda *_: True)

    def take(pair: tuple[object, object]) -> None:
        GuardPool.is_current, StateReader.may_look_at = pair  # type: ignore[assignment,method-assign]

    async with holdfast.Supervisor() as supervisor, holdfast.Supervisor() as careless:
        before = [await _see(supervisor, show), await _see(careless, show)]
        try:
            change.make()
        except OSError as error:
            return {"unavailable": str(error)}
        take(always)
        stale = await _see(careless, show)
        take(careful)
        after = [await _see(supervisor, show), await _see(supervisor, show)]
        done = subprocess.run(show, capture_output=True, check=True)  # noqa: ASYNC221 - nothing else is running
    change.undo()
    return {"before": before, "stale": stale, "after": after, "expected": done.stdout.decode()}


def _in_a_fork(name: str) -> dict[str, object]:
    import json

    import anyio

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            told = anyio.run(_try, name)
        except Exception as error:  # noqa: BLE001 - the parent tells it
            told = {"error": f"{type(error).__name__}: {error}"}
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer: dict[str, object] = json.loads(pipe.read())
    os.waitpid(pid, 0)
    return answer


def main(arguments: list[str]) -> None:
    """Change the named things and tell what was seen, or with `--show` only tell what is seen."""
    if arguments[0] == "--show":
        sys.stdout.write(f"{CHANGES[arguments[1]].show()}\n")
        return
    import json

    sys.stdout.write(json.dumps({name: _in_a_fork(name) for name in arguments}))


if __name__ == "__main__":
    main(sys.argv[1:])
