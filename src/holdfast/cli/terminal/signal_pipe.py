"""Signals as something to read: the C handler writes each one's number to a pipe, and the loop takes them from there.

So nothing happens inside a handler, a signal between two steps of the loop is seen by the next poll, and one that was
held back while the program started is the first thing the loop reads.
"""

from __future__ import annotations

import os

from ...values.errors import HoldfastError
from ...values.fast_imports import TYPE_CHECKING, signal
from ...values.signals import STOPS

if TYPE_CHECKING:
    from types import FrameType

    from ...state.directory import StateDirectory

PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
_TAKEN = (*STOPS, *PASSED_ON, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """The wakeup descriptor has it already."""


class SignalPipe:
    """Takes the signals of this process until it ends. What was ignored when we started (nohup, `&`) stays ignored."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ahead = b""  # read already, and not taken yet
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self.taken = [number for number in _TAKEN if signal.getsignal(number) is not signal.SIG_IGN]
        for number in self.taken:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TAKEN)

    def take(self) -> bytes:
        """The numbers of the signals that came, in order, without a stop that a SIGCONT has taken back since."""
        numbers, self._ahead = self._ahead + self._read(), b""
        continued = numbers.rfind(signal.SIGCONT)
        return bytes(number for at, number in enumerate(numbers) if number != signal.SIGTSTP or at > continued)

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, 4096)
        except BlockingIOError:
            return b""

    def suspend(self, *, group: bool) -> None:
        """Stop as Ctrl-Z does, and return when continued; at once when nobody could continue us.

        `group`: the terminal did not send the signal to our process group, because it is raw; so we do.
        """
        if signal.SIGTSTP not in self.taken:
            return
        # The default action and not SIGSTOP: the kernel leaves it out for an orphaned group, where nobody could ever
        # continue us. It happens before unblocking returns, since there is only this thread to take it.
        # Blocked until then, because a SIGCONT may come between the signal that we were sent and the one that stops us,
        # and would be the last: one from before is in the pipe, and one from now on takes back what is pending.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTSTP,))
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0 if group else os.getpid(), signal.SIGTSTP)
        self._ahead += self._read()
        if signal.SIGCONT in self._ahead and not group:
            signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # which discards it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTSTP,))
        signal.signal(signal.SIGTSTP, _noted)

    def release(self) -> None:
        """From here on signals do what they do by default."""
        for number in self.taken:
            signal.signal(number, signal.SIG_DFL)


def cause_of_signal(state: StateDirectory | None, parent: str | None) -> str:
    """`parent` when the run we were started in is ending, `user` in every other case.

    The outer guard signals our guard, which knows, and us, who cannot tell it from a person's `kill`. But it records
    its verdict before it signals anybody, so the outer journal tells.
    """
    if parent is None or state is None:
        return "user"
    from ...state.record import RunRecord

    try:
        with RunRecord(state, parent) as record:
            return "user" if record.read().outcome.status is None else "parent"
    except (HoldfastError, OSError):
        return "user"  # the outer run is kept elsewhere, or not at all
