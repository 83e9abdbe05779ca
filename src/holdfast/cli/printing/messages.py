"""What the command line says to people: one line each, on stderr, readable without colour."""

from __future__ import annotations

import os

from ...values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from ...values.errors import HoldfastError

# The library speaks of Python values; on the command line there are none.
_IN_OPTIONS = (
    ("use None for no limit", "leave the option out for no limit"),
    ("leave stdin out, or pty", "leave out --stdin or --pty"),
)


def say(text: str) -> None:
    """One line to stderr, whatever is in the text; when that fails there is nobody to tell."""
    _write(2, f"holdfast: {_one_line(text)}\n")


def say_defect(trace: str) -> None:
    """The lines of a traceback, which are only good as lines."""
    lines = ("holdfast: this is a defect in Holdfast, please report it:", *trace.rstrip("\n").split("\n"))
    _write(2, "".join(f"{_one_line(line)}\n" for line in lines))


def show(text: str) -> None:
    """What was asked for, to stdout."""
    _write(1, text)


def describe(error: HoldfastError) -> str:
    """An error of the library with the names a user of the command line knows."""
    text = str(error)
    field = getattr(error, "field", None)
    if field and text.startswith(field):
        text = _flag(field) + text[len(field) :]
    for python, options in _IN_OPTIONS:
        text = text.replace(python, options)
    return text


def _one_line(text: str) -> str:
    """Reasons, names and paths are other people's text: what a terminal would obey is escaped."""
    if text.isprintable():
        return text
    from ...wording.plain import plain  # here, because most runs have nothing of the kind to say

    return plain(text)


def _flag(field: str) -> str:
    names = {"run_id": "--id", "labels": "--label", "argv": "COMMAND"}
    # A command that reads a value itself gives it the name of its option.
    return names.get(field) or (field if field.startswith("--") else f"--{field.replace('_', '-')}")


def _write(fd: int, text: str) -> None:
    data = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        pass
