"""The floor of free disk space, without a daemon: no new run is kept below it, and a run in the foreground goes on."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import anyio
import pytest

import holdfast
from holdfast.values.errors import SpecError, StateError

from ..console import holdfast as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.root


@pytest.fixture
def low(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory on a small disk of which 4 % are free."""
    (place := tmp_path / "mount").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", str(place)], check=True)
    monkeypatch.delenv("HOLDFAST_DISK_FLOOR", raising=False)
    (place / "filler").write_bytes(b"x" * (61 << 20))
    yield place / "state"
    subprocess.run(["umount", str(place)], check=True)


def test_a_detached_run_is_refused_and_prune_still_works(low: Path) -> None:
    done = command("run", "--detach", "--state-dir", str(low), "true")
    assert done.returncode == 125
    assert b"left, less than its floor of 3276K" in done.stderr
    assert b"holdfast prune" in done.stderr
    assert list((low / "runs").iterdir()) == []
    assert command("prune", "--state-dir", str(low), "--older-than", "1d").returncode == 0
    assert command("ps", "--all", "--state-dir", str(low)).returncode == 0


@pytest.mark.parametrize("floor", ["none", "1M", "2%", "90%,1M"])
def test_control_a_lower_floor_lets_it_start(low: Path, floor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DISK_FLOOR", floor)
    done = command("run", "--state-dir", str(low), "true")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_floor_that_cannot_be_read_is_a_mistake(low: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DISK_FLOOR", "much")
    done = command("run", "--state-dir", str(low), "true")
    assert done.returncode == 125
    assert b"HOLDFAST_DISK_FLOOR" in done.stderr


def test_in_the_foreground_the_run_matters_more_than_its_record(low: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(low.parent))
    done = command("run", "sh", "-c", "echo done; exit 3")
    assert (done.returncode, done.stdout) == (3, b"done\n")
    assert b"this run is not kept: the disk of" in done.stderr
    named = command("run", "--state-dir", str(low), "true")
    assert named.returncode == 125


def test_a_supervisor_refuses_and_goes_on(low: Path) -> None:
    async def start(floor: str | None) -> str:
        async with holdfast.Supervisor(state_dir=low, disk_floor=floor) as supervisor:
            return str((await (await supervisor.start(["true"])).settled())["status"])

    with pytest.raises(StateError, match="less than its floor") as refused:
        anyio.run(start, None)
    assert "holdfast prune" in (refused.value.remedy or "")
    assert anyio.run(start, "1M") == "succeeded"
    with pytest.raises(SpecError):
        holdfast.Supervisor(disk_floor="some")
