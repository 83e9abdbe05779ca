"""Output that rolls: the head and the tail are kept, the middle is counted, and the run goes on."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

import holdfast
from tests.support.driven import Driven, Gate
from tests.support.evidence import assert_all_gone, kinds, one, outcome_of

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast import Result

pytestmark = pytest.mark.guard
LIMIT = 64 << 10
TAIL = LIMIT // 2


SPARE = 64 << 10  # blocks that are used in part, and facts


def on_disk(journal: Path) -> int:
    """The bytes that a file takes on its disk."""
    return os.stat(journal).st_blocks * 512


def numbered(size: int) -> bytes:
    """Bytes in which every place is another."""
    return b"".join(b"%07d\n" % number for number in range(size // 8 + 1))[:size]


def writes(size: int, at_once: int, stream: int = 1) -> list[str]:
    """A command that writes `numbered`, so many bytes at a time."""
    program = (
        "import os, sys; size, step, fd = map(int, sys.argv[1:])\n"
        "data = b''.join(b'%07d\\n' % n for n in range(size // 8 + 1))[:size]\n"
        "for at in range(0, size, step):\n"
        "    part = data[at:at + step]\n"
        "    while part: part = part[os.write(fd, part):]\n"
    )
    return [sys.executable, "-c", program, str(size), str(at_once), str(stream)]


def check(result: Result, kept: bytes, size: int) -> int:
    """The head is the beginning and the tail the end of what was written; returns how many bytes are missing."""
    whole = numbered(size)
    missing = size - len(kept)
    counts = result.report["output"]
    assert outcome_of(result) == ("succeeded", "exit")
    assert counts["dropped_bytes"] == missing
    assert counts["complete"] is (missing == 0)
    if missing == 0:
        assert kept == whole
        assert "output_rolled" not in kinds(result.facts)
        return 0
    assert kept[:TAIL] == whole[:TAIL]
    assert whole.endswith(kept[TAIL:])
    assert LIMIT - TAIL // 8 <= len(kept) <= LIMIT
    assert sum(one(result.facts, "output_rolled").detail.values()) == missing
    return missing


@pytest.mark.parametrize("at_once", [1 << 20, 5000, 100])
@pytest.mark.parametrize("size", [100, TAIL, TAIL + 1, LIMIT, LIMIT + 1, 3 * LIMIT, 1_000_000])
def test_the_head_and_the_tail_are_kept(size: int, at_once: int) -> None:
    result = holdfast.run(writes(size, at_once), max_output=LIMIT, on_max_output="roll", timeout=60)
    missing = check(result, result.stdout, size)
    assert ("output_rolling" in kinds(result.facts)) is (size > TAIL)
    assert (missing > 0) is (size > LIMIT)


def test_control_without_rolling_the_end_is_not_there() -> None:
    result = holdfast.run(writes(1_000_000, 5000), max_output=LIMIT, on_max_output="drop", timeout=60)
    assert result.stdout == numbered(1_000_000)[:LIMIT]


def test_two_streams_share_one_head_and_one_tail() -> None:
    line = "i=0; while [ $i -lt 4000 ]; do echo out-$i; echo err-$i >&2; i=$((i+1)); done"
    result = holdfast.run(["sh", "-c", line], max_output=8192, on_max_output="roll", timeout=60)
    assert result.stdout.startswith(b"out-0\n") or result.stderr.startswith(b"err-0\n")
    assert result.stdout.endswith(b"out-3999\n") or result.stderr.endswith(b"err-3999\n")
    rolled, drained = one(result.facts, "output_rolled").detail, one(result.facts, "drained").detail
    whole = sum(len(f"out-{number}\n") for number in range(4000))
    for stream in ("stdout_bytes", "stderr_bytes"):
        assert rolled[stream] + drained[stream] == whole


def test_the_smallest_limit_has_a_head_and_a_tail() -> None:
    result = holdfast.run(writes(50_000, 700), max_output=4096, on_max_output="roll", timeout=60)
    assert result.report["output"]["dropped_bytes"] == 50_000 - len(result.stdout)
    assert 4096 - 256 <= len(result.stdout) <= 4096
    with pytest.raises(holdfast.SpecError, match="too small for a head and a tail"):
        holdfast.run(["true"], max_output=4095, on_max_output="roll")


def test_late_output_stays_late() -> None:
    line = "trap 'printf \"%500d\" 7; exit' TERM; printf '%5000d' 1; echo ready; while :; do sleep 0.01; done"
    result = holdfast.run(["sh", "-c", line], max_output=8192, on_max_output="roll", timeout=2)
    assert outcome_of(result) == ("timed_out", "deadline")
    assert result.stdout.endswith(b"1ready\n")
    assert result.report["output"]["late_bytes"] > 0


def test_the_record_is_as_large_as_the_limit_and_no_larger(tmp_path: Path) -> None:
    async def main() -> int:
        async with holdfast.Supervisor(state_dir=tmp_path / "s") as supervisor:
            run = await supervisor.start(writes(4_000_000, 1 << 16), max_output=LIMIT, on_max_output="roll")
            await run.settled()
            return on_disk(tmp_path / "s" / "runs" / run.run_id / "journal")

    import anyio

    assert anyio.run(main) < LIMIT + SPARE


def test_a_tail_that_is_larger_than_the_writers_window_is_kept(tmp_path: Path) -> None:
    size, limit = 40_000_000, 32 << 20

    async def main() -> holdfast.Report:
        async with holdfast.Supervisor(state_dir=tmp_path / "s") as supervisor:
            run = await supervisor.start(writes(size, 1 << 20), max_output=limit, on_max_output="roll", timeout=60)
            return await run.settled()

    import anyio

    counts = anyio.run(main)["output"]
    assert counts["stdout_bytes"] + counts["dropped_bytes"] == size
    assert counts["stdout_bytes"] >= limit - limit // 16


def test_a_guard_that_is_used_again_begins_anew() -> None:
    async def main() -> list[bytes]:
        async with holdfast.Supervisor() as supervisor:
            found = []
            for size in (200_000, 10, 200_001):
                run = await supervisor.start(writes(size, 5000), max_output=LIMIT, on_max_output="roll")
                await run.settled()
                found.append(b"".join([chunk.data async for chunk in run.output()]))
            return found

    import anyio

    first, second, third = anyio.run(main)
    assert first[:TAIL] == third[:TAIL] == numbered(TAIL)
    assert second == numbered(10)
    assert numbered(200_000).endswith(first[TAIL:])
    assert numbered(200_001).endswith(third[TAIL:])


def test_the_sentinel_of_a_dead_guard_has_the_tail(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    line = f"seq 1 20000; echo >{gate.path}; exec sleep 600"
    with Driven(["sh", "-c", line], max_output=LIMIT, on_max_output="roll", timeout=60) as run:
        gate.wait()
        run.until("output_rolling")
        run.wait_for(lambda: b"sleep" in _command(run.command_pid), "all is written")
        os.kill(run.live.guard_pid, signal.SIGKILL)
        result = run.settle()
    assert outcome_of(result) == ("lost", "guard")
    assert result.stdout.startswith(b"1\n2\n3\n")
    assert result.stdout.endswith(b"20000\n")
    assert_all_gone(result.report)


def _command(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
