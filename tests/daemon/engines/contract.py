"""What every engine promises the daemon. Each promise is a coroutine function of `EngineRig`.

`test_contract.py` holds the local engine to them, and `tests/ray/test_cluster.py` the engine of Ray.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from holdfast.daemon.engines.engine import NO_NEEDS, Engine, EngineRun, Needs
from holdfast.journal.reader import JournalReader
from holdfast.state import run_directory
from holdfast.state.index.summary import read_summary
from holdfast.state.record import RunRecord
from holdfast.values.errors import RequestError, RunExistsError, RunNotFoundError
from holdfast.values.run_id import new_run_id
from holdfast.values.spec import make_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.state.directory import StateDirectory


class EngineRig(NamedTuple):
    """An engine to be tested: its state directory, a way to open it, and a directory for files of the test."""

    state: StateDirectory
    open: Callable[[], AbstractAsyncContextManager[Engine]]
    files: Path


async def start(engine: Engine, *argv: str, needs: Needs = NO_NEEDS, **options: Any) -> EngineRun:
    """Start a run as the daemon does."""
    options.setdefault("run_id", new_run_id())
    return await engine.start(make_spec(argv, lifetime="detached", **options), needs)


def output(rig: EngineRig, run_id: str) -> bytes:
    """The output that a reader of the state directory finds now."""
    journal = run_directory.open_journal(rig.state.run_path(run_id))
    try:
        return b"".join(chunk.data for chunk in JournalReader(journal).read())
    finally:
        os.close(journal)


async def until_written(rig: EngineRig, run: EngineRun, text: bytes) -> None:
    """Wait until this text is in the output, as a client of the daemon does."""
    while text not in output(rig, run.run_id):
        with RunRecord(rig.state, run.run_id) as record:
            seen = record.read().reader.position
        if text not in output(rig, run.run_id):
            assert await run.more_output(seen), run.report


async def a_run_is_started_and_followed_to_its_end(rig: EngineRig) -> None:
    async with rig.open() as engine:
        run = await start(engine, "sh", "-c", "echo out; echo err >&2; exit 3", name="three", session="s")
        await run.started()
        outcome = await run.wait()
        report = await run.settled()
        run.close()
    assert (outcome.status, outcome.cause, outcome.exit_code) == ("failed", "exit", 3)
    assert (report["state"], report["tree"], report["name"], report["session"]) == ("settled", "gone", "three", "s")
    assert (report["run_id"], report["host"]) == (run.run_id, os.uname().nodename)
    assert report["output"] == {
        "stdout_bytes": 4,
        "stderr_bytes": 4,
        "late_bytes": 0,
        "dropped_bytes": 0,
        "complete": True,
    }
    assert sorted(output(rig, run.run_id).split()) == [b"err", b"out"]
    found = read_summary(rig.state, run.run_id)
    assert found is not None
    assert (found.final, found.report["evidence"]) == (True, report["evidence"])  # history says the same


async def a_live_run_takes_input_signals_and_time(rig: EngineRig) -> None:
    script = "trap 'echo usr1' USR1; echo ready; read x; echo got $x; read y; while :; do sleep 0.05; done"
    async with rig.open() as engine:
        run = await start(engine, "sh", "-c", script, stdin="pipe", timeout=600, max_timeout=1200)
        await until_written(rig, run, b"ready\n")
        assert run.takes_input
        assert await run.write_stdin(b"this\n")
        await until_written(rig, run, b"got this\n")
        await run.close_stdin()
        await run.signal("USR1")
        await until_written(rig, run, b"usr1\n")
        await run.extend(60)
        assert "extended" in [fact["fact"] for fact in run.report["evidence"]]
        with pytest.raises(RequestError, match="longest timeout"):
            await run.extend(6000)
        await run.cancel("enough", cause="parent", grace=0.2)
        report = run.report  # the stop is on record when the request returns
        assert (report["status"], report["cause"]) == ("cancelled", "parent")
        assert "enough" in report["reason"]
        assert (await run.settled())["tree"] == "gone"
        await run.cancel("again")  # over: nothing happens
        for request in (run.extend(1), run.signal("USR1")):
            with pytest.raises(RequestError):
                await request
        assert run.report["reason"] == report["reason"]
        run.close()


async def a_deadline_is_kept(rig: EngineRig) -> None:
    async with rig.open() as engine:
        run = await start(engine, "sleep", "1000", timeout=0.2, grace=0.2)
        assert (await run.wait())[:2] == ("timed_out", "deadline")
        assert (await run.settled())["status"] == "timed_out"
        run.close()


async def an_id_is_started_once(rig: EngineRig) -> None:
    async with rig.open() as engine:
        run_id = new_run_id()
        run = await start(engine, "sh", "-c", "echo one", run_id=run_id)
        with pytest.raises(RunExistsError):
            await start(engine, "sh", "-c", "echo two", run_id=run_id)
        await run.settled()
        with pytest.raises(RunExistsError):
            await start(engine, "sh", "-c", "echo three", run_id=run_id)
        run.close()
    assert output(rig, run_id) == b"one\n"


async def a_command_that_cannot_start_says_why(rig: EngineRig) -> None:
    async with rig.open() as engine:
        run = await start(engine, "true", cwd="/not/there")
        await run.started()
        report = await run.settled()
        run.close()
    assert (report["status"], report["cause"], report["started_at"]) == ("failed", "spawn", None)
    assert "/not/there" in report["reason"]


async def a_live_run_outlives_its_engine_and_is_adopted(rig: EngineRig) -> None:
    go = rig.files / f"go-{new_run_id()}"
    script = f"echo before; while ! test -e {go}; do sleep 0.05; done; echo after; exit 7"
    async with rig.open() as engine:
        run = await start(engine, "sh", "-c", script)
        await until_written(rig, run, b"before\n")
    found = read_summary(rig.state, run.run_id)  # a reader of the state directory does not finish a live run
    assert found is not None
    assert (found.report["state"], found.guard != "gone", found.final) == ("running", True, False)
    async with rig.open() as engine:
        adopted = await engine.adopt(run.run_id)
        assert adopted.outcome.status is None
        go.touch()
        assert (await adopted.wait()).exit_code == 7
        assert (await adopted.settled())["output"]["complete"]
        assert output(rig, run.run_id) == b"before\nafter\n"
        adopted.close()
        again = await engine.adopt(run.run_id)  # a run that is over is read
        assert again.report["exit_code"] == 7
        assert await again.settled() == again.report
        again.close()


async def a_run_that_ends_while_no_engine_is_open_is_found_with_all_its_output(rig: EngineRig) -> None:
    go = rig.files / f"go-{new_run_id()}"
    done = rig.files / f"done-{new_run_id()}"
    os.mkfifo(done)
    script = f"while ! test -e {go}; do sleep 0.05; done; seq 20000; echo over > {done}; exit 4"
    async with rig.open() as engine:
        run = await start(engine, "sh", "-c", script)
        await run.started()
    go.touch()
    await asyncio.to_thread(done.read_text)
    async with rig.open() as engine:
        adopted = await engine.adopt(run.run_id)
        assert (await adopted.wait())[:2] == ("failed", "exit")
        assert (await adopted.settled())["exit_code"] == 4
        adopted.close()
    assert output(rig, run.run_id) == b"".join(b"%d\n" % number for number in range(1, 20001))


async def an_unknown_run_is_not_found(rig: EngineRig) -> None:
    async with rig.open() as engine:
        with pytest.raises(RunNotFoundError):
            await engine.adopt("no-such-run")


async def hosts_are_listed(rig: EngineRig) -> None:
    async with rig.open() as engine:
        run = await start(engine, "sleep", "1000")
        await run.started()
        hosts = await engine.hosts()
        assert {entry["host"] for entry in hosts} == {os.uname().nodename}
        assert sum(entry["live"] for entry in hosts) >= 1
        assert all(entry["state"] == "alive" and entry["resources"]["CPU"] > 0 for entry in hosts)
        await run.cancel(now=True)
        await run.settled()
        run.close()


PROMISES = (
    a_run_is_started_and_followed_to_its_end,
    a_live_run_takes_input_signals_and_time,
    a_deadline_is_kept,
    an_id_is_started_once,
    a_command_that_cannot_start_says_why,
    a_live_run_outlives_its_engine_and_is_adopted,
    a_run_that_ends_while_no_engine_is_open_is_found_with_all_its_output,
    an_unknown_run_is_not_found,
    hosts_are_listed,
)
