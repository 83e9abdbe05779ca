"""A state directory for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory
from holdfast.state.index.index import Index

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
