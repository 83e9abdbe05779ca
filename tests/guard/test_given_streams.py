"""Streams that the caller gives to the command: nothing is copied, nobody else holds them open, the report says so."""

from __future__ import annotations

import fcntl
import os
import select
import sys
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast import SpecError, Supervisor
from holdfast.runs.durable import start_durable
from holdfast.state.directory import StateDirectory
from holdfast.values.spec import make_spec

from ..support.evidence import assert_all_gone, outcome_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard

# Says what it has, closes its output, and lives on until its stdin ends.
CLOSES = """
import os, sys
print(os.readlink("/proc/self/fd/1"), os.readlink("/proc/self/fd/2"), flush=True)
os.close(1); os.close(2)
sys.stdin.read()
"""
WITHIN_MS = 10_000


def read_to_end(fd: int) -> bytes:
    """Everything up to end of file, which must come while the run goes on."""
    data = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while poll.poll(WITHIN_MS):
        part = os.read(fd, 65536)
        if not part:
            return data
        data += part
    raise AssertionError(f"no end of file after {data!r}: somebody holds the pipe open")


def name_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def test_the_command_has_the_callers_own_pipes() -> None:
    reading, writing = os.pipe()
    errors, erring = os.pipe()
    line = "readlink /proc/self/fd/1 /proc/self/fd/2; echo oops >&2"
    expected = f"{name_of(writing)}\n{name_of(erring)}\n"
    result = holdfast.run(["sh", "-c", line], stdout=writing, stderr=erring, timeout=30)
    os.close(writing)
    os.close(erring)
    assert outcome_of(result) == ("succeeded", "exit")
    assert read_to_end(reading).decode() == expected
    assert read_to_end(errors) == b"oops\n"
    assert (result.stdout, result.stderr) == (b"", b"")
    counts = result.report["output"]
    assert counts == {
        "stdout_bytes": None,
        "stderr_bytes": None,
        "late_bytes": 0,
        "dropped_bytes": 0,
        "complete": True,
    }
    os.close(reading)
    os.close(errors)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.anyio
async def test_end_of_file_comes_when_the_command_closes(kept: bool, tmp_path: Path) -> None:
    """Guard, sentinel and writer have one table of descriptors, and none of them keeps a copy. Also in a used guard."""
    async with Supervisor(state_dir=tmp_path / "state" if kept else None) as supervisor:
        guards = set()
        for _ in range(3):
            reading, writing = os.pipe()
            run = await supervisor.start(
                [sys.executable, "-c", CLOSES], stdin="pipe", stdout=writing, stderr=writing, timeout=60
            )
            own = name_of(writing)
            os.close(writing)
            assert read_to_end(reading).decode() == f"{own} {own}\n"
            os.close(reading)
            assert run.outcome.status is None, "the command lives, and only its output has ended"
            guards.add(run.guard_pid)
            await run.close_stdin()
            assert (await run.settled())["status"] == "succeeded"
        assert len(guards) == (3 if kept else 1)


def test_control_a_copy_that_stays_open_keeps_end_of_file_away() -> None:
    """Without the closing in the guard, the test above would wait for ever: a copy here shows what that looks like."""
    reading, writing = os.pipe()
    holdfast.run(["true"], stdout=writing, timeout=30)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    assert poll.poll(0) == []
    os.close(writing)
    assert poll.poll(0) == [(reading, select.POLLHUP)]
    os.close(reading)


@pytest.mark.anyio
async def test_a_used_guard_gives_one_stream_and_captures_the_other() -> None:
    async with Supervisor() as supervisor:
        guards = set()
        for given in ("stdout", "stderr", "stdout", None):
            reading, writing = os.pipe()
            run = await supervisor.start(
                ["sh", "-c", "echo out; echo err >&2"],
                stdout=writing if given == "stdout" else "capture",
                stderr=writing if given == "stderr" else "capture",
                timeout=60,
            )
            os.close(writing)
            taken = read_to_end(reading)
            os.close(reading)
            report = await run.settled()
            result = await run.result()
            guards.add(run.guard_pid)
            both = {"stdout": b"out\n", "stderr": b"err\n"}
            assert taken == both.get(given or "", b"")
            assert (result.stdout, result.stderr) == tuple(
                b"" if name == given else data for name, data in both.items()
            )
            counts = [report["output"]["stdout_bytes"], report["output"]["stderr_bytes"]]
            assert counts == [None if name == given else 4 for name in both]
        assert len(guards) == 1


def test_merged_output_follows_a_given_stdout() -> None:
    reading, writing = os.pipe()
    result = holdfast.run(["sh", "-c", "echo out; echo err >&2"], stdout=writing, merge=True, timeout=30)
    os.close(writing)
    assert read_to_end(reading) == b"out\nerr\n"
    os.close(reading)
    assert (result.report["output"]["stdout_bytes"], result.report["output"]["stderr_bytes"]) == (None, None)


def test_stdin_may_be_any_descriptor() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"hello\n")
    os.close(writing)
    result = holdfast.run(["cat"], stdin=reading, timeout=30)
    os.close(reading)
    assert result.stdout == b"hello\n"


@pytest.mark.parametrize("argv", [["/nowhere/at-all"], ["true"]])
def test_a_run_that_cannot_start_holds_nothing_open(argv: list[str]) -> None:
    reading, writing = os.pipe()
    result = holdfast.run(argv, cwd="/nowhere", stdout=writing, timeout=30)
    os.close(writing)
    assert outcome_of(result) == ("failed", "spawn")
    assert read_to_end(reading) == b""
    os.close(reading)


def test_a_killed_tree_leaves_the_pipe_to_the_reader() -> None:
    reading, writing = os.pipe()
    result = holdfast.run(["sh", "-c", "setsid sleep 600 & exec sleep 600"], stdout=writing, timeout=0.2, grace=0.1)
    os.close(writing)
    assert outcome_of(result) == ("timed_out", "deadline")
    assert read_to_end(reading) == b""
    os.close(reading)
    assert_all_gone(result.report)


def test_the_record_says_that_the_stream_was_given(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    reading, writing = os.pipe()
    live = start_durable(state, make_spec(["echo", "hi"], stdout=writing))
    os.close(writing)
    assert read_to_end(reading) == b"hi\n"
    os.close(reading)
    while not live.ended:
        select.select([live.control], [], [], 10)
        live.hear_guard()
    assert live.reader.spec is not None
    assert (live.reader.spec["stdout"], live.reader.spec["stderr"]) == ("inherit", "capture")
    assert live.report()["output"]["stdout_bytes"] is None
    live.reap(wait=True)
    live.close()


def test_a_closed_descriptor_is_refused() -> None:
    reading, writing = os.pipe()
    closed = fcntl.fcntl(writing, fcntl.F_DUPFD, 500)  # a number that nothing else takes before the library looks
    for fd in (reading, writing, closed):
        os.close(fd)
    with pytest.raises(SpecError, match=f"stdout is the descriptor {closed}, which is not open"):
        holdfast.run(["true"], stdout=closed)
