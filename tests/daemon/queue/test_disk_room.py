"""The floor of free disk space: below it new runs wait or are refused, and the largest ended runs may go first."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from ...support.daemons import daemon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.root
LOW = ("--disk-floor", "12M")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    (place := tmp_path / "mount").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=0700", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(mount: Path) -> Path:
    """Leave 10 MiB."""
    filler = mount / "filler"
    filler.write_bytes(b"x" * (22 << 20))
    return filler


def test_runs_wait_until_there_is_room(mount: Path) -> None:
    with daemon(mount / "state", *LOW) as running:
        assert running.wait(running.submit(["true"])["run_id"])["exit_code"] == 0, "control: there is room"
        assert running.request("GET", "/v1/health").body["status"] == "ok"
        filler = fill(mount)
        waits = running.submit(["true"])["run_id"]
        health = running.request("GET", "/v1/health").body
        assert (health["status"], health["runs"]["queued"]) == ("degraded", 1)
        assert "lacks" in health["reasons"][0]
        assert "to its floor: new runs are queued, and not started" in health["reasons"][0]
        assert running.report(waits)["state"] == "queued"
        filler.unlink()
        assert running.wait(waits)["exit_code"] == 0
        assert running.request("GET", "/v1/health").body["status"] == "ok"


def test_runs_are_refused(mount: Path) -> None:
    with daemon(mount / "state", *LOW, "--on-low-disk", "refuse") as running:
        filler = fill(mount)
        answer = running.request("POST", "/v1/runs", {"argv": ["true"]})
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert "to its floor" in answer.body["detail"]
        assert "holdfast prune" in answer.body["remedy"]
        filler.unlink()
        assert running.wait(running.submit(["true"])["run_id"])["exit_code"] == 0


def test_without_a_floor_they_start(mount: Path) -> None:
    with daemon(mount / "state", "--disk-floor", "none") as running:
        fill(mount)
        assert running.wait(running.submit(["true"])["run_id"])["exit_code"] == 0


def test_the_largest_ended_run_goes_first(mount: Path) -> None:
    with daemon(mount / "state", *LOW, "--free-disk") as running:
        small = running.submit(["sh", "-c", "head -c 100000 /dev/zero"])["run_id"]
        large = running.submit(["sh", "-c", "head -c 5000000 /dev/zero"])["run_id"]
        for run_id in (small, large):
            running.wait(run_id)
        (mount / "filler").write_bytes(b"x" * (16 << 20))
        waits = running.submit(["true"])["run_id"]
        assert running.wait(waits)["exit_code"] == 0
        running.until_line("removed 1 of the largest runs")
    assert sorted(os.listdir(mount / "state" / "runs")) == sorted([small, waits])
