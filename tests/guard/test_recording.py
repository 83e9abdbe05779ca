"""Recording with little room: late output, a full disk, and a limit on file sizes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from contextlib import contextmanager
from errno import EFBIG, ENOSPC
from fcntl import ioctl
from termios import FIONREAD
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.guard import packets
from holdfast.runs import ephemeral
from holdfast.state.directory import StateDirectory
from tests.support.driven import Driven, Gate
from tests.support.evidence import all_of, assert_all_gone, one, outcome_of
from tests.support.processes import descendants, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.guard

# --- late output that nobody reads ---

WINDOW = 1 << 20
LATE = 8 << 20


@pytest.mark.parametrize("windowed", [True, False])
def test_late_output_that_nobody_reads_is_bounded(
    windowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ephemeral, "WINDOW_BYTES", WINDOW)
    gate = Gate(tmp_path / "gate")
    line = f"trap '' TERM; echo ready; read -r _ <{gate.path}; head -c {LATE} /dev/zero; exit 5"
    with Driven(["sh", "-c", line], windowed=windowed, wake_output=True, grace=60) as run:
        run.until_ready()
        assert run.ask(lambda ticket: packets.stop(ticket, "user", "", now=False)) == 0
        gate.open()
        result = run.settle()
        kept = os.fstat(run.live.journal).st_blocks * 512
    assert outcome_of(result) == ("cancelled", "user")
    assert result.exit_code == 5
    drained = one(result.facts, "drained").detail
    assert drained["stdout_bytes"] + drained["dropped_bytes"] == len("ready\n") + LATE
    if windowed:
        assert kept < WINDOW + (1 << 20), "one read is on its way when the window is full"
        assert drained["dropped_bytes"] > LATE - 2 * WINDOW
    else:
        assert kept > LATE, "the control: who wants everything gets everything"


# --- a disk that others fill ---


@contextmanager
def disk(place: Path, size: str) -> Iterator[Path]:
    """A small file system."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path, *, leave: int = 0) -> None:
    """Fill a file system, except for this many bytes."""
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize - leave
    with (place / f"filler-{leave}").open("wb", buffering=0) as filler:
        os.posix_fallocate(filler.fileno(), 0, free)


@pytest.mark.root
@pytest.mark.parametrize("leave", [None, 64 << 10])
def test_a_silent_commands_end_is_recorded_on_a_full_disk(tmp_path: Path, leave: int | None) -> None:
    with disk(tmp_path / "disk", "1m") as place:
        state = StateDirectory.open(str(place / "state"))
        if leave is not None:
            fill(place, leave=leave)  # not much room even at the start
        with Driven(["sh", "-c", "read -r _; exit 7"], state=state, stdin="pipe", timeout=60) as run:
            run.until("started")
            fill(place)
            for _ in range(150):  # more facts than the rest of a page takes
                assert run.ask(lambda ticket: packets.signal(ticket, signal.SIGURG, tree=False)) == 0
            run.live.close_input()
            result = run.settle()
        assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 7)
        assert len(all_of(result.facts, "signalled")) == 150
        assert not all_of(result.facts, "recording_failed")
        assert_all_gone(result.report)


# --- a limit on file sizes ---

FILE_SIZE = 1 << 20


@contextmanager
def limited_files() -> Iterator[None]:
    """Limit files of new processes to 1 MiB; more causes a signal that kills."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def check_limited(result: holdfast.Result, written: int) -> None:
    """The run is complete except for its output, and says so."""
    assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 7)
    drained = one(result.facts, "drained").detail
    assert drained["dropped_bytes"] > 0
    assert drained["stdout_bytes"] + drained["dropped_bytes"] == written
    assert not result.report["output"]["complete"]
    assert one(result.facts, "recording_failed").detail["error"] in (EFBIG, ENOSPC)
    assert_all_gone(result.report)


@pytest.mark.parametrize("durable", [False, True])
def test_a_limit_on_file_sizes_loses_output_but_not_the_run(durable: bool, tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state")) if durable else None
    much = 4 * FILE_SIZE
    with limited_files():
        run = Driven(["sh", "-c", f"head -c {much} /dev/zero; exit 7"], state=state, timeout=60)
    with run:
        check_limited(run.settle(), much)


def has_read_all(run: Driven) -> bool:
    """Whether the command's stdin is empty, and the command waits for more: it has written everything it read."""
    left = bytearray(4)
    ioctl(run.live.input, FIONREAD, left)
    return not any(left) and all(state_of(pid) == "S" for pid in descendants(run.live.guard_pid))


@pytest.mark.parametrize("durable", [False, True])
def test_output_in_small_pieces_leaves_room_for_facts(durable: bool, tmp_path: Path) -> None:
    """Pieces small enough to fill a file to its last bytes, each recorded before the next is written."""
    state = StateDirectory.open(str(tmp_path / "state")) if durable else None
    with limited_files():
        run = Driven(["sh", "-c", "cat; exit 7"], state=state, stdin="pipe", timeout=60)
    with run:
        written = 0
        for piece in [*[1 << 15] * 30, *[1 << 10] * 64, *[16] * 80]:
            written += os.write(run.live.input, bytes(piece))
            run.wait_for(lambda: has_read_all(run), "a command that reads")
            run.take_turns()
        run.live.close_input()
        check_limited(run.settle(), written)
