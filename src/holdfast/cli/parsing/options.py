"""Option tables of the commands, and the parser of a command line.

Why not argparse: parsing must stop at the first word that is not an option (`run ls -l`), our errors are one line with
exit code 125, and argparse takes a quarter of the start-up time.
"""

from __future__ import annotations

from ...values.errors import HoldfastError
from ...values.fast_imports import NamedTuple


class UsageError(HoldfastError):
    """The command line is wrong; nothing was started."""


class Option(NamedTuple):
    """One option. Without a metavar it is a switch; with `many` the user may give it more than once.

    `short` is one letter that users of other programs type for it, such as `a` for `-a`.
    """

    flag: str
    metavar: str | None
    help: str
    many: bool = False
    short: str = ""


class CommandLine(NamedTuple):
    """A parsed command line: the values of each option by flag (a switch has empty texts), and the other words."""

    values: dict[str, list[str]]
    words: list[str]

    def has(self, flag: str) -> bool:
        """Whether the option was given."""
        return flag in self.values

    def last(self, flag: str) -> str | None:
        """The last value of an option; None when the option was not given."""
        return self.values[flag][-1] if flag in self.values else None

    def all(self, flag: str) -> list[str]:
        """All values of an option, in order; empty when the option was not given."""
        return self.values.get(flag, [])


def parse(table: tuple[Option, ...], arguments: list[str]) -> CommandLine:
    """Parse options up to the first other word or `--`; keep the rest as words. UsageError for an unknown option."""
    options = {option.flag: option for option in table}
    values: dict[str, list[str]] = {}
    at = 0
    while at < len(arguments):
        word = arguments[at]
        at += 1
        if word[:1] == "-" and word[1:2] not in ("", "-"):
            arguments, word = _spelt_out(table, arguments, at)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            at -= 1
            break
        flag, equals, value = word.partition("=")
        option = options.get(flag)
        if option is None:
            raise _unknown(flag, table)
        if option.metavar is None and equals:
            raise UsageError(f"{flag} takes no value", remedy=f"write {flag} alone, or leave it out")
        if option.metavar is not None and not equals:
            if at == len(arguments):
                raise UsageError(f"{flag} needs a value", remedy=f"write {flag} {option.metavar}")
            value = arguments[at]
            at += 1
        values.setdefault(flag, []).append(value)
    return CommandLine(values, arguments[at:])


def _spelt_out(table: tuple[Option, ...], arguments: list[str], at: int) -> tuple[list[str], str]:
    """Spell out the first short name of the word before `at` (`-aq`, `-n5`); its other letters become the next word."""
    word = arguments[at - 1]
    option = next((option for option in table if option.short == word[1]), None)
    if option is None:
        return arguments, word
    rest = word[2:] if option.metavar is None else word[2:].removeprefix("=")
    if rest:
        arguments = [*arguments[:at], f"-{rest}" if option.metavar is None else rest, *arguments[at:]]
    return arguments, option.flag


# What users of other programs, or of our own older versions, try. The nearest spelling would lead them elsewhere.
_OTHER_NAMES = {
    "--allow-remote": "--insecure-plain-tcp",
    "--background": "--detach",
    "--dir": "--cwd",
    "--directory": "--cwd",
    "--environment": "--env",
    "--force": "--now",
    "--group": "--concurrency-key",
    "--kill-after": "--grace",
    "--lines": "--tail",
    "--max-memory": "--memory",
    "--max-time": "--timeout",
    "--mem": "--memory",
    "--memory-limit": "--memory",
    "--pids-limit": "--pids",
    "--silent": "--quiet",
    "--time-limit": "--timeout",
    "--tty": "--pty",
    "--workdir": "--cwd",
    "--working-directory": "--cwd",
}


def _unknown(flag: str, table: tuple[Option, ...]) -> UsageError:
    from difflib import get_close_matches

    flags = [option.flag for option in table]
    meant = _OTHER_NAMES.get(flag)
    # One letter is near to nothing: the spelling says too little of what was meant.
    near = [meant] if meant in flags else get_close_matches(flag, flags, 1) if flag.startswith("--") else []
    remedy = f"did you mean {near[0]}?" if near else "see --help; to run a command of that name put -- before it"
    return UsageError(f"unknown option {flag!r}", remedy=remedy)


def pair(text: str, flag: str, form: str) -> tuple[str, str]:
    """Split `NAME=VALUE`. UsageError: it has another form. The error never repeats the text, which may be secret."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"a value of {flag} is not of the form {form}", remedy=f"write {flag} {form}")
    return name, value


def usage(head: str, table: tuple[Option, ...], tail: str) -> str:
    """The help text of a command: its options between a head and a tail."""
    lines = []
    for option in table:
        flags = f"-{option.short}, {option.flag}" if option.short else option.flag
        left = flags if option.metavar is None else f"{flags} {option.metavar}"
        text = f"{option.help} (repeatable)" if option.many else option.help
        lines.append(f"  {left:<27} {text}" if len(left) <= 27 else f"  {left}\n{'':30}{text}")
    return head + "\n".join(lines) + "\n" + tail
