"""Guards built from source with one system call replaced, for moments that last microseconds in a real guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .children import compile_c
from .guards import NATIVE

if TYPE_CHECKING:
    from pathlib import Path


def guard_that_stops_while_it_holds(directory: Path) -> Path:
    """A guard that stops itself (SIGSTOP) when the command is forked and held, before it looks at any request."""
    return _build(directory, "stops", _STOPS)


def guard_that_stops_before_its_timers(directory: Path) -> Path:
    """A guard that stops itself, with its sentinel, after it slept up to a timer and has seen no signal."""
    return _build(directory, "timers", _STOPS_BEFORE_TIMERS)


def guard_with_slow_proc(directory: Path, milliseconds: int) -> Path:
    """A guard for which opening anything in /proc takes that long, as it does on a machine with 100,000 processes."""
    return _build(directory, "slow", _SLOW.replace("MILLISECONDS", str(milliseconds)))


def guard_whose_kills_are_done(directory: Path) -> Path:
    """A guard whose SIGKILL has killed the process when the call returns."""
    return _build(directory, "kills", _KILLS)


def guard_that_makes_no_sessions(directory: Path) -> Path:
    """A guard whose child fails as soon as it is forked, with ENOSYS: it cannot have a session of its own."""
    return _build(directory, "groups", _NO_SESSIONS)


def guard_without_children_files(directory: Path) -> Path:
    """A guard on a kernel whose /proc has no lists of children (CONFIG_PROC_CHILDREN is not set)."""
    return _build(directory, "childless", _CHILDLESS)


def guard_without_close_range(directory: Path) -> Path:
    """A guard on a kernel that closes descriptors one by one (before Linux 5.9), with 2^30 of them allowed."""
    return _build(directory, "closes", _CLOSES)


def guard_that_reads_lists_in_small_pieces(directory: Path) -> Path:
    """A guard that gets 61 bytes of a list of PIDs at a time: pieces end in the middle of a number."""
    return _build(directory, "pieces", _PIECES)


def guard_that_dies_with_a_new_leaf(directory: Path) -> Path:
    """A guard that is killed when it has just made its leaf, and has not noted that yet."""
    return _build(directory, "dies", _DIES)


def guard_whose_child_misses_it(directory: Path) -> Path:
    """A guard whose child finds another parent at its first look, as if the guard had died before it."""
    return _build(directory, "missed", _MISSED)


def mutated_guard(directory: Path, name: str, old: str, new: str) -> Path:
    """A guard with one protection taken away: `old` replaced by `new`, once, in this source file."""
    changed = directory / name
    source = (NATIVE / name).read_text()
    assert source.count(old) == 1, f"{name} does not have it once: {old}"
    changed.write_text(source.replace(old, new))
    sources = [path for path in sorted(NATIVE.glob("*.c")) if path.name != name]
    return compile_c([*sources, changed], directory / "holdfast-guard", "-D_GNU_SOURCE", f"-I{NATIVE}")


def guard_in_a_storm_of_deaths(directory: Path) -> Path:
    """A guard that finds another SIGCHLD, and another dead child, after each: children die all the time."""
    return _build(directory, "storm", _STORM)


def _build(directory: Path, name: str, shim: str) -> Path:
    header = directory / f"{name}.h"
    header.write_text(shim)
    sources = sorted(NATIVE.glob("*.c"))
    return compile_c(sources, directory / f"guard-{name}", "-D_GNU_SOURCE", "-include", str(header))


# The guard lets go of its own stdin exactly once, right after the fork.
_STOPS = """
#include <signal.h>
#include <unistd.h>
__attribute__((unused)) static int stopping_dup2(int from, int to) {
    int result = dup2(from, to);
    if (to == 0) {
        kill(getppid(), SIGSTOP); /* its sentinel would continue it */
        kill(getpid(), SIGSTOP);
    }
    return result;
}
#define dup2 stopping_dup2
"""
# A short sleep is one up to the first timer of a run, for which it is not short any more.
_STOPS_BEFORE_TIMERS = """
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
__attribute__((unused)) static int stopping_ppoll(const char *file, struct pollfd *watched, nfds_t count,
                                                  const struct timespec *timeout, const sigset_t *mask) {
    if (strstr(file, "/loop.c") == NULL || timeout == NULL || timeout->tv_sec > 0 || timeout->tv_nsec < 100000000)
        return ppoll(watched, count, timeout, mask);
    ppoll(NULL, 0, timeout, mask);
    for (nfds_t i = 0; i < count; i++)
        watched[i].revents = 0;
    kill(getppid(), SIGSTOP); /* its sentinel would continue it */
    kill(getpid(), SIGSTOP);
    return 0;
}
#define ppoll(watched, count, timeout, mask) stopping_ppoll(__BASE_FILE__, watched, count, timeout, mask)
"""
_DIES = """
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
__attribute__((unused)) static int dying_mkdirat(int directory, const char *name, mode_t mode) {
    int result = mkdirat(directory, name, mode);
    kill(getpid(), SIGKILL);
    return result;
}
#define mkdirat dying_mkdirat
"""
_MISSED = """
#include <sys/syscall.h>
#undef SYS_getppid
#define SYS_getppid SYS_getpid
"""
_NO_SESSIONS = """
#include <sys/syscall.h>
#undef SYS_setsid
#define SYS_setsid 100000
"""
_CHILDLESS = """
#include <errno.h>
#include <fcntl.h>
#include <string.h>
__attribute__((unused)) static int childless_open(const char *path, int flags) {
    const char *name = strrchr(path, '/');
    if (name == NULL || strcmp(name, "/children") != 0)
        return open(path, flags);
    errno = ENOENT;
    return -1;
}
#define open childless_open
"""
_CLOSES = """
#include <sys/resource.h>
#include <sys/syscall.h>
#undef SYS_close_range
#define SYS_close_range 100000
__attribute__((unused)) static int generous_getrlimit(int what, struct rlimit *limit) {
    int result = getrlimit(what, limit);
    if (what == RLIMIT_NOFILE)
        limit->rlim_cur = limit->rlim_max = 1 << 30;
    return result;
}
#define getrlimit generous_getrlimit
"""
_PIECES = """
#include <unistd.h>
__attribute__((unused)) static ssize_t short_read(int fd, void *buffer, size_t size) {
    return read(fd, buffer, size == 4096 || size == 4095 ? 61 : size); /* the sizes of the buffers for lists */
}
#define read short_read
"""
_STORM = """
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((unused)) static ssize_t stormy_read(const char *file, int fd, void *buffer, size_t size) {
    ssize_t got = read(fd, buffer, size);
    if (got > 0 || strstr(file, "/loop.c") == NULL)
        return got;
    memset(buffer, 0, size);
    ((struct signalfd_siginfo *)buffer)->ssi_signo = SIGCHLD;
    return sizeof(struct signalfd_siginfo);
}
#define read(fd, buffer, size) stormy_read(__BASE_FILE__, fd, buffer, size)
__attribute__((unused)) static pid_t stormy_wait4(const char *file, pid_t pid, int *status, int flags, void *usage) {
    pid_t found = wait4(pid, status, flags, usage);
    return found != 0 || strstr(file, "/run.c") == NULL ? found : 1; /* a process that is none of ours */
}
#define wait4(pid, status, flags, usage) stormy_wait4(__BASE_FILE__, pid, status, flags, usage)
"""
_SLOW = """
#include <fcntl.h>
#include <string.h>
#include <time.h>
__attribute__((unused)) static void slow_down(const char *path) {
    struct timespec pause = {0, MILLISECONDS * 1000000L};
    if (strncmp(path, "/proc/", 6) == 0)
        nanosleep(&pause, NULL);
}
__attribute__((unused)) static int slow_open(const char *path, int flags) {
    slow_down(path);
    return open(path, flags);
}
__attribute__((unused)) static int slow_openat(int directory, const char *path, int flags) {
    slow_down(path);
    return openat(directory, path, flags);
}
#define open slow_open
#define openat slow_openat
"""
_KILLS = """
#include <signal.h>
#include <sys/wait.h>
__attribute__((unused)) static int done_kill(pid_t pid, int number) {
    siginfo_t info;
    int result = kill(pid, number);
    if (number == SIGKILL && result == 0)
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    return result;
}
#define kill done_kill
"""
