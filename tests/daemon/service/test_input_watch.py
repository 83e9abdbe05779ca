"""Runs that wait for input, in the daemon's reports, lists, health, numbers and events."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast.daemon.queue.admission import keys_of
from holdfast.daemon.queue.scheduled_run import ScheduledRun
from holdfast.daemon.service.input_watch import InputWatch
from holdfast.values.errors import JournalDamagedError

from ...support.daemons import BOUND_S, Daemon, Gate, UnixConnection, daemon

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.daemon.engines.engine import EngineRun
    from holdfast.daemon.events.event_log import EventLog
    from holdfast.proc.input_wait import Stdin

pytestmark = pytest.mark.guard


def until(running: Daemon, run_id: str, wanted: bool) -> dict[str, Any]:
    """Ask until this is the answer; without an event stream there is no other way."""
    end = time.monotonic() + BOUND_S
    while (report := running.report(run_id))["waiting_for_input"] is not wanted:
        assert time.monotonic() < end, report
        os.sched_yield()
    return report


def test_a_run_that_waits_is_told_everywhere(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    script = ["sh", "-c", 'read line; echo ready; read line < "$0"', str(gate.path)]
    with daemon(tmp_path / "state") as running:
        events = running.events()
        waits = running.submit(script, stdin="pipe", session="agents")["run_id"]
        other = running.submit(gate.waits())["run_id"]
        told = events.until("run.waiting")
        assert (told["run_id"], told["waiting_for_input"], sorted(told)) == (
            waits,
            True,
            ["at", "run_id", "waiting_for_input"],
        )
        assert running.report(waits)["waiting_for_input"] is True
        running.until_output(other)
        listed = {run["run_id"]: run["waiting_for_input"] for run in running.request("GET", "/v1/runs").body["runs"]}
        assert listed == {waits: True, other: False}
        assert running.request("GET", "/v1/health").body["runs"]["waiting_for_input"] == 1
        assert "holdfast_runs_waiting_for_input 1.0" in numbers(running)
        assert running.request("POST", f"/v1/runs/{waits}/input", {"text": "go\n"}).status == 200
        told = events.until("run.waiting")
        assert (told["run_id"], told["waiting_for_input"]) == (waits, False)
        events.close()
        for run_id in (waits, other):
            running.cancel(run_id, now=True)
            assert running.wait(run_id)["waiting_for_input"] is None


def test_nobody_looks_when_nobody_listens(tmp_path: Path) -> None:
    """The negative control of the event: a listener of other events gets none, and asking still works."""
    with daemon(tmp_path / "state") as running:
        connection = UnixConnection(running.socket)
        connection.request("GET", "/v1/events?types=run.settled")
        response = connection.getresponse()
        run_id = running.submit(["sh", "-c", "read line"], pty=True)["run_id"]
        until(running, run_id, True)
        running.cancel(run_id, now=True)
        seen = b""
        while b"run.settled" not in seen:
            part = response.read1(65536)
            assert part
            seen += part
        assert b"run.waiting" not in seen
        connection.close()


def numbers(running: Daemon) -> str:
    connection = UnixConnection(running.socket)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_a_record_that_cannot_be_read_stops_nothing() -> None:
    class Unreadable:
        takes_input = True

        @property
        def input(self) -> Stdin:
            raise JournalDamagedError("its journal is damaged")

    class Silent:
        closed = True

        def tell(self, *_: object) -> None:
            raise AssertionError("there is nothing to tell")

    async def watch() -> int:
        attention = InputWatch(cast("EventLog", Silent()))
        scheduled = ScheduledRun("a", keys_of(None, None, None))
        scheduled.run = cast("EngineRun", Unreadable())
        attention.begin(scheduled)
        return attention.count()

    assert asyncio.run(watch()) == 0
