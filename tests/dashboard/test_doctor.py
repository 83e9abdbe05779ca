"""The doctor's page: findings, a dry run that changes nothing, and then only the chosen repairs."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from holdfast.state import run_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from ..support.daemons import Daemon
    from .driving import Dashboard


def test_reaping_is_tried_first_and_does_what_was_chosen(
    running: Daemon, visit: Callable[..., Dashboard], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, reaped = (left_behind(running, monkeypatch) for _ in range(2))
    dashboard = visit(running)
    page = dashboard.page
    dashboard.go("/doctor")
    expect(page.get_by_role("list", name="Findings").get_by_role("listitem").first).to_be_visible()
    expect(page.get_by_role("button", name="Reap 2")).to_have_count(0)  # the button appears only after the dry run
    page.get_by_role("button", name="Reap: dry run").click()
    plan = page.get_by_role("region", name="Dry run")
    expect(plan).to_contain_text("This would be done. Nothing has been changed yet.")
    for path in (kept, reaped):
        expect(plan.get_by_role("listitem").filter(has_text=path.parent.name)).to_have_count(1)
        assert path.exists(), "a dry run has changed something"
    assert not [one for one in dashboard.requests if one.startswith("POST") and "doctor" in one]
    assert dashboard.serious_faults() == []  # with the pointer over the button
    dashboard.picture("reap")
    plan.get_by_role("button", name="Leave it").click()
    expect(plan).to_have_count(0)
    page.get_by_role("button", name="Reap: dry run").click()
    plan.get_by_role("listitem").filter(has_text=kept.parent.name).get_by_role("checkbox").uncheck()
    plan.get_by_role("button", name="Reap 1", exact=True).click()
    done = page.get_by_role("region", name="Done")
    expect(done.get_by_role("listitem")).to_have_count(1)
    expect(done).to_contain_text("confirmed")
    assert (reaped.exists(), kept.exists()) == (False, True)
    page.get_by_role("button", name="Reap: dry run").click()
    expect(plan.get_by_role("listitem")).to_have_count(1)
    expect(plan).to_contain_text(kept.parent.name)
    assert dashboard.faults == []


def left_behind(running: Daemon, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The socket of an ended run without a listener."""
    run_id = running.submit(["true"])["run_id"]
    running.wait(run_id)
    running.request("GET", "/v1/runs")  # it is in the index: no other reader looks at its leftovers
    left: Path = running.state_dir / "runs" / run_id / run_directory.SOCKET
    monkeypatch.chdir(left.parent)  # the address of a socket is short
    left.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(left.name)
    return left
