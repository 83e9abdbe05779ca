"""Signals to us, read from a pipe: the C handler writes the number of each signal there, and a loop polls the pipe.

So nothing happens inside a handler. The next poll sees a signal that came between two steps of the loop. A signal that
was held back while the program started is the first thing that the loop reads.
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
    """Do nothing: the C handler has written the number to the pipe already."""


def release_signals() -> None:
    """Let signals act as in any other program, for a command that waits without a pipe."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TAKEN)


class SignalPipe:
    """Takes our signals from now on. A signal that was ignored at our start (nohup, `&`) stays ignored."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ahead = b""  # numbers that were read early, for the next `take`
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self.taken = [number for number in _TAKEN if signal.getsignal(number) is not signal.SIG_IGN]
        for number in self.taken:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TAKEN)

    def take(self) -> bytes:
        """The numbers of the signals that came, in order, without a SIGTSTP that a later SIGCONT revoked."""
        numbers, self._ahead = self._ahead + self._read(), b""
        continued = numbers.rfind(signal.SIGCONT)
        return bytes(number for at, number in enumerate(numbers) if number != signal.SIGTSTP or at > continued)

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, 4096)
        except BlockingIOError:
            return b""

    def suspend(self, *, group: bool) -> None:
        """Stop as Ctrl-Z does, and return when continued; return at once when nobody could continue us.

        `group`: stop our whole process group, because a raw terminal does not send it the signal.
        """
        if signal.SIGTSTP not in self.taken:
            return
        # The default action of SIGTSTP and not SIGSTOP: the kernel skips it for an orphaned group, where nobody could
        # ever continue us. We stop before unblocking returns, because only this thread can take the signal.
        # SIGTSTP is blocked until then. A SIGCONT may come between the SIGTSTP that we were sent and the one that stops
        # us, and no other SIGCONT may follow. A SIGCONT that came before is in the pipe. A SIGCONT that comes from now
        # on revokes the pending SIGTSTP.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTSTP,))
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0 if group else os.getpid(), signal.SIGTSTP)
        self._ahead += self._read()
        if signal.SIGCONT in self._ahead and not group:
            signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # discards the pending SIGTSTP
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTSTP,))
        signal.signal(signal.SIGTSTP, _noted)

    def release(self) -> None:
        """Give every signal its default action again."""
        for number in self.taken:
            signal.signal(number, signal.SIG_DFL)


def cause_of_signal(state: StateDirectory | None, parent: str | None) -> str:
    """The stop cause of a signal to us: `parent` when the run we are nested in is ending, else `user`.

    The outer guard signals our guard, which knows the sender, and us. We cannot tell that signal from a user's `kill`.
    But the outer guard records its verdict before it signals anything, so its journal tells us.
    """
    from ...state.enclosing_runs import enclosing_run_is_ending

    return "parent" if _is_decided(state, parent) or enclosing_run_is_ending() else "user"


def _is_decided(state: StateDirectory | None, run_id: str | None) -> bool:
    """Whether this run has a verdict; False when its record cannot be read."""
    if run_id is None or state is None:
        return False
    from ...state.record import RunRecord

    try:
        with RunRecord(state, run_id) as record:
            return record.read().outcome.status is not None
    except (HoldfastError, OSError):
        return False  # the outer run is kept elsewhere, or not at all
