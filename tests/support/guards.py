"""Guards under conditions: late to start, of another user, or with a clock that jumps."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.guard.binary import guard_path

from .children import compile_c

NATIVE = Path(__file__).resolve().parent.parent.parent / "native"


def held_guard(directory: Path) -> tuple[Path, Path]:
    """A guard that begins only when the test writes to the FIFO that is returned with it."""
    gate = directory / "gate"
    os.mkfifo(gate)
    return _script(directory / "held-guard", f'read -r _ <"{gate}"\nexec "{guard_path()}" "$@"'), gate


def guard_as(directory: Path, prefix: list[str]) -> Path:
    """A guard that starts through another command; a copy, because that user may not reach the original."""
    copy = directory / "guard-copy"
    copy.write_bytes(Path(guard_path()).read_bytes())
    copy.chmod(0o755)
    return _script(directory / "guard-as", f'exec {" ".join(prefix)} "{copy}" "$@"')


def guard_with_jumping_clock(directory: Path, by_s: int) -> Path:
    """A guard whose wall clock jumps by that much, back and forth, at each reading."""
    header = directory / "jumping_clock.h"
    header.write_text(_JUMPING_CLOCK.replace("BY_SECONDS", str(by_s)))
    sources = sorted(NATIVE.glob("*.c"))
    return compile_c(sources, directory / f"guard-jumping{by_s}", "-D_GNU_SOURCE", "-include", str(header))


def guard_that_was_suspended(directory: Path, clock: str) -> Path:
    """A guard for which this clock goes on by an hour in the middle of a run, as if the machine had been suspended."""
    header = directory / "suspended.h"
    header.write_text(_SUSPENDED.replace("CLOCK", clock))
    sources = sorted(NATIVE.glob("*.c"))
    return compile_c(sources, directory / f"guard-{clock}", "-D_GNU_SOURCE", "-include", str(header))


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# The first readings are before the suspend: those of the start.
_SUSPENDED = """
#include <time.h>
__attribute__((unused)) static int suspended_clock_gettime(clockid_t clock, struct timespec *now) {
    static int readings;
    int result = clock_gettime(clock, now);
    if (clock == CLOCK && ++readings > 20)
        now->tv_sec += 3600;
    return result;
}
#define clock_gettime suspended_clock_gettime
"""
# Every way to read the wall clock in C; timers set by it are refused, because they would jump with it.
_JUMPING_CLOCK = """
#include <errno.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
__attribute__((unused)) static int jumped_clock_gettime(clockid_t clock, struct timespec *now) {
    static int jumps;
    int result = clock_gettime(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)
        now->tv_sec += (jumps++ & 1) ? BY_SECONDS : -(BY_SECONDS);
    return result;
}
__attribute__((unused)) static time_t jumped_time(time_t *out) {
    struct timespec now;
    jumped_clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
__attribute__((unused)) static int jumped_gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    (void)zone;
    jumped_clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
__attribute__((unused)) static int jumped_timerfd_create(int clock, int flags) {
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM) {
        errno = EINVAL;
        return -1;
    }
    return timerfd_create(clock, flags);
}
#define clock_gettime jumped_clock_gettime
#define gettimeofday jumped_gettimeofday
#define time(out) jumped_time(out)
#define timerfd_create jumped_timerfd_create
"""
