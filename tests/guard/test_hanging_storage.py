"""A journal whose disk hangs or is full: the run ends in its time all the same, and the record is completed later."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

import holdfast
from holdfast.guard import packets
from holdfast.guard.launch import launch
from holdfast.guard.processes import sentinel_of
from holdfast.journal.reader import JournalReader
from holdfast.runs import durable
from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord
from holdfast.wording.timeline import words
from tests.support.driven import Driven, Gate
from tests.support.evidence import BUSY_S, all_of, assert_all_gone, one, outcome_of
from tests.support.frozen_disk import disk
from tests.support.processes import state_of, wait_exited

from .test_rolling import LIMIT, TAIL, numbered, writes
from .test_rolling_kept import read_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast import Fact
    from tests.support.frozen_disk import Disk

pytestmark = pytest.mark.guard

BOUND_S = 60.0
LIMITS: dict[str, Any] = {"timeout": 1, "grace": 0.3, "drain": 0.5, "kill_wait": 1}
# The rule: deadline, grace, drain, kill-wait and two seconds. A run that waits for its storage does not end at all.
ENDS_WITHIN_S = 1 + 0.3 + 0.5 + 1 + 2 + BUSY_S
MUCH = 3_000_000


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


def state_on(storage: Disk) -> StateDirectory:
    return StateDirectory.open(str(storage.path / "state"))


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end, f"not within {BOUND_S} s: {what}"
        os.sched_yield()


def completed(state: StateDirectory, run_id: str) -> tuple[Fact, ...]:
    """The record, as soon as it is whole and nobody writes to it any more."""
    facts: list[Fact] = []

    def look() -> bool:
        with RunRecord(state, run_id) as record:
            # Before the read: behind END the writer may add that recording had stood still, and exits after that.
            is_unattended = not (Path(record.path) / "guard.sock").exists() and not writers(run_id)
            facts[:] = record.read().reader.facts
            return is_unattended and record.reader.ended

    until(look, f"a whole record: {[fact.kind for fact in facts]}")
    return tuple(facts)


def writers(run_id: str) -> list[int]:
    """The writers of a run: there is one at most, as long as none was killed."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_writer = entry.name.isdigit() and (entry / "comm").read_text() == "holdfast-write\n"
            if is_writer and run_id.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


async def supervised(storage: Disk, line: str, gate: Gate, **options: Any) -> tuple[str, holdfast.Report, bytes, float]:
    """Run a shell line, after its storage was frozen; returns its report, its output, and how long the rest took."""
    async with holdfast.Supervisor(state_dir=str(storage.path / "state")) as supervisor:
        run = await supervisor.start(["sh", "-c", f"echo ready; read -r _ <{gate.path}; {line}"], **options)
        output = b""
        async for chunk in run.output(late=True):
            if not output:
                storage.freeze()
                began = time.monotonic()
                gate.open()
            output += chunk.data
        report = await run.settled()
        return run.run_id, report, output, time.monotonic() - began


# --- storage that hangs ---


@pytest.mark.root
def test_the_clocks_go_on_while_storage_does_not(storage: Disk, gate: Gate) -> None:
    line = f"trap '' TERM; head -c {MUCH} /dev/zero; while :; do sleep 60; done"
    run_id, report, output, took_s = anyio.run(lambda: supervised(storage, line, gate, **LIMITS))
    assert took_s < ENDS_WITHIN_S
    assert (report["status"], report["cause"], report["tree"]) == ("timed_out", "deadline", "gone")
    assert_all_gone(report)
    kinds = [fact["fact"] for fact in report["evidence"]]
    assert kinds[-2:] == ["end", "recording_stalled"], "the owner is told"
    written = len("ready\n") + MUCH
    dropped = report["output"]["dropped_bytes"]
    assert len(output) + dropped == report["output"]["stdout_bytes"] + dropped
    assert dropped == 0, "what fits into the pipes fits into memory"
    assert len(output) <= written
    storage.thaw()
    facts = completed(state_on(storage), run_id)
    assert [fact.kind for fact in facts[-2:]] == ["end", "recording_stalled"]
    assert facts[-1].detail["for_ns"] >= 1e9, "the record says for how long"
    with RunRecord(state_on(storage), run_id) as record:
        assert record.read().reader.stdout_bytes == len(output)
        assert (record.outcome.status, record.outcome.cause) == ("timed_out", "deadline")


