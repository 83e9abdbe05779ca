"""`subprocess` of the standard library, whose processes are runs: `from holdfast.compat import subprocess`.

Exceptions, results and constants are the standard library's own objects, so `except subprocess.TimeoutExpired` goes on
working, whichever of the two modules a library uses. The functions are the standard library's own code around our
`Popen`. `docs/compat.md` says what is added and what differs.
"""

from __future__ import annotations

import subprocess as _original
from subprocess import (
    DEVNULL,
    PIPE,
    STDOUT,
    CalledProcessError,
    CompletedProcess,
    SubprocessError,
    TimeoutExpired,
)
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .subprocess_types import TypedPopen as Popen
    from .subprocess_types import call, check_call, check_output, getoutput, getstatusoutput, run
else:
    from .popen import Popen, TimedPopen
    from .rebinding import rebound

    _run = rebound(_original.run, Popen=TimedPopen)
    _call = rebound(_original.call, Popen=TimedPopen)

    def run(*popenargs: Any, timeout: float | None = None, **kwargs: Any) -> CompletedProcess[Any]:
        """As `subprocess.run`. The timeout ends the whole tree with grace, and then TimeoutExpired is raised."""
        return _run(*popenargs, timeout=timeout, holdfast_timeout=timeout, **kwargs)

    def call(*popenargs: Any, timeout: float | None = None, **kwargs: Any) -> int:
        """As `subprocess.call`. The timeout ends the whole tree with grace, and then TimeoutExpired is raised."""
        return _call(*popenargs, timeout=timeout, holdfast_timeout=timeout, **kwargs)

    check_call = rebound(_original.check_call, call=call)
    check_output = rebound(_original.check_output, run=run)
    getstatusoutput = rebound(_original.getstatusoutput, check_output=check_output)
    getoutput = rebound(_original.getoutput, getstatusoutput=getstatusoutput)

    def __getattr__(name: str) -> Any:
        """What is not ours is the standard library's own: `list2cmdline`, and what libraries use without a promise."""
        return getattr(_original, name)


__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CalledProcessError",
    "CompletedProcess",
    "Popen",
    "SubprocessError",
    "TimeoutExpired",
    "call",
    "check_call",
    "check_output",
    "getoutput",
    "getstatusoutput",
    "run",
]
