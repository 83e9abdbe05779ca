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
    """A guard on a kernel that closes descriptors one by one (before Linux 5.9)."""
    return _build(directory, "closes", _CLOSES)


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
#include <sys/syscall.h>
#undef SYS_close_range
#define SYS_close_range 100000
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
