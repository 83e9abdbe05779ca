"""The helper inside temporalio's own activity environment, which needs no server."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment

from holdfast.adapters.command_end import shell
from holdfast.adapters.temporal import run_in_activity

from ..support.processes import state_of
from .conftest import daemon_of, first_line

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.adapters.command_end import CommandEnd

pytestmark = pytest.mark.anyio


def attempt(number: int) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, attempt=number, heartbeat_timeout=timedelta(seconds=0.1))
    return environment


def started(environment: ActivityEnvironment, line: str, tmp_path: Path, **options: Any) -> asyncio.Task[CommandEnd]:
    """The activity in a task; the environment runs it with these options."""

    async def activity() -> CommandEnd:
        return await run_in_activity(shell(line), state_dir=str(tmp_path / "state"), **options)

    return asyncio.create_task(environment.run(activity))


async def test_it_heartbeats_until_the_end(tmp_path: Path) -> None:
    environment, beats = attempt(1), []
    gate = tmp_path / "gate"
    await anyio.run_process(["mkfifo", str(gate)])

    def beat(*details: Any) -> None:
        beats.append(details[0])
        if len(beats) == 3:
            gate.write_text("go")

    environment.on_heartbeat = beat
    end = await started(environment, f"cat {gate}; exit 3", tmp_path)
    assert (end.stdout, end.exit_code) == ("go", 3)
    assert {beat["run_id"] for beat in beats} == {end.run_id}


async def test_a_cancelled_activity_ends_the_tree(tmp_path: Path, stubborn_in_file: tuple[str, Path]) -> None:
    line, path = stubborn_in_file
    environment = attempt(1)
    task = started(environment, f"{line} wait", tmp_path, grace=0.2)
    daemon = daemon_of(await anyio.to_thread.run_sync(first_line, path))
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert state_of(daemon) is None


async def test_the_next_attempt_goes_on_with_the_run_of_a_worker_that_left(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    await anyio.run_process(["mkfifo", str(begun), str(gate)])
    line = f"echo $$ | tee {begun}; cat {gate}"
    first = attempt(1)
    task = started(first, line, tmp_path)
    pid = int(await anyio.to_thread.run_sync(first_line, begun))
    first.cancel(ActivityCancellationDetails(worker_shutdown=True))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert state_of(pid) is not None

    second = started(attempt(2), line, tmp_path)
    await anyio.to_thread.run_sync(gate.write_text, "go")
    end = await second
    assert end.stdout == f"{pid}\ngo"

    # The worker died before it could tell the server: the third attempt gets the result, and runs nothing.
    again = await started(attempt(3), line, tmp_path)
    assert again == end


async def test_an_attempt_after_a_failure_starts_anew(tmp_path: Path) -> None:
    line = f"mkdir {tmp_path}/once && exit 3; echo twice"
    assert (await started(attempt(1), line, tmp_path)).exit_code == 3
    again = await started(attempt(2), line, tmp_path)
    assert (again.exit_code, again.stdout) == (0, "twice\n")
