"""The types of the functions in `subprocess`, for type checkers: the standard library's, and the added options."""

from __future__ import annotations

import subprocess
from typing import Any, AnyStr, Literal, Unpack, overload

from ..values.fields import Duration
from .keywords import Command, Start, StartWithOutput, Word


class TypedPopen(subprocess.Popen[AnyStr]):
    """`subprocess.Popen` with the run of its process."""

    @overload
    def __init__(
        self: TypedPopen[str],
        args: Command,
        *,
        text: Literal[True],
        encoding: str | None = None,
        errors: str | None = None,
        universal_newlines: bool | None = None,
        timeout: Duration | None = None,
        **start: Unpack[StartWithOutput],
    ) -> None: ...
    @overload
    def __init__(
        self: TypedPopen[str],
        args: Command,
        *,
        encoding: str,
        text: bool | None = None,
        errors: str | None = None,
        universal_newlines: bool | None = None,
        timeout: Duration | None = None,
        **start: Unpack[StartWithOutput],
    ) -> None: ...
    @overload
    def __init__(
        self: TypedPopen[str],
        args: Command,
        *,
        universal_newlines: Literal[True],
        text: bool | None = None,
        encoding: str | None = None,
        errors: str | None = None,
        timeout: Duration | None = None,
        **start: Unpack[StartWithOutput],
    ) -> None: ...
    @overload
    def __init__(
        self: TypedPopen[bytes],
        args: Command,
        *,
        text: Literal[False] | None = None,
        encoding: None = None,
        errors: None = None,
        universal_newlines: Literal[False] | None = None,
        timeout: Duration | None = None,
        **start: Unpack[StartWithOutput],
    ) -> None: ...
    def __init__(self, args: Command, **arguments: Any) -> None:
        raise NotImplementedError

    @property
    def report(self) -> dict[str, Any] | None:
        """The report of the run as it is now; None for a process that the standard library started alone."""
        raise NotImplementedError

    def why(self) -> str:
        """What happened to the process, as `holdfast why` tells it."""
        raise NotImplementedError


@overload
def run(
    args: Command,
    *,
    text: Literal[True],
    input: str | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    encoding: str | None = None,
    errors: str | None = None,
    universal_newlines: bool | None = None,
    **start: Unpack[StartWithOutput],
) -> subprocess.CompletedProcess[str]: ...
@overload
def run(
    args: Command,
    *,
    encoding: str,
    input: str | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    text: bool | None = None,
    errors: str | None = None,
    universal_newlines: bool | None = None,
    **start: Unpack[StartWithOutput],
) -> subprocess.CompletedProcess[str]: ...
@overload
def run(
    args: Command,
    *,
    universal_newlines: Literal[True],
    input: str | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    text: bool | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    **start: Unpack[StartWithOutput],
) -> subprocess.CompletedProcess[str]: ...
@overload
def run(
    args: Command,
    *,
    input: bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    text: Literal[False] | None = None,
    encoding: None = None,
    errors: None = None,
    universal_newlines: Literal[False] | None = None,
    **start: Unpack[StartWithOutput],
) -> subprocess.CompletedProcess[bytes]: ...
def run(args: Command, **arguments: Any) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`."""
    raise NotImplementedError


def call(args: Command, *, timeout: float | None = None, **start: Unpack[StartWithOutput]) -> int:
    """As `subprocess.call`."""
    raise NotImplementedError


def check_call(args: Command, *, timeout: float | None = None, **start: Unpack[StartWithOutput]) -> int:
    """As `subprocess.check_call`."""
    raise NotImplementedError


@overload
def check_output(
    args: Command,
    *,
    text: Literal[True],
    input: str | None = None,
    timeout: float | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    **start: Unpack[Start],
) -> str: ...
@overload
def check_output(
    args: Command,
    *,
    encoding: str,
    text: bool | None = None,
    input: str | None = None,
    timeout: float | None = None,
    errors: str | None = None,
    **start: Unpack[Start],
) -> str: ...
@overload
def check_output(
    args: Command,
    *,
    universal_newlines: Literal[True],
    input: str | None = None,
    timeout: float | None = None,
    **start: Unpack[Start],
) -> str: ...
@overload
def check_output(
    args: Command,
    *,
    input: bytes | None = None,
    timeout: float | None = None,
    text: Literal[False] | None = None,
    encoding: None = None,
    errors: None = None,
    **start: Unpack[Start],
) -> bytes: ...
def check_output(args: Command, **arguments: Any) -> Any:
    """As `subprocess.check_output`."""
    raise NotImplementedError


def getstatusoutput(cmd: Word, *, encoding: str | None = None, errors: str | None = None) -> tuple[int, str]:
    """As `subprocess.getstatusoutput`."""
    raise NotImplementedError


def getoutput(cmd: Word, *, encoding: str | None = None, errors: str | None = None) -> str:
    """As `subprocess.getoutput`."""
    raise NotImplementedError
