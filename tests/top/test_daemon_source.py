"""`holdfast top` with a daemon: events instead of looking, queued runs, and a daemon that goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.top.daemon_source import DaemonSource, find_daemon

from ..support.daemons import Gate, daemon
from .watched import watching

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.state.directory import StateDirectory

pytestmark = pytest.mark.anyio


async def found(state: StateDirectory) -> DaemonSource:
    source = await find_daemon(state)
    assert source is not None
    return source


async def test_what_happens_is_shown_as_it_happens(state: StateDirectory, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state", "--max-runs", "1") as running:
        async with watching(await found(state)) as top:
            await top.until_text("0 running", "  daemon ")
            first = running.submit(gate.waits("echo through"), name="first")["run_id"]
            await top.until_text("1 running", "first: sh", "\nready")
            second = running.submit(["sh", "-c", "read line"], pty=True, name="second")["run_id"]
            await top.until_text("1 queued", "second: sh")
            gate.open()
            await top.until_text("succeeded/exit", "waiting for input")
            await top.press("slash", *"name:s", "enter", "C", "y")
            await top.until_text("cancelled/user", f"log of {second}")
            await top.press("escape", "slash", *"name:f", "enter")
            await top.until_text(f"log of {first}", "\nthrough")


async def test_extend_and_evidence_through_the_daemon(state: StateDirectory, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state") as running:
        run_id = running.submit(gate.waits(), timeout_s=600)["run_id"]
        running.until_output(run_id)
        async with watching(await found(state)) as top:
            await top.until_text("1 running")
            await top.press("x", "enter", "e")
            await top.until_text("its deadline was moved to 20m")
        running.cancel(run_id, now=True)
        running.wait(run_id)


async def test_without_its_daemon_it_goes_on_with_the_directory(state: StateDirectory, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state") as running:
        run_id = running.submit(gate.waits(), name="agent")["run_id"]
        running.until_output(run_id)
        async with watching(await found(state)) as top:
            await top.until_text("1 running", "\nready")
            running.kill()
            await top.until_text("no daemon answers", "1 running", "agent: sh")
            await top.press("C", "y")
            await top.until_text("cancelled/user", "0 running")
    assert await find_daemon(state) is None
