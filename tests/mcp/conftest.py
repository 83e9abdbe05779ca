"""A server for all tests: starting one costs more than most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .serving import HttpServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from .serving import Caller


@pytest.fixture
def anyio_backend() -> str:
    """The server is a process of its own; its client needs no second event loop."""
    return "asyncio"


@pytest.fixture(scope="session")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which commands of the shared server may start."""
    return tmp_path_factory.mktemp("allowed").resolve()


@pytest.fixture(scope="session")
def server(allowed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    state = tmp_path_factory.mktemp("mcp") / "state"
    limits = ("--allow-dir", str(allowed), "--max-timeout", "1h", "--max-output", "4M", "--max-runs", "4")
    with HttpServer(state, *limits) as server:
        yield server


@pytest.fixture
async def call(server: HttpServer) -> AsyncIterator[Caller]:
    """Call a tool of the shared server."""
    async with server.client() as caller:
        yield caller
