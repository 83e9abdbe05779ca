"""`holdfast uninstall`: put back the settings of agent harnesses as they were before `holdfast install`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..parsing.command import Command
from .install import NAMES, OPTIONS, change

if TYPE_CHECKING:
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    return change(given, installs=False)


COMMAND = Command(
    f"uninstall [{NAMES}]... [OPTIONS]",
    "Put back the settings of agent harnesses as they were before `holdfast install`.",
    OPTIONS,
    act,
    "A file that was changed since keeps that change: only the parts of Holdfast are taken out.\n",
)