@pytest.mark.root
def test_storage_that_comes_back_has_lost_nothing(storage: Disk, gate: Gate) -> None:
    line = f"echo ready; read -r _ <{gate.path}; head -c {MUCH} /dev/zero"

    async def drive() -> tuple[str, holdfast.Report, int]:
        async with holdfast.Supervisor(state_dir=str(storage.path / "state")) as supervisor:
            run = await supervisor.start(["sh", "-c", line], timeout=60)
            size = 0
            async for chunk in run.output():
                if not size:
                    storage.freeze()
                    gate.open()
                    await anyio.to_thread.run_sync(until_stalled, run.run_id)
                    storage.thaw()
                size += len(chunk.data)
            return run.run_id, await run.settled(), size

    run_id, report, size = anyio.run(drive)
    assert (report["status"], report["output"]["complete"]) == ("succeeded", True)
    assert size == len("ready\n") + MUCH
    facts = completed(state_on(storage), run_id)
    assert one(facts, "recording_stalled").detail["for_ns"] > 0.5e9
    assert facts[-1].kind == "end"


def until_stalled(run_id: str) -> None:
    """Wait until the writer has hung for a second."""
    until(lambda: any(state_of(pid) == "D" for pid in writers(run_id)), "a writer that hangs")
    end = time.monotonic() + 1
    until(lambda: time.monotonic() > end, "a second")


