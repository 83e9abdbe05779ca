"""The frame of a command: its options and help, the state directory, and writing its output."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NamedTuple

from ...state.directory import StateDirectory, default_path, is_unused, state_error
from ...values.errors import RESOURCE_ERRNOS, HoldfastError, ResourceError
from .options import CommandLine, Option, UsageError, parse, usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STATE_DIR = Option("--state-dir", "PATH", "the state directory (default: HOLDFAST_STATE_DIR, or your own)")
JSON = Option("--json", None, "print JSON")
_HELP = Option("--help", None, "print this text", short="h")


class Command(NamedTuple):
    """One command: its usage line without `holdfast`, what it is for, its own options, and its function."""

    usage: str
    about: str
    options: tuple[Option, ...]
    act: Callable[[CommandLine], int]
    more: str = ""

    @property
    def table(self) -> tuple[Option, ...]:
        """All options of the command, the common ones at the end."""
        return (*self.options, STATE_DIR, _HELP)

    def run(self, arguments: list[str]) -> int:
        """Parse the arguments, run the command, and return the exit code. HoldfastError when anything fails."""
        given = parse_anywhere(self.table, arguments)
        if given.has("--help"):
            head = f"{self.about}\n\nusage: holdfast {self.usage}\n\n"
            put(usage(head, self.table, f"\n{self.more}" if self.more else ""))
            return 0
        try:
            return self.act(given)
        except OSError as error:
            if error.errno in RESOURCE_ERRNOS:
                raise ResourceError.from_os_error(error, doing=f"do `{self.usage.split()[0]}`") from None
            raise state_error(error, error.filename or given.last("--state-dir") or "in use") from None


class PrefixCommand(NamedTuple):
    """A command that stands before another one (`submit`, `acp`): its options end where that one begins."""

    usage: str
    about: str
    table: tuple[Option, ...]
    act: Callable[[CommandLine], int]
    more: str
    prefixed: str  # what the words after the options are: a command, an agent

    def run(self, arguments: list[str]) -> int:
        """Parse the arguments, run the command, and return the exit code. HoldfastError when anything fails."""
        given = parse(self.table, arguments)
        if given.has("--help"):
            put(usage(f"{self.about}\n\nusage: holdfast {self.usage}\n\n", self.table, f"\n{self.more}"))
            return 0
        if not given.words:
            remedy = f"write holdfast {self.usage.replace('[--]', '--')}"
            raise UsageError(f"no {self.prefixed} was given", remedy=remedy)
        return self.act(given)


def parse_anywhere(table: tuple[Option, ...], arguments: list[str]) -> CommandLine:
    """Like `parse`, but options may follow other words; after `--` everything is a word."""
    rest = arguments
    values: dict[str, list[str]] = {}
    words: list[str] = []
    while rest:
        parsed = parse(table, rest)
        for flag, found in parsed.values.items():
            values.setdefault(flag, []).extend(found)
        used = len(rest) - len(parsed.words)
        if used and rest[used - 1] == "--":
            return CommandLine(values, words + parsed.words)
        words += parsed.words[:1]
        rest = parsed.words[1:]
    return CommandLine(values, words)


def open_state(given: CommandLine, *, create: bool = False) -> StateDirectory:
    """The state directory of this command line. StateError says why it cannot be used, and the remedy."""
    return StateDirectory.open(given.last("--state-dir"), create=create)


def used_state(given: CommandLine) -> StateDirectory | None:
    """The state directory; None when it is empty, or the default one does not exist, because then there are no runs.

    StateError when a directory named with --state-dir does not exist.
    """
    path = given.last("--state-dir")
    if (path is None or os.path.lexists(path)) and is_unused(path or default_path()):
        return None
    return open_state(given)


def no_words(given: CommandLine, command: str) -> None:
    """Refuse words after a command that takes none: UsageError."""
    if given.words:
        raise UsageError(f"{command} takes no {given.words[0]!r}", remedy=f"see holdfast {command} --help")


def show_json(value: Any) -> None:
    """Print one JSON document on stdout. JSON itself escapes control characters."""
    import json

    put(json.dumps(value, indent=2) + "\n")


def put(text: str | bytes, fd: int = 1) -> None:
    """Print all of a text. HoldfastError when that fails, because a missing answer must not look like success."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    try:
        write_all(fd, data)
    except OSError as error:
        raise HoldfastError(f"the output cannot be written: {error.strerror}") from None


def die_with_reader() -> None:
    """From now on die of SIGPIPE when the reader of our output goes away (`| head`), as other tools do."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def write_all(fd: int, data: bytes) -> None:
    """Write all of the data; wait if another process made the descriptor non-blocking. OSError when a write fails."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            import select

            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            poll.poll()
