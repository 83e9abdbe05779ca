"""Output that rolls in a state directory: a live reader gets every byte, and the file keeps the head and the tail."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

import holdfast
from holdfast.guard import packets
from holdfast.journal.reader import JournalReader
from holdfast.runs.durable import recover
from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord
from tests.cli.console import HOLDFAST, read_until
from tests.support.driven import Driven, Gate
from tests.support.evidence import kinds, one
from tests.support.processes import kill_both, wait_exited
from tests.support.shimmed import mutated_guard

from .test_rolling import LIMIT, SPARE, TAIL, numbered, on_disk, writes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

pytestmark = pytest.mark.guard
SIZE = 5_000_000
UNREAD = 2 << 20  # what the reader had not read at the end stays: the window, and what the pipe and the guard held
ROLL: dict[str, Any] = {"max_output": LIMIT, "on_max_output": "roll"}
ROLLS = ("--max-output", str(LIMIT), "--on-max-output", "roll")
NO_HOLES = ("take_out.c", "return punch(fd, FAR_BEHIND, FAR_BEHIND + LARGEST_BLOCK) == 0;", "return fd < 0;")


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory.open(str(tmp_path / "s"))


def journal_of(state: StateDirectory, run_id: str) -> Path:
    return Path(state.run_path(run_id)) / "journal"


def run_foreground(state: StateDirectory, *options: str, **given: Any) -> subprocess.Popen[bytes]:
    line = [*HOLDFAST, "run", "--state-dir", state.path, "--id", "x", *options, "--", *writes(SIZE, 1 << 16)]
    return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **given)


def read_back(state: StateDirectory, run_id: str) -> tuple[bytes, int, dict[str, Any]]:
    """The stdout on record, how much of it is missing, and the report."""
    with RunRecord(state, run_id) as record:
        report = record.read().report()
        chunks = JournalReader(record.fd).read()
    assert {chunk.stream for chunk in chunks} == {"stdout"}
    return b"".join(chunk.data for chunk in chunks), sum(chunk.missing_bytes for chunk in chunks), report


def check_head_and_tail(state: StateDirectory, run_id: str, more: int = 0) -> None:
    kept, missing, report = read_back(state, run_id)
    assert kept[:TAIL] == numbered(TAIL)
    assert numbered(SIZE).endswith(kept[TAIL:])
    assert missing == SIZE - len(kept) == report["output"]["dropped_bytes"]
    assert report["output"]["stdout_bytes"] == len(kept)
    assert report["output"]["complete"] is False
    assert LIMIT - TAIL // 8 <= len(kept) <= LIMIT + more
    assert on_disk(journal_of(state, run_id)) <= LIMIT + more + SPARE


def test_a_foreground_run_passes_every_byte_and_keeps_head_and_tail(state: StateDirectory) -> None:
    with run_foreground(state, *ROLLS) as run:
        passed, _ = run.communicate(timeout=60)
    assert (run.returncode, passed == numbered(SIZE)) == (0, True)
    check_head_and_tail(state, "x", more=UNREAD)


def test_the_command_waits_for_a_frozen_reader_and_the_file_stays_small(state: StateDirectory) -> None:
    with run_foreground(state, *ROLLS) as run:
        assert run.stdout is not None
        first = read_until(run.stdout.fileno(), b"0000001\n")  # from here on nobody reads
        path, command = journal_of(state, "x"), _command_of(state)
        most = 0
        while not _is_blocked_in_write(command):
            most = max(most, on_disk(path))
            os.sched_yield()
        size = os.stat(path).st_size
        # The pipe to us, our caller's buffer and the window are full; the rest of the output is not even written.
        assert size < SIZE - (1 << 20)
        assert max(most, on_disk(path)) < LIMIT + TAIL + (3 << 20)
        rest, _ = run.communicate(timeout=60)
    assert first + rest == numbered(SIZE)


def test_control_without_the_hold_a_slow_reader_loses_bytes(
    state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source := tmp_path / "source").mkdir()
    # Half of the tail: the command waits for a reader that is behind by the whole tail, and then nothing is too much.
    held = "piece(roll, 0)->end <= end && (roll->tail_bytes > roll->tail ||"
    without = ("roll.c", held, "end > 0 && (roll->tail_bytes > roll->tail / 2 ||")
    monkeypatch.setenv("HOLDFAST_GUARD", str(mutated_guard(source, *without)))
    with run_foreground(state, *ROLLS) as run:
        assert run.stdout is not None
        first = read_until(run.stdout.fileno(), b"0000001\n")
        command = _command_of(state)
        while not _is_blocked_in_write(command):
            os.sched_yield()
        rest, _ = run.communicate(timeout=60)
    assert len(first + rest) < SIZE


def _command_of(state: StateDirectory) -> int:
    with RunRecord(state, "x") as record:
        pid: int = one(tuple(record.read().reader.facts), "started").detail["pid"]
    return pid


def _written(run: Driven) -> int:
    run.live.refresh()
    return run.live.reader.stdout_bytes


def _is_blocked_in_write(pid: int) -> bool:
    with open(f"/proc/{pid}/wchan") as file:
        return "pipe" in file.read()


def test_a_supervisors_reader_gets_every_byte(state: StateDirectory) -> None:
    async def main(*, keep_output: bool) -> tuple[str, bytes, int]:
        async with holdfast.Supervisor(state_dir=state.path) as supervisor:
            # The command begins when the reader is there.
            line = ["sh", "-c", 'read -r _; exec "$@"', "sh", *writes(SIZE, 1 << 16)]
            run = await supervisor.start(line, keep_output=keep_output, stdin="pipe", **ROLL)
            output, found, most = run.output(), [], 0
            await run.write_stdin(b"\n")
            async for chunk in output:
                found.append(chunk.data)
                most = max(most, on_disk(journal_of(state, run.run_id)))
            await run.settled()
            return run.run_id, b"".join(found), most

    for keep_output in (True, False):
        run_id, found, most = anyio.run(partial(main, keep_output=keep_output))
        assert found == numbered(SIZE)
        assert most < LIMIT + TAIL + (3 << 20)
        check_head_and_tail(state, run_id, more=UNREAD)


def test_a_reader_that_was_dropped_holds_nothing(state: StateDirectory) -> None:
    async def main() -> None:
        async with holdfast.Supervisor(state_dir=state.path) as supervisor:
            line = ["sh", "-c", 'read -r _; exec "$@"', "sh", *writes(SIZE, 1 << 16)]
            run = await supervisor.start(line, stdin="pipe", **ROLL)
            for dropped in (run.output(), run.output()):
                await dropped.aclose()
            unread = run.output()
            await run.write_stdin(b"\n")
            del dropped, unread  # nobody waits for it any more
            report = await run.settled()
            assert report["output"]["stdout_bytes"] + report["output"]["dropped_bytes"] == SIZE
            result = await run.result()
            assert (result.stdout[:TAIL], len(result.stdout)) == (numbered(TAIL), report["output"]["stdout_bytes"])
            assert numbered(SIZE).endswith(result.stdout[TAIL:])

    anyio.run(main)


def test_facts_in_the_middle_stay_and_a_reader_that_is_behind_goes_on(state: StateDirectory, tmp_path: Path) -> None:
    there, gate = Gate(tmp_path / "there"), Gate(tmp_path / "gate")
    part = 20 * LIMIT
    writing = shlex.join(writes(part, 4096))
    line = f"trap '' USR1; {writing}; echo >{there.path}; read -r _ <{gate.path}; {writing}"
    with Driven(["sh", "-c", line], state=state, timeout=60, **ROLL) as run:
        there.wait()
        run.wait_for(lambda: _written(run) >= part, "the first part")
        behind = JournalReader(run.live.journal)
        seen = behind.read(TAIL + 1000)
        assert run.ask(lambda ticket: packets.signal(ticket, signal.SIGUSR1, tree=False)) == 0
        gate.open()
        result = run.settle()
        seen += behind.read()
    assert "signalled" in kinds(result.facts)
    assert kinds(tuple(behind.facts)) == kinds(result.facts)
    assert sum(len(chunk.data) + chunk.missing_bytes for chunk in seen) == 2 * part == behind.stdout_bytes
    assert b"\0" not in b"".join(chunk.data for chunk in seen)
    assert len([chunk for chunk in seen if chunk.missing_bytes]) >= 2, "before the fact, and behind it"
    assert result.stdout.endswith(numbered(part)[-TAIL // 2 :])


def test_the_tail_is_there_when_guard_and_sentinel_are_killed(state: StateDirectory, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    writing = shlex.join(writes(SIZE, 1 << 16))
    with Driven(["sh", "-c", f"{writing}; echo >{gate.path}; exec sleep 600"], state=state, **ROLL) as run:
        gate.wait()
        run.wait_for(lambda: _written(run) == SIZE, "all is recorded")
        kill_both(run.live.sentinel_pid, run.live.guard_pid)
        assert wait_exited(run.live.sentinel_pid)
        assert recover(state, run.live.spec.run_id)
        run_id = run.live.spec.run_id
    kept, missing, report = read_back(state, run_id)
    assert (report["status"], report["cause"]) == ("lost", "guard")
    assert kept[:TAIL] == numbered(TAIL)
    assert len(kept) > TAIL
    assert numbered(SIZE).endswith(kept[TAIL:])
    assert (len(kept), missing) == (report["output"]["stdout_bytes"], report["output"]["dropped_bytes"])
    assert len(kept) + missing == SIZE


@pytest.mark.parametrize("detached", [True, False])
def test_without_holes_in_the_file_system(
    state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detached: bool
) -> None:
    """A reader still gets every byte; if nobody reads, the record ends at the limit."""
    (source := tmp_path / "source").mkdir()
    monkeypatch.setenv("HOLDFAST_GUARD", str(mutated_guard(source, *NO_HOLES)))
    with run_foreground(state, *ROLLS, *(["--detach"] if detached else [])) as run:
        passed, _ = run.communicate(timeout=60)
    if detached:
        subprocess.run([*HOLDFAST, "wait", "--state-dir", state.path, "x"], check=True, timeout=60)
    kept, missing, report = read_back(state, "x")
    assert missing == 0
    assert kept == numbered(len(kept))
    assert report["output"]["dropped_bytes"] == SIZE - len(kept)
    if detached:
        assert LIMIT <= len(kept) <= LIMIT + (1 << 20)
    else:
        assert passed == kept == numbered(SIZE)
        assert report["output"]["complete"] is True


@pytest.fixture
def rolled(state: StateDirectory) -> Iterator[Path]:
    with Driven(writes(200_000, 5000), state=state, **ROLL) as run:
        run.settle()
        yield journal_of(state, run.live.spec.run_id)


def test_a_rolled_journal_cut_anywhere_gives_what_is_before_the_cut(rolled: Path, tmp_path: Path) -> None:
    whole = rolled.read_bytes()
    copy = tmp_path / "copy"
    shutil.copyfile(rolled, copy)
    fd = os.open(copy, os.O_RDWR)
    try:
        everything = JournalReader(fd)
        total = sum(len(chunk.data) + chunk.missing_bytes for chunk in everything.read())
        facts = everything.facts
        assert (total, everything.damage) == (200_000, None)
        for cut in [*range(len(whole) - 300, len(whole)), *range(0, len(whole), 997)]:
            os.ftruncate(fd, 0)
            os.pwrite(fd, whole[:cut], 0)
            reader = JournalReader(fd)
            reader.read()
            assert reader.damage is None
            assert reader.facts == facts[: len(reader.facts)]
    finally:
        os.close(fd)
