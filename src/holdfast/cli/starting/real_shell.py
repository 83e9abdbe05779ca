"""The real shell: it executes the lines of `holdfast sh` and `holdfast-sh`, and is never `holdfast-sh` itself."""

from __future__ import annotations

import os

from ...values.environment import SHELL
from ...values.fast_imports import TYPE_CHECKING
from ...values.fast_imports import signal as _signal
from ..parsing.options import UsageError

if TYPE_CHECKING:
    from typing import NoReturn

OWN_NAME = "holdfast-sh"
_PLAIN = "/bin/sh"
_NO_SHELLS = ("nologin", "false")  # what the user database has for users who may not log in


def real_shell(named: str | None) -> str:
    """The path of the shell: `--shell`, HOLDFAST_SHELL, SHELL, the user database, or /bin/sh, whichever is first.

    UsageError: a shell that was named cannot be executed.
    """
    for shell, source in ((named, "--shell"), (os.environ.get(SHELL), SHELL)):
        if shell:
            return _executable(shell, source)
    return next(filter(_is_real, (os.environ.get("SHELL"), _of_the_user())), None) or _PLAIN


def become_shell(named: str | None, words: list[str]) -> NoReturn:
    """Become the real shell, unsupervised: a person types the commands, and the terminal has its job control.

    UsageError, OSError: the shell cannot be executed.
    """
    shell = real_shell(named)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())  # the command line holds signals back for a run
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # the interpreter ignores them, and a shell would pass that on
        _signal.signal(number, _signal.SIG_DFL)
    os.execv(shell, [shell, *words])


def _is_real(shell: str | None) -> bool:
    """Whether this can be the shell of a user. `$SHELL` may be holdfast-sh, which would start itself for ever."""
    name = os.path.basename(os.path.realpath(shell or ""))
    return bool(shell) and name not in (OWN_NAME, *_NO_SHELLS) and os.access(shell or "", os.X_OK)


def _of_the_user() -> str | None:
    import pwd  # here, because SHELL is nearly always set

    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return None


def _executable(shell: str, source: str) -> str:
    places = [shell] if "/" in shell else [f"{place}/{shell}" for place in os.get_exec_path()]
    found = next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)
    if found is None:
        raise UsageError(f"the shell {shell!r} of {source} cannot be executed", remedy="name another, such as /bin/sh")
    if not _is_real(found):
        remedy = "name the shell that is to execute the commands, such as /bin/sh"
        raise UsageError(f"the shell {shell!r} of {source} is holdfast-sh itself", remedy=remedy)
    return found
