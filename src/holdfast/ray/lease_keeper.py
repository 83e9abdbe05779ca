"""The lease keeper: a process whose life is the lease of a node. Every run of the node ends when this process is gone.

The node's guards hold a pidfd of this process, as the starter of their runs. A kernel timer kills this process when the
lease is over. The timer sends SIGKILL, so it also kills a keeper that is stopped or gets no CPU time. A renewal is the
new end of the lease on CLOCK_BOOTTIME, as eight bytes in a FIFO. An end that is earlier than the present one is
ignored, so the order of renewals does not matter.

This file is a program of its own, and imports nothing of Holdfast: `python -I -S lease_keeper.py FIFO END_NS`. It goes
to the background, and prints its PID when the timer is set and the FIFO is open.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

CLOCK_BOOTTIME = 7
RENEWAL = struct.Struct("=q")
_ABSOLUTE = 1


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),  # 0: SIGEV_SIGNAL
        ("padding", ctypes.c_char * 48),
    )


class _Span(ctypes.Structure):
    _fields_ = (("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2))


def main(fifo: str, end_ns: int) -> None:
    """Go to the background, and live until the lease is over."""
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        pid = os.read(ready, 32)
        os.write(1, pid)
        os._exit(0 if pid else 1)
    os.close(ready)
    os.setsid()  # Ray kills the process group of a worker that ended
    if os.fork():
        os._exit(0)
    renewals = os.open(fifo, os.O_RDWR)  # also for writing: end of file never comes
    timer = _new_timer()
    _set(timer, end_ns)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.chdir("/")
    os.write(told, str(os.getpid()).encode())
    os.close(told)
    while True:
        (asked_ns,) = RENEWAL.unpack(os.read(renewals, RENEWAL.size))
        if asked_ns > end_ns:
            end_ns = asked_ns
            _set(timer, end_ns)


_libc = ctypes.CDLL(None, use_errno=True)


def _new_timer() -> ctypes.c_void_p:
    timer = ctypes.c_void_p()
    event = _Event(None, int(signal.SIGKILL), 0, b"")
    if _libc.timer_create(CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "timer_create")
    return timer


def _set(timer: ctypes.c_void_p, end_ns: int) -> None:
    span = _Span()
    span.value[:] = divmod(max(end_ns, 1), 1_000_000_000)  # 0 would switch the timer off
    if _libc.timer_settime(timer, _ABSOLUTE, ctypes.byref(span), None):
        raise OSError(ctypes.get_errno(), "timer_settime")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
