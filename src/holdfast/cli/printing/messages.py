"""Messages of the command line: one line each, on stderr, readable without colour."""

from __future__ import annotations

import os

from ...values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from ...values.errors import HoldfastError

# The library names Python values in its remedies; the command line has options.
_IN_OPTIONS = (
    ("use None for no limit", "leave the option out for no limit"),
    ("leave stdin out, or pty", "leave out --stdin or --pty"),
)


def say(text: str) -> None:
    """Print one line to stderr, with control characters escaped. A failure is ignored: there is nobody to tell."""
    _write(2, f"holdfast: {_one_line(text)}\n")


def say_defect(trace: str) -> None:
    """Print a traceback of Holdfast itself to stderr, line by line."""
    lines = ("holdfast: this is a defect in Holdfast, please report it:", *trace.rstrip("\n").split("\n"))
    _write(2, "".join(f"{_one_line(line)}\n" for line in lines))


def show(text: str) -> None:
    """Print a text to stdout: the help or the version that the user asked for."""
    _write(1, text)


def describe(error: HoldfastError) -> str:
    """An error of the library, with options in place of the library's field names."""
    text = str(error)
    field = getattr(error, "field", None)
    if field and text.startswith(field):
        text = _flag(field) + text[len(field) :]
    for python, options in _IN_OPTIONS:
        text = text.replace(python, options)
    return text


def _one_line(text: str) -> str:
    """Escape control characters: reasons, names and paths are text of others, and a terminal would obey them."""
    if text.isprintable():
        return text
    from ...wording.plain import plain  # here, because most texts are printable

    return plain(text)


def _flag(field: str) -> str:
    names = {"run_id": "--id", "labels": "--label", "argv": "COMMAND"}
    # A command that checks a value itself names the field after its option, or after its word in the usage line.
    is_shown = field.startswith("--") or field.isupper()
    return names.get(field) or (field if is_shown else f"--{field.replace('_', '-')}")


def _write(fd: int, text: str) -> None:
    data = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        pass
