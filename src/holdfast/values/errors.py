"""Every error that Holdfast raises: what happened, to which run, and what to do next."""

from __future__ import annotations

import errno as _errno
import os

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it costs milliseconds
if TYPE_CHECKING:
    from typing import Any

_RESOURCE_REMEDIES = {
    _errno.EMFILE: "raise this process's descriptor limit (ulimit -n) or keep fewer runs at once",
    _errno.ENFILE: "the whole host is out of file descriptors: raise fs.file-max or close programs",
    _errno.EAGAIN: "no more processes are allowed: raise the limit (ulimit -u, pids.max) or keep fewer runs at once",
    _errno.ENOMEM: "free memory or keep fewer runs at once",
    _errno.ENOSPC: "free space on the device that holds the state directory",
}
RESOURCE_ERRNOS = frozenset(_RESOURCE_REMEDIES)


def resource_remedy(code: int | None) -> str | None:
    """What to do when a system call failed with this errno for want of a resource; None for any other errno."""
    return _RESOURCE_REMEDIES.get(code or 0)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text


class HoldfastError(Exception):
    """The base class of all our errors; `str()` is one line with the run and the remedy in it."""

    # Every attribute but the message is optional and kept in the instance's dict. So the default pickling of
    # exceptions (call with args, then restore the dict) carries a whole error from one process to another.
    def __init__(self, message: str, *, run_id: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.run_id = run_id
        self.remedy = remedy

    def __str__(self) -> str:
        text = self.message if self.run_id is None else f"{self.message} (run {self.run_id})"
        return _one_line(text if self.remedy is None else f"{text}: {self.remedy}")


class SpecError(HoldfastError, ValueError):
    """Bad input, found before anything was started; `field` names the option that is wrong.

    `errno` is the answer of the system, if the system was asked, such as for a file that is not there.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        errno: int | None = None,
        run_id: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, run_id=run_id, remedy=remedy)
        self.field = field
        self.errno = errno


class _SystemCallError(HoldfastError):
    """An error with the errno that caused it; None when no system call failed."""

    def __init__(
        self, message: str, *, errno: int | None = None, run_id: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, run_id=run_id, remedy=remedy)
        self.errno = errno


class ResourceError(_SystemCallError):
    """The supervisor ran out of descriptors, processes, memory or disk."""

    @classmethod
    def from_os_error(cls, error: OSError, *, doing: str, run_id: str | None = None) -> ResourceError:
        """The error for a failed system call; `doing` completes "cannot ..."."""
        why = os.strerror(error.errno) if error.errno else str(error)
        remedy = resource_remedy(error.errno)
        return cls(f"cannot {doing}: {why}", errno=error.errno, run_id=run_id, remedy=remedy)


class GuardError(_SystemCallError):
    """The guard is missing, not executable, or could not be started."""


class JournalError(HoldfastError):
    """A journal cannot be read."""


class JournalVersionError(JournalError):
    """A journal has a format version that this Holdfast does not know."""


class JournalDamagedError(JournalError):
    """A file is not a journal, or is corrupt before its end."""


class StateError(HoldfastError):
    """The state directory cannot be used."""


class StateVersionError(StateError):
    """The state directory, or its index, has a format that this Holdfast does not know."""


class RunExistsError(StateError):
    """A run with this id exists already."""


class RunNotFoundError(StateError):
    """No run has this id, or an id that begins with it."""


class AmbiguousRunError(StateError):
    """The ids of several runs begin with these characters."""


class SessionClosedError(StateError):
    """The session is closed and takes no more runs."""


class RunError(HoldfastError):
    """Raised by `Result.check()` for a run that did not succeed; `result` is that of the run."""

    def __init__(
        self, message: str, *, result: Any = None, run_id: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, run_id=run_id, remedy=remedy)
        self.result = result


class NotReadyError(HoldfastError):
    """A run is not ready: it ended before it was, the time to wait is over, or it has no condition."""


class RequestError(_SystemCallError):
    """A live run refused a request: the request came too late, exceeds a ceiling, or does not apply to the run."""

    @classmethod
    def too_late(cls, run_id: str) -> RequestError:
        """The error for a request to a run that is over."""
        return cls("the run is over: it takes no more requests", errno=_errno.ESRCH, run_id=run_id)


class ConfigError(HoldfastError):
    """The daemon's settings have mistakes: `file`, `line` and `name` locate the first, `mistakes` lists all."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        name: str | None = None,
        run_id: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, run_id=run_id, remedy=remedy)
        self.file = file
        self.line = line
        self.name = name
        self.mistakes: tuple[str, ...] = ()


class UnsupportedPlatformError(HoldfastError):
    """This operating system or kernel lacks something that Holdfast needs."""


class DrainingError(HoldfastError):
    """The daemon is shutting down and takes no more runs; try again after `retry_after_s`."""

    def __init__(
        self, message: str, *, retry_after_s: float = 1.0, run_id: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, run_id=run_id, remedy=remedy)
        self.retry_after_s = retry_after_s


class QueueFullError(HoldfastError):
    """The daemon's queue is full."""


class IdempotencyConflictError(HoldfastError):
    """The idempotency key was used before, for another spec; `run_id` is the run of that spec."""


class PolicyError(HoldfastError):
    """The policy of the daemon refuses the run; `rule` is the name of the rule."""

    def __init__(self, message: str, *, rule: str = "", run_id: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, run_id=run_id, remedy=remedy)
        self.rule = rule


class DaemonError(HoldfastError):
    """The daemon failed, refused, or sent an answer this client does not understand; `status` is the HTTP status."""

    def __init__(
        self, message: str, *, status: int | None = None, run_id: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, run_id=run_id, remedy=remedy)
        self.status = status


class DaemonUnreachableError(DaemonError):
    """No daemon listens at this address, or it does not answer."""


class UnauthorizedError(DaemonError):
    """The daemon wants a token, and got none or a wrong one."""
