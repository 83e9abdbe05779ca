"""`--env-file`: read environment variables from a file of NAME=VALUE lines."""

from __future__ import annotations

import os
import stat

from ...values.fast_imports import signal
from ...values.signals import STOPS
from .options import UsageError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = " \t"


def read_environment(path: str) -> dict[str, str]:
    """The variables of a file. UsageError names the number of a wrong line, never its text.

    Only a line feed ends a line, with or without a carriage return before it; any other character may be part of a
    value. Empty lines and lines that begin with # are skipped. `export ` before a name and one pair of quotes around a
    value are removed. Nothing else is interpreted.
    """
    try:
        text = os.fsdecode(_read(path).removeprefix(_BYTE_ORDER_MARK))
    except OSError as error:
        raise UsageError(
            f"--env-file {path!r} cannot be read: {error.strerror}", remedy="name a file of NAME=VALUE lines"
        ) from None
    lines = [line.removesuffix("\r").strip(_BLANKS) for line in text.split("\n")]
    return dict(_variable(path, number, line) for number, line in enumerate(lines, 1) if _counts(line))


def _read(path: str) -> bytes:
    if stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "rb") as file:
            return file.read()
    # Reading a pipe may wait for its writer without end. `run` holds signals back until its loop can take them. Here
    # they may end us as they end any program, because nothing is started yet.
    held = signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOPS, signal.SIGTSTP))
    try:
        with open(path, "rb") as file:
            return file.read()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _counts(line: str) -> bool:
    return bool(line) and not line.startswith("#")


def _variable(path: str, number: int, line: str) -> tuple[str, str]:
    name, equals, value = line.removeprefix("export ").partition("=")
    name, value = name.strip(_BLANKS), value.strip(_BLANKS)
    if not equals or not name:
        raise UsageError(f"--env-file {path!r}: line {number} is not NAME=VALUE", remedy="# begins a comment")
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return name, value
