"""A harness as a trial drives it, and the place that a session has for itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rigs.harnesses import Rig

    from trials.wires.wire import Call, Wire

PROMPT = "go"
SERVER = "trial"  # the name of the MCP server in the settings
KEY = "none-is-needed"


@dataclass(frozen=True, slots=True)
class Place:
    """The directories of one session, and the address of its model."""

    root: Path
    url: str

    @property
    def home(self) -> Path:
        """The HOME of the harness."""
        return self.root / "home"

    @property
    def work(self) -> Path:
        """The project, which is the working directory."""
        return self.root / "work"

    def make(self) -> None:
        """Make the directories."""
        for directory in (self.home, self.work, self.root / "tmp"):
            directory.mkdir(parents=True)


class Harness(Protocol):
    """A real agent harness."""

    @property
    def name(self) -> str:
        """The name that people use."""
        ...

    @property
    def key(self) -> str:
        """The name that `holdfast install` uses."""
        ...

    @property
    def rig(self) -> Rig:
        """The package."""
        ...

    @property
    def wire(self) -> Wire:
        """The interface of its model."""
        ...

    def settle(self, place: Place, server: Sequence[str], *, limited: bool) -> dict[str, str]:
        """Write the settings of a session, with the MCP server if one is given; returns variables.

        `limited`: the time limit of the tool ends a command, in the way that the harness has for it.
        """
        ...

    def command(self, *, resumed: bool) -> list[str]:
        """The arguments of a session without a terminal; a resumed one goes on with the last one."""
        ...

    def shell(self, command: str, timeout_s: float | None) -> Call:
        """The call of the shell tool, with a time limit if the tool has one."""
        ...


def write_json(path: Path, value: Any) -> None:
    """Write settings, with their directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
