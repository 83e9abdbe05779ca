"""A full disk: the commands that make room still work, with the room of the reserve."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from holdfast.state import disk_reserve
from holdfast.state.directory import StateDirectory
from holdfast.state.index.index import Index

from ..cli.console import holdfast
from ..support.daemons import daemon
from ..support.durable import run_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNS = 40


@pytest.fixture(params=["tmpfs", "ext4"])
def mount(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    (place := tmp_path / "mount").mkdir()
    if request.param == "tmpfs":
        argv = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "tmpfs", str(place)]
    else:
        subprocess.run(["truncate", "-s", "40M", str(tmp_path / "image")], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(tmp_path / "image")], check=True)
        argv = ["mount", "-o", "loop", str(tmp_path / "image"), str(place)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"allowed: this host has no loop device: {done.stderr}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def full(mount: Path) -> Path:
    """A state directory with ended runs, some of them not in the index yet, on a disk without any room."""
    state = StateDirectory.open(str(mount / "state"))
    for number in range(RUNS):
        run_to_end(state, ["sh", "-c", "head -c 20000 /dev/zero"], run_id=f"run-{number}")
        if number == RUNS - 10:
            with Index.open(state) as index:
                index.refresh()
    fill(mount)
    return mount / "state"


def fill(mount: Path) -> None:
    """Leave no room at all."""
    with (mount / "filler").open("ab", buffering=0) as file:
        for piece in (1 << 20, 4096, 1):
            try:
                while file.write(b"x" * piece) == piece:
                    pass
            except OSError:
                pass


@pytest.mark.root
class TestFull:
    def test_ps_lists_every_run(self, full: Path) -> None:
        done = holdfast("ps", "--all", "--state-dir", str(full), "--limit", "0")
        assert done.returncode == 0, done
        assert sum(line.startswith(b"run-") for line in done.stdout.splitlines()) == RUNS, done.stdout

    def test_prune_makes_room(self, full: Path) -> None:
        done = holdfast("prune", "--keep", "5", "--state-dir", str(full))
        assert done.returncode == 0, done
        assert b"removed" in done.stdout
        # The next one takes what the index did not have yet, and the reserve is made again when there is plenty.
        (full.parent / "filler").unlink()
        assert holdfast("prune", "--keep", "5", "--state-dir", str(full)).returncode == 0
        assert len(os.listdir(full / "runs")) == 5
        assert (full / disk_reserve.NAME).stat().st_blocks * 512 >= disk_reserve.RESERVE_BYTES

    def test_the_daemon_starts_lists_and_prunes(self, full: Path) -> None:
        with daemon(full, "--retention-count", "10") as running:
            answer = running.request("GET", "/v1/runs?limit=200")
            assert answer.status == 200, answer
            (full.parent / "filler").unlink()
            assert running.request("GET", "/v1/health").status == 200
            assert running.wait(running.submit(["true"])["run_id"])["exit_code"] == 0

    @pytest.mark.parametrize("command", [["prune", "--keep", "5"], ["ps", "--all"]], ids=lambda command: command[0])
    def test_control_without_a_reserve_there_is_no_room(self, full: Path, command: list[str]) -> None:
        (full / disk_reserve.NAME).unlink()
        fill(full.parent)
        done = holdfast(*command, "--state-dir", str(full))
        assert done.returncode == 125, done
        assert b"disk is full" in done.stderr


class TestReserve:
    def test_it_is_made_once_and_kept(self, state: StateDirectory) -> None:
        disk_reserve.keep(state.path)
        made = os.stat(os.path.join(state.path, disk_reserve.NAME))
        disk_reserve.keep(state.path)
        assert os.stat(os.path.join(state.path, disk_reserve.NAME)).st_ino == made.st_ino
        assert not disk_reserve.release_if_full(state.path), "there is room"
        assert made.st_blocks * 512 >= disk_reserve.RESERVE_BYTES

    def test_a_directory_that_is_gone_is_no_problem(self, state: StateDirectory) -> None:
        shutil.rmtree(state.path)
        disk_reserve.keep(state.path)
        assert not disk_reserve.is_full(state.path)
