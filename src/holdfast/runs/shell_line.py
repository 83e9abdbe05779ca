"""A line of shell as a command."""

from __future__ import annotations

from ..values.errors import SpecError


def shell_argv(line: object) -> list[str]:
    """The argv of a line of shell, as `subprocess` has it. SpecError: it is no text."""
    if not isinstance(line, str):
        remedy = "pass one string with shell=True, or a list without it"
        raise SpecError("a line of shell is one string", field="argv", remedy=remedy)
    return ["/bin/sh", "-c", line]
