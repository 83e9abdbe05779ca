"""The entry point of `holdfast`: find the command, and turn a failure of Holdfast into one line and exit code 125."""

from __future__ import annotations

import gc
import os
import sys

# The C half of `signal`, which builds no enums: signals must be held back before anything that takes time.
from _signal import SIG_BLOCK, pthread_sigmask  # type: ignore[import-not-found,unused-ignore]

from ..values import starter  # noqa: F401 - first of ours: it remembers who our parent was at the beginning

TYPE_CHECKING = False  # as in holdfast/__init__.py: importing `typing` takes too long
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

OWN_FAILURE = 125  # as in projections/exit_code.py, which --help need not import
# SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP: the signals that end or suspend a program.
_HELD = (1, 2, 3, 15, 20)

_HELP = """\
Holdfast runs commands as processes that always end well.

usage: holdfast COMMAND [OPTIONS] ...

commands:
{commands}

  holdfast COMMAND --help    the options of one command
  holdfast --version         the version

Exit code 125 means that Holdfast itself failed; `holdfast run --help` lists the others.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. A mistake of the user never raises."""
    if words is None:
        _leave(main(sys.argv[1:]))
    arguments = list(words)
    first = arguments[0] if arguments else ""
    if first == "run":
        return _guarded(lambda: _run(arguments[1:]))
    if first == "sh":
        return _guarded(lambda: _shell(arguments[1:]))
    if first == "help" and len(arguments) > 1:
        return main([arguments[1], "--help"])
    if first in ("--help", "-h", "help", ""):
        return _guarded(lambda: _help(first))
    if first in ("--version", "-V"):
        return _guarded(_version)
    if first == "front-ended":
        return _guarded(lambda: _front_ended(arguments[1:]))
    return _guarded(lambda: _command(first, arguments[1:]))


def shell(words: Sequence[str] | None = None) -> int:
    """Be `holdfast-sh`: a shell whose commands always end well. Returns the exit code."""
    if words is None:
        _leave(shell(sys.argv[1:]))
    arguments = list(words)
    return _guarded(lambda: _be_shell(arguments))


def _be_shell(arguments: list[str]) -> int:
    _hold_signals()
    from .commands.sh import run_as_shell

    _imported()
    return run_as_shell(arguments)


def _command(name: str, arguments: list[str]) -> int:
    from importlib import import_module

    from .parsing.catalogue import COMMANDS, OTHER_NAMES

    if name in OTHER_NAMES:
        # `status` alone asks for all runs, and with a word for one.
        meant = ("ps",) if name == "status" and not arguments else OTHER_NAMES[name]
        return main([*meant, *arguments])
    if name not in COMMANDS:
        return _unknown(name)
    _fill_standard_descriptors()
    command = import_module(f"holdfast.cli.commands.{name}").COMMAND
    code: int = command.run(arguments)
    return code


def _run(arguments: list[str]) -> int:
    _hold_signals()
    from .commands.run import run

    _imported()
    return run(arguments)


def _shell(arguments: list[str]) -> int:
    _hold_signals()
    from .commands.sh import run

    _imported()
    return run(arguments)


def _hold_signals() -> None:
    """Get ready for the imports of a foreground run."""
    # Held back until the signal pipe takes them: a Ctrl-C while we import must neither print a traceback nor be lost.
    # `SignalPipe` unblocks them; the guard and the command start with an empty mask anyway.
    pthread_sigmask(SIG_BLOCK, _HELD)
    _fill_standard_descriptors()
    gc.disable()  # imported modules stay alive, and a collection takes a tenth of the start-up time


def _imported() -> None:
    gc.freeze()
    gc.enable()


def _front_ended(arguments: list[str]) -> int:
    from .commands.front_ended import front_ended

    return front_ended(arguments)


def _help(first: str) -> int:
    from .parsing.catalogue import COMMANDS
    from .printing.messages import say, show

    text = _HELP.format(commands="\n".join(f"  {name:<12}{what}" for name, what in COMMANDS.items()))
    if first:
        show(text)
        return 0
    say("no command was given: try `holdfast run -- COMMAND`, or `holdfast --help`")
    return OWN_FAILURE


def _version() -> int:
    from importlib.metadata import version

    from .printing.messages import show

    show(f"holdfast {version('holdfast')}\n")
    return 0


def _unknown(first: str) -> int:
    from difflib import get_close_matches

    from .parsing.catalogue import COMMANDS, NOT_HERE
    from .printing.messages import say

    kind = "option" if first.startswith("-") else "command"
    near = get_close_matches(first, COMMANDS, 1) if kind == "command" else []
    other = f"did you mean holdfast {near[0]}?" if near else "see `holdfast --help` for the commands there are"
    say(f"unknown {kind} {first!r}: {NOT_HERE.get(first, other)}")
    return OWN_FAILURE


def _guarded(command: Callable[[], int]) -> int:
    from ..values.errors import HoldfastError

    try:
        return command()
    except HoldfastError as error:
        from .printing.messages import describe, say

        say(describe(error))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        from .printing.messages import say

        say(f"cannot go on: {error.strerror or error}")
    except Exception:  # noqa: BLE001 - a defect must not look like exit code 1 of the command
        import traceback

        from .printing.messages import say_defect

        say_defect(traceback.format_exc())
    return OWN_FAILURE


def _leave(code: int) -> NoReturn:
    """Exit without the clean-up of the interpreter: it takes milliseconds, and the kernel frees the memory anyway."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None: the descriptor was closed when we started
                stream.flush()
        except OSError:
            pass
    os._exit(code)


def _fill_standard_descriptors() -> None:
    """Open /dev/null for each closed standard descriptor.

    Otherwise the next file that we open would get that number, and our output would go into the file. The same holds
    for a program that we become.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is `fd`


if __name__ == "__main__":
    sys.exit(main())
