"""The front of a run: this process becomes a small static program while its run goes on, and Python again at the end.

`native/front.h` says what the program does. The process stays the same, and with it the owner of the run: its guard
notices nothing. `Handover` is what the program, and the Python that comes after it, need to know. It travels as words
of their command lines.
"""

from __future__ import annotations

import os
import sys
import time
from _socket import socket

from ..guard.binary import guard_path
from ..guard.launch import GuardHandle
from ..journal.reader import JournalReader
from ..values.fast_imports import TYPE_CHECKING, NamedTuple, signal
from ..values.signals import STOPS
from ..values.spec import spec_on_record
from .durable import recovery_in
from .ephemeral import end_lost
from .live import LiveRun
from .watchdog import LATE_S, settle_s

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from ..state.directory import StateDirectory

HELD = (*STOPS, signal.SIGUSR1, signal.SIGUSR2)  # from before the first execve to after the last
WHY_LATE = "late"  # the word of a front whose run is not over although its bound has passed
WHY_WAKE = "wake"  # the word of a front whose server was ended for silence, and is spoken to


class Handover(NamedTuple):
    """A live run of this process, for the program that this process becomes."""

    run_id: str
    control: int
    journal: int
    pidfd: int
    sentinel_pid: int
    trusted: int

    @classmethod
    def of(cls, live: LiveRun) -> Handover:
        """The handover of this run. Its descriptors stay open across `execve`."""
        numbers = (live.control.fileno(), live.journal, live.pidfd)
        for fd in numbers:
            os.set_inheritable(fd, True)
        return cls(live.spec.run_id, *numbers, live.sentinel_pid, live.trusted)

    @property
    def words(self) -> list[str]:
        """The handover as words of a command line."""
        return [str(value) for value in self]

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Handover:
        """The handover in these words. ValueError, TypeError: they are none."""
        return cls(words[0], *map(int, words[1:]))


class Relay(NamedTuple):
    """A front through which the bytes pass, because it may end the server and start it again (`native/relay.h`)."""

    output: int  # the reading end of the server's stdout
    writing: int  # the other end, which only the server may have
    session: int  # the memfd with the beginning of the session
    starter: int  # readable when the process that started us is gone; -1: nobody watches it
    idle_s: float


SESSION_BYTES = 1 << 17  # room for `struct session` of `native/relay.c`


def become_front(
    live: LiveRun,
    words: Sequence[str],
    again: Sequence[str] = (),
    *,
    after_eof_s: float | None,
    came: bytes = b"",
    relay: Relay | None = None,
) -> NoReturn:
    """Become the front of this run, which becomes `holdfast WORDS... HANDOVER AGAIN... WHY` to tell something.

    `after_eof_s`: how long the command may go on after end of file on our stdin. `came`: signals that came already and
    that the front has to take. OSError: it cannot be executed.
    """
    spec = live.spec
    handover = Handover.of(live)
    settle_ns = round(settle_s(spec) * 1e9)
    bound_ns = 0 if spec.timeout_s is None else time.monotonic_ns() + round((spec.timeout_s + LATE_S) * 1e9) + settle_ns
    numbers = (
        *(handover.control, handover.journal, handover.pidfd, handover.trusted),
        *(0 if after_eof_s is None else max(1, round(after_eof_s * 1e9)), settle_ns, bound_ns),
        int(spec.parent is not None),
        *_relay_numbers(live, relay),
    )
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    for number in came:
        os.kill(os.getpid(), number)  # pending again, for the front
    python = [sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "holdfast.cli.main"]
    program = [*python, *words, *handover.words, *again, "why"]
    os.execv(guard_path(), ["holdfast", "front", *map(str, numbers), *program])


def _relay_numbers(live: LiveRun, relay: Relay | None) -> tuple[int, ...]:
    if relay is None:
        # The command has its own: a second writer would keep the end of file from its reader. Python needs only stderr.
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, 1)
        return (-1, -1, -1, -1, 0)
    os.close(relay.writing)
    for fd in (live.input, relay.output, relay.session, relay.starter):
        if fd >= 0:
            os.set_inheritable(fd, True)
    return (live.input, relay.output, relay.session, relay.starter, max(1, round(relay.idle_s * 1e9)))


def resume(handover: Handover, state: StateDirectory | None, why: str) -> LiveRun:
    """The run of a front that became Python again: the same descriptors, and the same guard."""
    for fd in (handover.control, handover.journal, handover.pidfd):
        os.set_inheritable(fd, False)
    reader = JournalReader(handover.journal, trusted=handover.trusted, run_id=handover.run_id)
    reader.scan()
    spec = spec_on_record(handover.run_id, reader.spec or {})
    handle = GuardHandle(
        control=socket(fileno=handover.control),
        journal=handover.journal,
        pidfd=handover.pidfd,
        sentinel_pid=handover.sentinel_pid,
        input=None,
        heartbeat=None,
        trusted=handover.trusted,
        beginning=b"",
        first_run=handover.run_id,
    )
    live = LiveRun(spec, handle, end_lost if state is None else recovery_in(state), kept=state is not None)
    if why == WHY_LATE:
        live.watchdog.stop_was_asked(time.monotonic() - settle_s(spec) - LATE_S)
    live.refresh()
    return live