@pytest.mark.root
def test_a_command_is_not_started_before_storage_has_its_start(
    storage: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is made; then storage hangs. The command is held, and its owner can stop it."""
    mark = tmp_path / "mark"

    def hang_and_launch(*arguments: Any, **options: Any) -> Any:
        storage.freeze()
        return launch(*arguments, **options)

    async def drive() -> tuple[str, holdfast.Report, float]:
        async with holdfast.Supervisor(state_dir=str(storage.path / "state")) as supervisor:
            run = await supervisor.start(["touch", str(mark)], **LIMITS)
            await anyio.to_thread.run_sync(until_stalled, run.run_id)
            began = time.monotonic()
            await run.cancel(reason="it does not start")
            return run.run_id, await run.settled(), time.monotonic() - began

    monkeypatch.setattr(durable, "launch", hang_and_launch)
    run_id, report, took_s = anyio.run(drive)
    assert took_s < ENDS_WITHIN_S
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "user", "gone")
    assert not mark.exists(), "the command never ran"
    storage.thaw()
    facts = completed(state_on(storage), run_id)
    assert outcome_kinds(facts) == ["started", "stop_asked", "tree", "drained", "end"]
    assert words(facts[0], {fact.kind: fact for fact in facts}).endswith("the command never ran")


def outcome_kinds(facts: tuple[Fact, ...]) -> list[str]:
    return [fact.kind for fact in facts if fact.kind != "recording_stalled"]


@pytest.mark.root
def test_a_guard_that_is_killed_while_storage_hangs(storage: Disk) -> None:
    """The sentinel ends the run without the disk, as the guard would have."""

    async def drive() -> tuple[str, holdfast.Report, float]:
        async with holdfast.Supervisor(state_dir=str(storage.path / "state")) as supervisor:
            run = await supervisor.start(
                ["sh", "-c", "setsid sleep 60 & echo ready; wait"], **{**LIMITS, "timeout": 60}
            )
            async for _ in run.output():
                break
            storage.freeze()
            began = time.monotonic()
            (started,) = [fact for fact in run.facts if fact.kind == "started"]
            os.kill(started.detail["guard_pid"], signal.SIGKILL)
            return run.run_id, await run.settled(), time.monotonic() - began

    run_id, report, took_s = anyio.run(drive)
    assert took_s < ENDS_WITHIN_S
    assert (report["status"], report["cause"], report["tree"]) == ("lost", "guard", "gone")
    storage.thaw()
    assert "guard_lost" in [fact.kind for fact in completed(state_on(storage), run_id)]


@pytest.mark.root
def test_holdfast_run_ends_while_its_state_directory_hangs(storage: Disk, gate: Gate) -> None:
    line = f"trap '' TERM; echo ready; read -r _ <{gate.path}; echo rest; while :; do sleep 60; done"
    options = ["--state-dir", str(storage.path / "state"), "--timeout", "1s", "--grace", "300ms", "--drain", "500ms"]
    command = [sys.executable, "-m", "holdfast.cli.main", "run", *options, "--kill-wait", "1s", "--", "sh", "-c", line]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        storage.freeze()
        began = time.monotonic()
        gate.open()
        try:
            output, said = owner.communicate(timeout=BOUND_S)
        finally:
            took_s = time.monotonic() - began
            storage.thaw()
    assert took_s < ENDS_WITHIN_S
    assert (owner.returncode, output) == (124, b"rest\n")
    assert b"does not answer" in said
    (run_id,) = state_on(storage).all_ids()
    completed(state_on(storage), run_id)


def memory_of(run_id: str) -> int:
    """How many bytes of the journal wait in memory."""
    (writer,) = writers(run_id)
    for entry in Path(f"/proc/{writer}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if "memfd:journal" in os.readlink(entry):
                return entry.stat().st_blocks * 512
    raise AssertionError("the writer has no memory")


@pytest.mark.root
def test_a_command_that_writes_much_waits_while_storage_hangs(storage: Disk, gate: Gate) -> None:
    """Memory is bounded: the command waits, as with any pipe that is full. After the thaw not one byte is missing."""
    line = f"echo ready; read -r _ <{gate.path}; head -c {10 * MUCH} /dev/zero"

    async def drive() -> tuple[holdfast.Report, int, int]:
        async with holdfast.Supervisor(state_dir=str(storage.path / "state")) as supervisor:
            run = await supervisor.start(["sh", "-c", line], timeout=60)
            size = waiting = 0
            async for chunk in run.output():
                if not size:
                    storage.freeze()
                    gate.open()
                    await anyio.to_thread.run_sync(until_stalled, run.run_id)
                    waiting = memory_of(run.run_id)
                    storage.thaw()
                size += len(chunk.data)
            return await run.settled(), size, waiting

    report, size, waiting = anyio.run(drive)
    assert 0 < waiting < 4 << 20
    assert (report["status"], report["output"]["complete"]) == ("succeeded", True)
    assert size == len("ready\n") + 10 * MUCH


@contextlib.contextmanager
def reader_of_memory(run: Driven, file: JournalReader) -> Iterator[JournalReader]:
    """A reader of what the writer has in memory, from where the reader of the file is."""
    (memory,) = [fd for fd in Path(f"/proc/{writer_of(run)}/fd").iterdir() if "memfd:journal" in os.readlink(fd)]
    with memory.open("rb") as opened:
        reader = JournalReader(opened.fileno())
        reader.start_at(file.position, file.passed, -1)
        yield reader


@pytest.mark.root
def test_nothing_is_taken_out_after_the_count_of_it_is_recorded(storage: Disk, gate: Gate, tmp_path: Path) -> None:
    """An owner lets the middle of the output go while storage hangs with the end of the record: that is too late."""
    state, size, go = state_on(storage), LIMIT + TAIL // 2, Gate(tmp_path / "go")
    line = f"read -r _ <{go.path}; {shlex.join(writes(size, 4096))}; read -r _ <{gate.path}"
    with Driven(["sh", "-c", line], state=state, max_output=LIMIT, on_max_output="roll") as run:

        def holds_from(offset: int) -> None:
            run.live.control.send(packets.release(offset))
            assert run.ask(packets.heartbeat) == 0

        def has_read(size: int) -> bool:
            file.scan()
            return file.stdout_bytes >= size

        def has_ended(reader: JournalReader) -> bool:
            reader.scan()
            return reader.ended

        run.until("started")
        file = JournalReader(run.live.journal)
        file.scan()
        holds_from(file.position)
        go.open()
        run.wait_for(lambda: has_read(TAIL), "the head")
        holds_from(file.position)
        run.wait_for(lambda: has_read(LIMIT), "more than the tail")
        with reader_of_memory(run, file) as memory:
            storage.freeze()
            gate.open()
            until(lambda: has_ended(memory), "the end, in memory")
        run.live.control.send(packets.release(memory.position))
        assert run.until_exited()
        storage.thaw()
        completed(state, run.live.spec.run_id)
        kept, missing, report = read_back(state, run.live.spec.run_id)
    assert (kept == numbered(size), missing, report["output"]["dropped_bytes"]) == (True, 0, 0)
    assert report["output"]["stdout_bytes"] == size


@pytest.mark.root
@pytest.mark.parametrize("victim", ["guard", "sentinel", "writer"])
def test_a_death_while_the_writer_hangs(storage: Disk, gate: Gate, victim: str) -> None:
    """The run ends in its time whichever of the three dies, and its record is whole after the thaw."""
    line = f"trap '' TERM; echo ready; read -r _ <{gate.path}; echo more; while :; do sleep 60; done"

    async def drive() -> tuple[str, holdfast.Report, float]:
        async with holdfast.Supervisor(state_dir=str(storage.path / "state")) as supervisor:
            run = await supervisor.start(["sh", "-c", line], **{**LIMITS, "timeout": 3})
            async for _ in run.output():
                break
            (started,) = [fact for fact in run.facts if fact.kind == "started"]
            guard = started.detail["guard_pid"]
            (writer,) = writers(run.run_id)
            storage.freeze()
            gate.open()
            until(lambda: state_of(writer) == "D", "a writer that hangs")
            began = time.monotonic()
            os.kill({"guard": guard, "sentinel": sentinel_of(guard), "writer": writer}[victim], signal.SIGKILL)
            return run.run_id, await run.settled(), time.monotonic() - began

    run_id, report, took_s = anyio.run(drive)
    assert took_s < ENDS_WITHIN_S + 2
    expected = ("lost", "guard") if victim == "guard" else ("timed_out", "deadline")
    assert (report["status"], report["cause"], report["tree"]) == (*expected, "gone")
    storage.thaw()
    kinds = [fact.kind for fact in completed(state_on(storage), run_id)]
    assert ("guard_lost" in kinds, "sentinel_lost" in kinds) == (victim == "guard", victim == "sentinel")
    with RunRecord(state_on(storage), run_id) as record:
        chunks = record.read().reader
        assert chunks.stdout_bytes == len("ready\nmore\n")
        assert (record.outcome.status, record.outcome.cause) == expected


# --- a full disk ---


@pytest.mark.root
def test_the_clocks_go_on_while_the_disk_is_full(tmp_path: Path, gate: Gate) -> None:
    """Output that finds no room is dropped and counted; facts wait for room; the run ends in its time."""
    line = f"trap '' TERM; head -c {MUCH} /dev/zero; while :; do sleep 60; done"
    with disk(tmp_path / "disk", megabytes=8) as storage:
        storage.freeze = lambda: fill(storage.path)  # type: ignore[method-assign, assignment]
        run_id, report, output, took_s = anyio.run(lambda: supervised(storage, line, gate, **LIMITS))
        assert took_s < ENDS_WITHIN_S
        assert (report["status"], report["cause"], report["tree"]) == ("timed_out", "deadline", "gone")
        assert report["output"]["stdout_bytes"] == len(output)
        assert report["output"]["dropped_bytes"] + len(output) == len("ready\n") + MUCH
        assert "recording_failed" in [fact["fact"] for fact in report["evidence"]], "it is said"
        (storage.path / "filler").unlink()
        facts = completed(state_on(storage), run_id)
    assert one(facts, "deadline")
    assert one(facts, "recording_failed").detail["error"] == errno.ENOSPC


def fill(place: Path) -> Path:
    """Take all the room that a file system has."""
    path = place / "filler"
    with path.open("wb", buffering=0) as filler:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                continue
    return path


@pytest.mark.root
def test_a_disk_that_is_full_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command does not run before its start is on record. Its end is known, and recorded when there is room."""
    with disk(tmp_path / "disk", megabytes=8) as storage:
        state = state_on(storage)

        def fill_and_launch(*arguments: Any, **options: Any) -> Any:
            fill(storage.path)
            return launch(*arguments, **options)

        monkeypatch.setattr(durable, "launch", fill_and_launch)

        async def drive() -> tuple[str, holdfast.Report]:
            async with holdfast.Supervisor(state_dir=state.path) as supervisor:
                run = await supervisor.start(["sh", "-c", "echo hello; exit 7"], **LIMITS)
                return run.run_id, await run.settled()

        run_id, report = anyio.run(drive)
        (storage.path / "filler").unlink()
        facts = completed(state, run_id)
    assert (report["status"], report["cause"], report["exit_code"]) == ("failed", "exit", 7)
    assert report["output"]["dropped_bytes"] + report["output"]["stdout_bytes"] == len("hello\n")
    assert one(facts, "exited").detail["wait_status"] == 7 << 8


# --- the writer itself ---


def writer_of(run: Driven) -> int:
    run.until("started")
    (writer,) = writers(run.live.spec.run_id)
    return writer


def test_a_writer_that_is_killed_is_replaced(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    with Driven(["sh", "-c", "read -r _; head -c 3000000 /dev/zero; exit 7"], state=state, stdin="pipe") as run:
        first = writer_of(run)
        os.kill(first, signal.SIGKILL)
        assert wait_exited(first, BOUND_S)
        until(lambda: bool(writers(run.live.spec.run_id)), "another writer")
        os.kill(writer_of(run), signal.SIGKILL)
        run.live.close_input()
        result = run.settle()
    assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 7)
    assert len(result.stdout) == 3_000_000


def test_a_writer_that_is_stopped_is_continued(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    with Driven(["sh", "-c", "read -r _; head -c 3000000 /dev/zero; exit 7"], state=state, stdin="pipe") as run:
        writer = writer_of(run)
        os.kill(writer, signal.SIGSTOP)
        until(lambda: state_of(writer) == "T", "a stopped writer")
        run.live.close_input()
        result = run.settle()
    assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 7)
    assert len(result.stdout) == 3_000_000


def test_a_memory_journal_has_no_writer() -> None:
    with Driven(["sh", "-c", "read -r _"], stdin="pipe") as run:
        run.until("started")
        assert not writers(run.live.spec.run_id)
        assert not all_of(run.facts, "recording_stalled")
