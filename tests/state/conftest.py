"""A state directory for each test, and orphans of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory
from holdfast.state.index.index import Index
from holdfast.state.upkeep import orphans
from holdfast.values import environment
from tests.support.processes import descendants

from .marked import Marked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory.open(str(tmp_path / "state"))


@pytest.fixture
def index(state: StateDirectory) -> Iterator[Index]:
    with Index.open(state) as index:
        yield index


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    """Start processes that look like orphans; the remaining ones are ended after the test."""
    starter = Marked(tmp_path)
    yield starter
    starter.end()


@pytest.fixture
def own_orphans_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for orphans among our own descendants: other suites may have orphans on this machine."""
    monkeypatch.setattr(orphans, "all_pids", lambda: sorted(descendants(os.getpid())))


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables that the doctor would name: an agent may run this test."""
    for finding in environment.findings(os.environ):
        monkeypatch.delenv(finding.name)
