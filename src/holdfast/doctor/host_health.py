"""The examination of the host: kernel features, containment, limits, environment, and a trial run of the guard."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from typing import TYPE_CHECKING

from ..guard import containment
from ..guard.binary import guard_path
from ..guard.requirements import find_missing, has_memfd, has_pidfd
from ..proc.process_table import all_pids, read_proc
from ..state.byte_lock import is_locked
from ..values.environment import findings as environment_findings
from ..values.errors import HoldfastError
from ..values.identity import proc_is_ours
from .finding import OK, PROBLEM, WARNING, DoctorFinding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CLONE3, _CLOSE_RANGE = 435, 436  # the same on every architecture
_CLONE_INTO_CGROUP = 0x200000000
_NO_DESCRIPTOR = 0x7FFFFFFE
_PR_GET_CHILD_SUBREAPER = 37
_FEW_DESCRIPTORS = 256  # an owner needs three or four for each run
_FEW_PROCESSES = 128


def examine(*, trial: bool = True) -> Iterator[DoctorFinding]:
    """Examine what does not depend on a state directory. `trial`: also run a command under a guard."""
    yield from _platform()
    yield from _containment()
    yield from _limits()
    yield from _environment()
    yield from _guard(trial)


def _platform() -> Iterator[DoctorFinding]:
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() != "Linux":
        yield DoctorFinding(PROBLEM, "platform", f"{name} is not supported", remedy="use Linux")
        return
    missing = [what for what, is_there in CAPABILITIES.items() if not is_there()]
    slower = [what for what, is_there in CONVENIENCES.items() if not is_there()]
    if missing:
        remedy = (
            "use Linux 5.4 or newer, and look whether a sandbox (seccomp) or a missing /proc stands in the way"
            " (a PID namespace needs its own: unshare --mount-proc)"
        )
        yield DoctorFinding(PROBLEM, "platform", f"{name} lacks {', '.join(missing)}", remedy=remedy)
    if slower:
        yield DoctorFinding(
            WARNING, "platform", f"{name} has no {', '.join(slower)}: Holdfast works without, only slower"
        )
    if not missing and not slower:
        have = ", ".join([*CAPABILITIES, *CONVENIENCES])
        yield DoctorFinding(OK, "platform", f"{name} has {have}")


def _has_subreaper() -> bool:
    answer = ctypes.c_int()
    failed: int = ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return failed == 0


def _has_file_locks() -> bool:
    fd = os.open(__file__, os.O_RDONLY | os.O_CLOEXEC)
    try:
        is_locked(fd, 0)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _has_children_files() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _has_close_range() -> bool:
    return _system_call(_CLOSE_RANGE, _NO_DESCRIPTOR, _NO_DESCRIPTOR, 0) == 0


def _has_clone_into_cgroup() -> bool:
    # The descriptor is invalid: a kernel that knows the flag answers EBADF and makes no process.
    arguments = struct.pack("11Q", _CLONE_INTO_CGROUP, 0, 0, 0, 17, 0, 0, 0, 0, 0, _NO_DESCRIPTOR)
    answer = _system_call(_CLONE3, ctypes.c_char_p(arguments), len(arguments))
    if answer == 0:
        os._exit(0)  # the kernel ignores the flag, and we are the child
    if answer > 0:
        os.waitpid(answer, 0)
    return answer == -errno.EBADF


def _system_call(number: int, *arguments: object) -> int:
    """Make a system call; returns its result, or the negative errno."""
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answer: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *converted)
    return -ctypes.get_errno() if answer < 0 else answer


CAPABILITIES: dict[str, Callable[[], bool]] = {
    "pidfd": has_pidfd,
    "memfd": has_memfd,
    "subreaper": _has_subreaper,
    "open-file locks": _has_file_locks,
    "the /proc of this PID namespace": proc_is_ours,
    "/proc children files": _has_children_files,
}
CONVENIENCES: dict[str, Callable[[], bool]] = {
    "close_range": _has_close_range,
    "clone into a cgroup": _has_clone_into_cgroup,
}


def _containment() -> Iterator[DoctorFinding]:
    here = containment.probe()
    if here.cgroup_base is None:
        # A warning without a remedy: every promise holds, except when the guard itself gets SIGKILL.
        what = f"by subreaper; a cgroup would also hold what a killed guard leaves, but {here.why_not}"
        yield DoctorFinding(WARNING, "containment", what)
    else:
        yield DoctorFinding(OK, "containment", f"by cgroup, in {here.cgroup_base}")
    kept = here.controls or (here.memory_base is not None and here.pids_base is not None)
    how = "kept by the kernel" if kept else "measured by the guard, a few times a second"
    yield DoctorFinding(OK, "containment", f"budgets of memory and processes are {how}")


def _limits() -> Iterator[DoctorFinding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    what = f"{_number(soft)} file descriptors ({_number(hard)} at most), {used} in use here"
    few = soft != resource.RLIM_INFINITY and soft - used < _FEW_DESCRIPTORS
    yield (
        DoctorFinding(WARNING, "limits", what, remedy="raise it: ulimit -n 4096")
        if few
        else DoctorFinding(OK, "limits", what)
    )
    left, of = min(_process_limits())
    what = f"{_number(left)} more processes ({of})"
    remedy = "end some, or raise that limit"
    low = left < _FEW_PROCESSES
    yield DoctorFinding(WARNING, "limits", what, remedy=remedy) if low else DoctorFinding(OK, "limits", what)


def _process_limits() -> Iterator[tuple[int, str]]:
    """How many more processes each limit allows, and the name of the limit."""
    total = int(read_proc("loadavg").split()[3].partition(b"/")[2])
    for name in ("pid_max", "threads-max"):
        yield int(read_proc(f"sys/kernel/{name}") or b"0") - total, f"kernel.{name}"
    soft, _hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:  # root is exempt
        yield soft - _own_tasks(), "ulimit -u"
    here = containment.probe()
    for base in filter(None, (here.cgroup_base, here.pids_base)):
        try:
            with open(f"{base}/pids.max") as most, open(f"{base}/pids.current") as now:
                yield int(most.read()) - int(now.read()), f"{base}/pids.max"
        except (OSError, ValueError):
            continue  # no such controller, or "max"


def _own_tasks() -> int:
    count = 0
    for pid in all_pids():
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.geteuid():
                count += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            continue
    return count


def _number(number: int) -> str:
    return "any number of" if number == resource.RLIM_INFINITY else str(number)


def _environment() -> Iterator[DoctorFinding]:
    found = environment_findings(os.environ)
    if not found:
        yield DoctorFinding(OK, "environment", "clean: no marks of another agent")
    for name, reason in found:
        yield DoctorFinding(WARNING, "environment", f"{name} is set ({reason}); no run inherits it")


def _guard(trial: bool) -> Iterator[DoctorFinding]:
    path = guard_path()
    if (missing := find_missing()) is not None:
        yield DoctorFinding(
            PROBLEM, "guard", f"what every guard needs is not there: {missing.what}", remedy=missing.remedy
        )
        return
    if not trial:
        yield DoctorFinding(OK, "guard", path)
        return
    from ..runs.blocking import run

    try:
        result = run(["/bin/sh", "-c", ":"], timeout=10, grace=1, env={}, parent=None)
    except HoldfastError as error:
        yield DoctorFinding(PROBLEM, "guard", error.message, remedy=error.remedy or "reinstall holdfast")
        return
    report = result.report
    if (result.status, report["tree"]) != ("succeeded", "gone"):
        what = f"a trial run under {path} ended as {result.status}/{result.cause}: {report['reason']}"
        yield DoctorFinding(PROBLEM, "guard", what, run_id=result.run_id, remedy="reinstall holdfast for this machine")
        return
    yield DoctorFinding(OK, "guard", f"{path} ran a command, contained by {report['containment']}")
