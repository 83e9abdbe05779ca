"""Ten thousand runs: the page stays small and quick. The test makes up the list; the rest is a real daemon's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Route, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import CDPSession

    from ..support.daemons import Daemon
    from .driving import Dashboard

MANY = 10_000
STATUSES = (("succeeded", "exit"), ("failed", "exit"), ("timed_out", "deadline"), ("cancelled", "user"))
# Sort all of it, or scroll through all of it, each until the next frame is drawn.
SORT = """async () => {
  [...document.querySelectorAll('.sort')].find((one) => one.textContent.startsWith('Run')).click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}"""
SCROLL = """async (steps) => {
  const box = document.querySelector('.table');
  let most = 0;
  for (let step = 0; step < steps; step++) {
    box.scrollTop += box.scrollHeight / (steps + 10);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    most = Math.max(most, document.querySelectorAll('[role=row]').length);
  }
  return most;
}"""
STEPS = 60


def test_ten_thousand_rows_are_sorted_filtered_and_scrolled(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    model = running.wait(running.submit(["true"], name="model")["run_id"])
    dashboard = visit(running)
    page = dashboard.page
    page.route("**/v1/runs?*", lambda route: answer(route, model))
    page.reload()  # the session stays: a new link here would race with the reload, and be used twice
    expect(page.get_by_role("status").first).to_contain_text("10,000 runs")
    assert page.get_by_role("row").count() < 60
    # By the time its thread worked, whatever else the machine does meanwhile.
    meter = page.context.new_cdp_session(page)
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = worked_s(meter)
    page.evaluate(SORT)
    sorted_at = worked_s(meter)
    assert page.evaluate(SCROLL, STEPS) < 60
    assert 0 < sorted_at - began < 0.5
    assert (worked_s(meter) - sorted_at) / STEPS < 0.25
    expect(page.get_by_role("row").nth(1)).to_be_attached()
    page.get_by_role("combobox", name="status").select_option("timed_out")
    expect(page.get_by_role("status").first).to_contain_text("2,500 of 10,000 runs")
    page.get_by_role("searchbox", name="Text").fill("run 9998")
    expect(page.get_by_role("row")).to_have_count(2)
    assert dashboard.faults == []


def worked_s(meter: CDPSession) -> float:
    """How long the page's thread has worked by now."""
    found = meter.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in found if one["name"] == "TaskDuration")


def answer(route: Route, model: dict[str, Any]) -> None:
    """Pages of made-up runs; none is live."""
    query = route.request.url
    if "state=" in query:
        route.fulfill(json={"runs": [], "cursor": None})
        return
    first = int(query.partition("cursor=")[2] or 0)
    last = min(MANY, first + (100 if first == 0 else 1000))
    runs = [made_up(model, number) for number in range(first, last)]
    route.fulfill(body=json.dumps({"runs": runs, "cursor": str(last) if last < MANY else None}))


def made_up(model: dict[str, Any], number: int) -> dict[str, Any]:
    """The run of this number."""
    status, cause = STATUSES[number % 4]
    name = {"run_id": f"made-up-{number}", "name": f"run {number}", "session": f"s{number % 50}"}
    return {**model, **name, "status": status, "cause": cause, "evidence": []}
