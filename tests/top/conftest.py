"""A state directory, and asyncio: textual knows no other loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory.open(str(tmp_path / "state"))
