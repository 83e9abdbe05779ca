"""`run.ready()` of a supervised run, on both event loops."""

from __future__ import annotations

import pytest

import holdfast

from ..support.listening import free_port, listens

pytestmark = [pytest.mark.guard, pytest.mark.anyio]


async def test_it_returns_when_the_run_listens() -> None:
    port = free_port()
    async with holdfast.Supervisor() as supervisor:
        run = await supervisor.start(listens("daemon", port), ready=[f"port:{port}", "log:^ready"])
        await run.ready(timeout=30)
        assert run.ports == [port]
        await run.ready()


async def test_a_run_that_ends_or_takes_too_long_is_not_ready() -> None:
    async with holdfast.Supervisor() as supervisor:
        ends = await supervisor.start(["sh", "-c", "echo no such module; exit 3"], ready="port:1")
        with pytest.raises(holdfast.NotReadyError, match=r"failed/exit: exited with code 3.*no such module"):
            await ends.ready()
        lasts = await supervisor.start(["sleep", "600"], ready="log:never")
        with pytest.raises(holdfast.NotReadyError, match=r"not ready after 0\.05s: "):
            await lasts.ready(timeout=0.05)
        assert lasts.state == "running"


async def test_what_cannot_be_waited_for() -> None:
    async with holdfast.Supervisor() as supervisor:
        bare = await supervisor.start(["sleep", "600"])
        with pytest.raises(holdfast.NotReadyError, match="no condition"):
            await bare.ready()
        lossy = await supervisor.start(["sleep", "600"], ready="log:up", keep_output=False)
        with pytest.raises(holdfast.NotReadyError, match="not kept"):
            await lossy.ready()
