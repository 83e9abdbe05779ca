"""Every command line of a test has a state directory of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .kept_runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of this test, apart from its other files; the first run makes it."""
    path = tmp_path_factory.mktemp("state") / "holdfast"
    monkeypatch.setenv("HOLDFAST_STATE_DIR", str(path))
    return path


@pytest.fixture
def runs(state_directory: Path) -> Iterator[Runs]:
    """Start detached runs through the command line; the remaining ones are ended after the test."""
    started = Runs(state_directory)
    yield started
    started.end_all()
