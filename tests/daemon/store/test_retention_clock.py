"""A wall clock that jumps removes no history and no idempotency key."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast.daemon.store import retention_clock
from holdfast.daemon.store.retention_clock import RetentionClock

from ...support.daemons import daemon

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
DAY = 86_400
START = 20_000 * DAY


class Clocks:
    """A machine whose time passes, is set, and is booted by hand; seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.boot, self.boottime = float(START), 1, 1000.0
        monkeypatch.setattr(retention_clock, "_read_clocks", self.read)

    def read(self) -> tuple[int, str, int]:
        return round(self.wall * S), f"boot {self.boot}", round(self.boottime * S)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.boottime += seconds

    def boots(self, off: float) -> None:
        self.boot, self.boottime = self.boot + 1, 5.0
        self.wall += off


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def ago(clock: RetentionClock, days: float) -> float:
    return (clock.ago_ns(days * DAY) / S - START) / DAY


def test_an_age_is_that_of_the_wall_clock_while_nothing_jumps(clocks: Clocks) -> None:
    clock = RetentionClock()
    clocks.passes(50 * DAY)
    clocks.wall += 1800  # a correction
    assert ago(clock, 30) == pytest.approx(20 + 0.5 / 24)
    assert ago(clock, 60) == pytest.approx(-10 + 0.5 / 24)


@pytest.mark.parametrize("days", [40, 20_000, -40])
def test_a_jump_makes_nothing_older(clocks: Clocks, days: float) -> None:
    clock = RetentionClock()
    clocks.passes(10 * DAY)
    clock.ago_ns(0)
    clocks.passes(DAY / 2)
    clocks.wall += days * DAY
    # All that was before the jump is at most 10.5 days old, and may be in the future now.
    assert ago(clock, 30) == pytest.approx(10.5 - 30 + min(0.0, days), abs=0.51)
    clocks.passes(31 * DAY)
    assert ago(clock, 30) == pytest.approx(10.5 + days + 1)  # by now it is old in truth


def test_jumps_add_up(clocks: Clocks) -> None:
    clock = RetentionClock()
    for _ in range(4):
        clocks.passes(2 * DAY)
        clock.ago_ns(0)
        clocks.wall += 40 * DAY
    assert ago(clock, 7) == 1
    assert ago(clock, 3) == 2 * 42 + 1


def test_between_daemons_of_one_boot_the_time_counts_and_a_jump_does_not(clocks: Clocks, tmp_path: Path) -> None:
    path = str(tmp_path / "clock")
    RetentionClock(path).saving()()
    clocks.passes(50 * DAY)  # no daemon is there
    clock = RetentionClock(path)
    assert ago(clock, 30) == 20
    clock.saving()()
    clocks.wall += 40 * DAY
    assert ago(RetentionClock(path), 30) == 20
    (tmp_path / "clock").unlink()
    assert ago(RetentionClock(path), 30) == 60  # the control: a daemon that knows of no jump


@pytest.mark.parametrize(("off", "counted"), [(0.5, 0.5), (40, 1), (-40, 0)])
def test_across_a_boot_a_day_counts(clocks: Clocks, tmp_path: Path, off: float, counted: float) -> None:
    path = str(tmp_path / "clock")
    clock = RetentionClock(path)
    clocks.passes(20 * DAY)
    clock.saving()()
    clocks.boots(off * DAY)
    assert ago(RetentionClock(path), 30) == pytest.approx(20 + min(off, counted) - 30)


@pytest.mark.usefixtures("clocks")
def test_a_damaged_file_counts_from_now_on(tmp_path: Path) -> None:
    (tmp_path / "clock").write_bytes(b"[[1,")
    assert ago(RetentionClock(str(tmp_path / "clock")), 30) == -30


def test_segments_are_bounded(clocks: Clocks) -> None:
    clock = RetentionClock()
    for _ in range(300):
        clocks.wall += DAY
        clock.ago_ns(0)
    assert clock.saving()() is None
    assert ago(clock, 30) == pytest.approx(200 - 30, abs=1)


AHEAD = f"""
import time
real_ns, real = time.time_ns, time.time
time.time_ns = lambda: real_ns() + {40 * DAY * S}
time.time = lambda: real() + {40 * DAY}
"""


@pytest.mark.parametrize("knows", [True, False], ids=["jump", "control"])
def test_a_jump_of_40_days_removes_no_run_no_event_and_no_key(tmp_path: Path, knows: bool) -> None:
    state = tmp_path / "s"
    bounds = ("--retention-age", "30d", "--retention-count", "1", "--events-age", "30d")
    with daemon(state, *bounds) as running:
        running.wait(running.submit(["true"])["run_id"])
        kept = running.submit(["true"], key="the-key")["run_id"]
        running.wait(kept)
        running.signal()
        assert running.exit_code() == 0
    if not knows:
        (state / "clock").unlink()
    with daemon(state, *bounds, before=AHEAD) as running:
        # Only one run may stay: the log says when retention has looked.
        running.until_line(f"removed {1 if knows else 2} old runs")
        assert running.request("GET", f"/v1/runs/{kept}").status == (200 if knows else 404)
        running.signal()
        assert running.exit_code() == 0
    with closing(sqlite3.connect(state / "daemon.sqlite")) as connection:
        keys = connection.execute("SELECT run_id FROM idempotency").fetchall()
        events = connection.execute("SELECT type FROM events WHERE run_id = ?", (kept,)).fetchall()
    assert keys == ([(kept,)] if knows else [])
    assert len(events) == (4 if knows else 0)
