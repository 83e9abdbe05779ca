"""`holdfast sh`, and `holdfast-sh`: run a shell line as `run` runs a command, as if no Holdfast were between.

What a harness may rely on when it uses one of them as its shell: the bytes of both streams, in the order in which they
were written if both go to the same place; the exit code; stdin; the environment; no line of our own, except that the
run could not start or its output is not whole; no terminal that was not there before.
"""

from __future__ import annotations

import os

from ...values import starter
from ...values.environment import SH_OPTIONS
from ...values.harnesses import is_own_command, session_of
from ..parsing.options import CommandLine, Option, UsageError, parse, usage
from ..parsing.run_options import OPTIONS as OPTIONS_OF_RUN
from ..parsing.shell_words import read_shell_words
from ..starting.real_shell import become_shell, real_shell
from .run import TAIL, conduct

_OWN = (
    Option("--shell", "PATH", "the shell (default: HOLDFAST_SHELL, SHELL, or yours in the user database)"),
    Option("--without-parent", None, "go on when the process that started holdfast is gone"),
    Option("--verbose", None, "print a line about how the run ended, if its exit code does not say it"),
    Option("--stragglers", "POLICY", "as in `run` (default: session where one is known, else kill)"),
)
_NOT_HERE = ("--with-parent", "--env-inherit", "--quiet", "--no-pty", "--stragglers")
OPTIONS = (*_OWN, *(option for option in OPTIONS_OF_RUN if option.flag not in _NOT_HERE))
_EXCLUDES_SESSION = ("--stragglers", "--detach", "--lifetime", "--pty", "--in-container")
_HEAD = """\
Run a line of shell as `holdfast run` runs a command, as if no Holdfast were between. It ends with the process that
started it.

usage: holdfast sh [OPTIONS] STRING [NAME [ARG]...]

STRING, NAME and ARG are as in `sh -c`. `holdfast-sh` is the same for programs that call a shell by one path: it takes a
shell's own options (-c, -lc, -e, ...), or one whole line, and its options are in HOLDFAST_SH_OPTIONS.

"""


def run(arguments: list[str]) -> int:
    """Run the command line after `sh` and return the exit code. HoldfastError when the shell cannot be started."""
    given = parse(OPTIONS, arguments)
    if given.has("--help"):
        return _help()
    if not given.words:
        raise UsageError("no shell line was given", remedy="write holdfast sh [OPTIONS] 'COMMAND ...'")
    return _conduct(given, ["-c", *given.words])


def run_as_shell(words: list[str]) -> int:
    """Be the shell that `holdfast-sh` stands for, and return the exit code."""
    given = parse(OPTIONS, _options_of_environment())
    if given.words:
        remedy = f"it holds only options, such as {SH_OPTIONS}='--timeout 10m'"
        raise UsageError(f"{SH_OPTIONS} has the word {given.words[0]!r}, which is no option", remedy=remedy)
    asked = read_shell_words(words)
    if asked.interactive:
        become_shell(given.last("--shell"), words)
    return _conduct(given, asked.words)


def _options_of_environment() -> list[str]:
    text = os.environ.get(SH_OPTIONS, "")
    if not any(mark in text for mark in "'\"\\#"):
        return text.split()
    import shlex  # here, because quotes are rare

    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{SH_OPTIONS} cannot be read: {error}", remedy="quote it as in a shell") from None


def _conduct(given: CommandLine, words: list[str]) -> int:
    """Run the real shell with these words: what was given, and the defaults of a shell for the rest."""
    values = dict(given.values)
    values["--env-keep"] = ["*", *given.all("--env-keep")]
    if not given.has("--verbose"):
        values["--quiet"] = [""]
    if not given.has("--pty"):
        values["--no-pty"] = [""]
    if _streams_are_one() and not given.has("--pty"):
        values["--merge"] = [""]
    if not given.has("--session") and (session := session_of(os.environ)):
        values["--session"] = [session]
    ends_by_itself = given.has("--detach") or given.last("--lifetime") == "detached"
    wants_parent = not given.has("--without-parent") and not given.has("--with-process")
    if wants_parent and not ends_by_itself and starter.can_be_watched():
        values["--with-parent"] = [""]
    if _leaves_to_session(values):
        values["--stragglers"] = ["session"]
    return conduct(CommandLine(values, [real_shell(given.last("--shell")), *words]))


def _leaves_to_session(values: dict[str, list[str]]) -> bool:
    """Whether what the line leaves behind goes on with the session: a server is wanted until the harness ends.

    So there must be a process with which it ends at the latest. What a hook or an MCP server leaves is not wanted.
    Where it is not possible, the line must not fail for that.
    """
    if "--session" not in values or any(flag in values for flag in _EXCLUDES_SESSION):
        return False
    return ("--with-parent" in values or "--with-process" in values) and not is_own_command(os.environ)


def _streams_are_one() -> bool:
    """Whether stdout and stderr go to the same place. Then one pipe keeps the order in which the command writes."""
    out, err = os.fstat(1), os.fstat(2)
    return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)


def _help() -> int:
    from ..printing.messages import show

    show(usage(_HEAD, OPTIONS, TAIL))
    return 0
