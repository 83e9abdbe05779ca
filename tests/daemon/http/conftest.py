"""Fixtures for the doors of the agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.agents import TurnedAgent, turned, write_agents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[TurnedAgent]:
    """The agent `waiting`, which writes and ends when it is told to."""
    yield from turned(tmp_path)


@pytest.fixture
def state_dir(tmp_path: Path, waiting: TurnedAgent) -> Path:
    """A state directory whose configuration has agents."""
    write_agents(tmp_path / "state", waiting=waiting.table)
    return tmp_path / "state"
