"""The local engine keeps the contract of engines; `tests/ray/test_cluster.py` holds the engine of Ray to the same."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.daemon.engines.engine import LocalEngine, Needs
from holdfast.runs.supervisor import Supervisor
from holdfast.state.directory import StateDirectory
from holdfast.values.errors import SpecError

from .contract import PROMISES, EngineRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from holdfast.daemon.engines.engine import Engine

pytestmark = [pytest.mark.anyio, pytest.mark.guard]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def rig(tmp_path: Path) -> EngineRig:
    state = StateDirectory.open(str(tmp_path / "state"))

    @asynccontextmanager
    async def local() -> AsyncIterator[Engine]:
        async with Supervisor(state_dir=state.path, disk_floor="none") as supervisor:
            yield LocalEngine(supervisor)

    return EngineRig(state, local, tmp_path)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_promise(rig: EngineRig, promise: Callable[[EngineRig], Awaitable[None]]) -> None:
    await promise(rig)


async def test_one_host_has_nothing_to_choose(rig: EngineRig) -> None:
    async with rig.open() as engine:
        await engine.check(Needs(no_wait=True))
        for needs, field in (
            (Needs(cpus=1), "cpus"),
            (Needs(resources={"x": 1}), "resources"),
            (Needs(host="a"), "host"),
        ):
            with pytest.raises(SpecError, match="--engine ray") as refused:
                await engine.check(needs)
            assert refused.value.field == field
