"""The table of runs: the content of a row, the counters, and filters and order in the address."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ..support.daemons import Daemon, daemon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .driving import Dashboard

SLEEPS = ["sh", "-c", "echo ready; exec sleep 600"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 600; done"]
TALKS = ["sh", "-c", "echo ready; i=0; while :; do i=$((i+1)); [ $((i % 9999)) != 0 ] || echo so far $i; done"]


@pytest.fixture
def narrow(tmp_path: Path, built: None) -> Iterator[Daemon]:  # noqa: ARG001
    """A daemon that runs two runs at once."""
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", "--max-runs", "2") as started:
        yield started


def test_a_row_tells_what_it_uses_and_how_long_it_has(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    run_id = running.submit(TALKS, name="talks", session="day", timeout_s=600, idle_timeout_s=300)["run_id"]
    running.until_output(run_id)
    dashboard = visit(running)
    row = dashboard.row(run_id)
    cells = row.get_by_role("cell")
    expect(row.locator(".c-session")).to_have_text("day")
    expect(row.locator(".c-age")).to_have_text(re.compile(r"^\d+(\.\d)?(ms|s)$"))
    expect(cells.nth(7)).to_have_text(re.compile(r"^[1-9]\d* %$"))
    expect(cells.nth(8)).to_have_text(re.compile(r"^\d+(\.\d)? [KM]iB$"))
    expect(cells.nth(9)).to_have_text(re.compile(r"^[1-9]\d*(\.\d)? ([KM]i)?B/s$"))
    for name, total in (("Time to the deadline", "600"), ("Time to the idle limit", "300")):
        bar = row.get_by_role("meter", name=name)
        expect(bar).to_have_attribute("aria-valuemax", total)
        assert 0 < int(bar.get_attribute("aria-valuenow") or 0) <= int(total)
        assert bar.locator(".fill").evaluate("(one) => one.clientWidth > 0.5 * one.parentElement.clientWidth")
    titles = ["State", "Run", "Session", "Age ↓", "Deadline", "Idle limit", "CPU", "Memory", "Output"]
    assert dashboard.page.get_by_role("columnheader").all_inner_texts()[1:] == titles
    running.cancel(run_id, now=True)


def test_the_counters_count_as_it_happens(narrow: Daemon, visit: Callable[..., Dashboard]) -> None:
    dashboard = visit(narrow)
    page = dashboard.page

    def expect_counters(*numbers: int) -> None:
        words = ("running", "queued", "stopping", "waiting for input", "failed today")
        wanted = [f"{number} {word}" for number, word in zip(numbers, words, strict=True)]
        expect(page.get_by_role("list", name="Counters").get_by_role("link")).to_have_text(wanted)

    expect_counters(0, 0, 0, 0, 0)
    narrow.wait(narrow.submit(["false"])["run_id"])
    expect_counters(0, 0, 0, 0, 1)
    stubborn = narrow.submit(STUBBORN, ladder="TERM:1h,KILL")["run_id"]
    narrow.until_output(stubborn)
    asks = narrow.submit(["sh", "-c", "echo ready; read -r x"], stdin="pipe")["run_id"]
    queued = narrow.submit(SLEEPS)["run_id"]
    expect_counters(2, 1, 0, 1, 1)
    narrow.cancel(stubborn)
    expect_counters(1, 1, 1, 1, 1)
    page.get_by_role("link", name="1 stopping").click()
    expect(page.get_by_role("row")).to_have_count(2)
    expect(dashboard.row(stubborn)).to_contain_text("stoppingcancelled · user")
    narrow.cancel(queued)
    narrow.cancel(asks, now=True)
    narrow.cancel(stubborn, now=True)
    expect_counters(0, 0, 0, 0, 1)
    # A page may be open for days: on another day the failures are counted anew.
    with page.expect_request(re.compile(r"/v1/statistics\?.*slices=1$")):
        page.clock.set_fixed_time(datetime.now(UTC) - timedelta(days=2))


def test_filters_and_order_live_in_the_address(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    ended = [
        running.submit(["true"], name="alpha", session="day", labels={"team": "a"}),
        running.submit(["false"], name="beta", session="day", labels={"team": "b"}),
        running.submit(["sleep", "600"], name="gamma", session="night", labels={"team": "b"}, timeout_s=0.1),
        running.submit(["no-such-command"], name="delta", session="night", labels={"team": "b"}),
    ]
    for one in ended:
        running.wait(one["run_id"])
    dashboard = visit(running)
    page = dashboard.page

    def expect_rows(*names: str) -> None:
        expect(page.locator("[role=row][data-run] .c-name a")).to_have_text(list(names))

    expect_rows("delta", "gamma", "beta", "alpha")  # the newest first
    for name, value, left in (
        ("status", "failed", ("delta", "beta")),
        ("cause", "spawn", ("delta",)),
        ("session", "night", ("delta", "gamma")),
        ("label", "team=b", ("delta", "gamma", "beta")),
    ):
        page.get_by_role("combobox", name=name).select_option(value)
        expect_rows(*left)
        page.reload()
        expect_rows(*left)
        expect(page.get_by_role("combobox", name=name)).to_have_value(value)
        page.get_by_role("button", name="Clear").click()
        expect_rows("delta", "gamma", "beta", "alpha")
        assert "?" not in page.url
    # Several at once, with text and order; a link holds all of it.
    page.get_by_role("combobox", name="label").select_option("team=b")
    page.get_by_role("searchbox", name="Text").fill("ETA")
    expect_rows("beta")
    page.get_by_role("searchbox", name="Text").fill("a")
    by_name = page.get_by_role("columnheader", name="Run")
    expect(by_name).to_have_attribute("aria-sort", "none")
    by_name.get_by_role("button").click()
    expect_rows("gamma", "delta", "beta")
    expect(by_name).to_have_attribute("aria-sort", "descending")
    by_name.get_by_role("button").click()
    expect_rows("beta", "delta", "gamma")
    assert page.url.partition("#")[2] == "/?label=team%3Db&q=a&sort=name"
    dashboard.go("/sessions")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    dashboard.go("/?label=team%3Db&q=a&sort=name")
    expect_rows("beta", "delta", "gamma")
    expect(by_name).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_role("searchbox", name="Text")).to_have_value("a")
    page.get_by_role("button", name="State").click()
    expect_rows("gamma", "delta", "beta")
    assert dashboard.faults == []
