"""Races, forced into the harmful order: a service in this process, with real guards."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.config import Config
from holdfast.daemon import recovery
from holdfast.daemon.parts import DaemonInputs, Parts, open_parts
from holdfast.daemon.process.log import Log
from holdfast.daemon.queue import run_records, scheduler
from holdfast.daemon.queue.admission import keys_of
from holdfast.daemon.queue.scheduled_run import ScheduledRun
from holdfast.daemon.queue.submission import Submission
from holdfast.daemon.store.store import statements
from holdfast.service_manager.notifier import Notifier
from holdfast.state.directory import StateDirectory
from holdfast.state.index.summary import Filters
from holdfast.state.upkeep.aborted_start import discard_if_never_ran
from holdfast.values.errors import ResourceError
from tests.support.daemons import BOUND_S, Gate
from tests.support.descriptors import room_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from holdfast.daemon.engines.engine import Needs
    from holdfast.values.spec import RunSpec

pytestmark = pytest.mark.anyio
SQL = statements("queue")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def daemon_parts(path: Path, *, is_open: bool = True, **settings: Any) -> AsyncIterator[Parts]:
    """The parts of a daemon, without a listener. Remaining runs are cancelled at the end."""
    config = Config()._replace(**settings)
    log = Log(fd=os.open(path.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    given = DaemonInputs(StateDirectory.open(str(path)), lambda: config, log, Notifier({}))
    try:
        async with open_parts(given) as made:
            if is_open:
                made.scheduler.open()
            try:
                yield made
            finally:
                for scheduled in list(made.scheduler.runs.values()):
                    await made.service.cancel(scheduled.run_id, now=True)
                    await scheduled.settled.wait()
    finally:
        os.close(log._fd)  # noqa: SLF001


async def told(made: Parts, run_id: str) -> list[str]:
    """The types of the stored events of a run."""
    await made.store.write(lambda _: None)
    query = "SELECT type FROM events WHERE run_id = ? ORDER BY id"
    return [kind for (kind,) in await made.store.read(lambda c: c.execute(query, (run_id,)).fetchall())]


async def test_who_posts_at_once_with_one_key_and_one_id_gets_one_run(tmp_path: Path) -> None:
    async with daemon_parts(tmp_path / "s", queue_limit=1, max_runs=1) as made:
        submission = Submission(argv=["true"], run_id="mine")
        answers = await asyncio.gather(*(made.service.submit(submission, idempotency_key="k") for _ in range(20)))
        assert {report["run_id"] for report, _ in answers} == {"mine"}
        assert [created for _, created in answers].count(True) == 1
        await made.service.wait("mine", until="settled", timeout_s=BOUND_S)


async def test_a_client_that_goes_away_while_its_run_is_written_takes_nothing_back(tmp_path: Path) -> None:
    async with daemon_parts(tmp_path / "s") as made:
        posting = asyncio.ensure_future(made.service.submit(Submission(argv=["true"], run_id="mine")))
        await asyncio.sleep(0)  # handed to the store
        posting.cancel()
        await asyncio.gather(posting, return_exceptions=True)
        await made.store.write(lambda _: None)
        assert (await made.service.wait("mine", until="settled", timeout_s=BOUND_S))["status"] == "succeeded"


async def test_a_run_that_ended_in_the_queue_is_over_for_everybody_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, go_on, record = threading.Event(), threading.Event(), run_records.record

    def slowly(*about: Any) -> None:
        record(*about)
        recorded.set()
        assert go_on.wait(BOUND_S)

    monkeypatch.setattr(run_records, "record", slowly)
    async with daemon_parts(tmp_path / "s", is_open=False) as made:
        run_id = (await made.service.submit(Submission(argv=["true"])))[0]["run_id"]
        assert (await made.service.report(run_id))["state"] == "queued"
        cancelling = asyncio.ensure_future(made.service.cancel(run_id))
        try:
            assert await asyncio.to_thread(recorded.wait, BOUND_S)
            report = await made.service.report(run_id)
            listed, _ = await made.service.list(Filters())
        finally:
            go_on.set()
        assert (report["state"], report["status"]) == ("settled", "cancelled")
        assert [(run["run_id"], run["state"]) for run in listed] == [(run_id, "settled")]
        assert (await cancelling)["status"] == "cancelled"


async def test_a_run_that_cannot_be_started_still_expires_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon_parts(tmp_path / "s") as made:

        async def fails(_: object) -> Any:
            raise ResourceError("no more processes", run_id="r")

        monkeypatch.setattr(made.scheduler._engine, "start", fails)  # noqa: SLF001
        submission = Submission(argv=["true"], run_id="r", queue_timeout_s=0.2)
        await made.service.submit(submission)
        report = await made.service.wait("r", until="settled", timeout_s=BOUND_S)
        assert (report["status"], report["cause"]) == ("timed_out", "queue")


async def test_at_every_descriptor_that_is_missing_a_run_keeps_its_turn_and_starts_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (scheduler, run_records):
        monkeypatch.setattr(module, "_RETRY_S", 0.01)
    async with daemon_parts(tmp_path / "s", max_runs=1) as made:
        await made.service.submit(
            Submission(argv=["true"], run_id="first")
        )  # files that are opened once per process are open now
        await made.service.wait("first", until="settled", timeout_s=BOUND_S)
        engine, tried = made.scheduler._engine, []  # noqa: SLF001
        start = engine.start

        async def start_with_little_room(spec: RunSpec, needs: Needs) -> Any:
            tried.append(spec.run_id)
            if tried.count(spec.run_id) > 1:
                return await start(spec, needs)
            with room_for(int(spec.run_id.rpartition("-")[2])):
                return await start(spec, needs)

        monkeypatch.setattr(engine, "start", start_with_little_room)
        for room in range(24):
            await made.service.submit(Submission(argv=["true"], run_id=f"room-{room}"))
            report = await made.service.wait(f"room-{room}", until="settled", timeout_s=BOUND_S)
            assert report["status"] == "succeeded"
        assert 5 <= len(tried) - 24 < 24, "some could not be started at once, and some could"
    assert not [name for name in os.listdir(tmp_path / "s" / "runs") if name.startswith(".")]


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), ArithmeticError("a defect")], ids=repr)
async def test_whatever_a_start_raises_the_run_gives_its_room_back_and_its_end_is_recorded(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (scheduler, run_records):
        monkeypatch.setattr(module, "_RETRY_S", 0.01)
    async with daemon_parts(tmp_path / "s", max_runs=1) as made:
        engine = made.scheduler._engine  # noqa: SLF001
        start = engine.start

        async def fails_for_one(spec: RunSpec, needs: Needs) -> Any:
            if spec.run_id == "bad":
                raise error
            return await start(spec, needs)

        monkeypatch.setattr(engine, "start", fails_for_one)
        for run_id in ("bad", "good"):
            await made.service.submit(Submission(argv=["true"], run_id=run_id))
        bad, good = [await made.service.wait(run_id, until="settled", timeout_s=BOUND_S) for run_id in ("bad", "good")]
        assert (bad["status"], bad["cause"]) == ("failed", "spawn")
        assert good["status"] == "succeeded"
    said = (tmp_path / "log").read_text()
    assert said.count("could not be started") == 5
    assert ("this is a defect" in said) == isinstance(error, ArithmeticError)


@pytest.mark.parametrize(("missing", "why"), [("nowhere", "no such file"), ("secret/file", "not a directory")])
async def test_a_file_for_stdin_that_is_not_there_fails_once_with_its_reason(
    tmp_path: Path, missing: str, why: str
) -> None:
    (tmp_path / "secret").touch()
    async with daemon_parts(tmp_path / "s", max_runs=1) as made:
        path = str(tmp_path / missing)
        await made.service.submit(Submission(argv=["cat"], run_id="bad", stdin=path))
        report = await made.service.wait("bad", until="settled", timeout_s=BOUND_S)
        assert (report["state"], report["status"], report["cause"]) == ("settled", "failed", "spawn")
        assert report["reason"].startswith(f"input or output could not be opened: {why}")
        await made.service.submit(Submission(argv=["true"], run_id="good"))  # the slot is free
        assert (await made.service.wait("good", until="settled", timeout_s=BOUND_S))["status"] == "succeeded"
    assert (tmp_path / "log").read_text().count("started") == 1
    assert f"stdin cannot be read from '{path}'" in (tmp_path / "log").read_text()


async def test_a_record_that_cannot_be_read_for_want_of_descriptors_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (scheduler, run_records):
        monkeypatch.setattr(module, "_RETRY_S", 0.01)
    read, reads = run_records._report, []  # noqa: SLF001

    def fails_once(state: StateDirectory, run_id: str) -> dict[str, Any]:
        reads.append(run_id)
        if len(reads) == 1:
            raise OSError(24, "Too many open files")
        return read(state, run_id)

    monkeypatch.setattr(run_records, "_report", fails_once)
    async with daemon_parts(tmp_path / "s", is_open=False) as made:
        await made.service.submit(Submission(argv=["true"], run_id="r", queue_timeout_s=0.01))
        assert (await made.service.wait("r", until="settled", timeout_s=BOUND_S))["cause"] == "queue"
    assert reads == ["r", "r"]


async def test_a_run_of_ours_that_is_asked_for_before_recovery_has_found_it_stays_ours(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    async with daemon_parts(tmp_path / "s") as made:
        await made.service.submit(Submission(argv=gate.waits(), run_id="mine", session="s"))
        await made.scheduler.runs["mine"].begun.wait()
        await made.scheduler.stop()
        made.scheduler.runs.clear()  # as a daemon that is killed
    async with daemon_parts(tmp_path / "s") as made:
        made.scheduler.occupy("mine", keys_of(None, None, None))  # recovery knows the run, and is busy
        found: asyncio.Future[ScheduledRun] = asyncio.get_running_loop().create_future()
        made.scheduler.on_started.append(found.set_result)
        waiting = asyncio.ensure_future(made.service.wait("mine", until="settled", timeout_s=BOUND_S))
        first = await found
        assert first.managed
        assert (
            await made.finder.adopt(ScheduledRun("mine", keys_of(None, "s", None))) is first
        )  # then recovery comes to it
        await asyncio.to_thread(gate.open)
        assert (await waiting)["status"] == "succeeded"
        assert await told(made, "mine") == ["run.queued", "run.started", "run.verdict", "run.settled"]
        assert await made.store.read(lambda c: c.execute(SQL["active"]).fetchall()) == []


async def test_one_row_that_cannot_be_looked_at_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon_parts(tmp_path / "s", is_open=False) as made:
        for run_id in ("bad", "good"):
            await made.service.submit(Submission(argv=["true"], run_id=run_id))
        made.scheduler.runs.clear()  # as a daemon that is killed
    (tmp_path / "s" / "runs" / "bad").mkdir(mode=0o700)  # it was about to start: only such a run is looked at
    look = discard_if_never_ran

    def fails(state: StateDirectory, run_id: str) -> bool:
        if run_id == "bad":
            raise PermissionError(13, "Permission denied")
        return look(state, run_id)

    monkeypatch.setattr(recovery, "discard_if_never_ran", fails)
    async with daemon_parts(tmp_path / "s", is_open=False) as made:
        found = await made.recovery.run(Config(), asyncio.Event())
        assert (found.queued, list(made.scheduler.runs)) == (1, ["good"])
        rows = await made.store.read(lambda c: c.execute(SQL["all"]).fetchall())
        assert [row[1] for row in rows] == ["bad", "good"]  # for the next daemon


async def test_the_end_of_stdin_is_no_failure_when_the_command_has_had_its_fill(tmp_path: Path) -> None:
    async with daemon_parts(tmp_path / "s") as made:
        await made.service.submit(Submission(argv=["head", "-c1"], run_id="r", stdin="pipe"))
        run = made.scheduler.runs["r"].run
        assert run is not None
        await run.write_stdin(b"x")
        await run.close_stdin()
        await run.close_stdin()  # a second call does no harm
        assert (await made.service.wait("r", until="settled", timeout_s=BOUND_S))["status"] == "succeeded"
        await run.close_stdin()
