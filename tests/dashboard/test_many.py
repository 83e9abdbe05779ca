"""Ten thousand runs: the page stays small and quick. The list is made up here, everything else is the real daemon's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Route, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.daemons import Daemon
    from .driving import Dashboard

MANY = 10_000
STATUSES = (("succeeded", "exit"), ("failed", "exit"), ("timed_out", "deadline"), ("cancelled", "user"))
# How long a sort of all of it takes until the next frame is drawn, and the longest frame while it is scrolled through.
SORT = """async () => {
  const began = performance.now();
  [...document.querySelectorAll('.sort')].find((one) => one.textContent.startsWith('Run')).click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""
SCROLL = """async () => {
  const box = document.querySelector('.table');
  let longest = 0, last = performance.now();
  for (let step = 0; step < 60; step++) {
    box.scrollTop += box.scrollHeight / 70;
    await new Promise((done) => requestAnimationFrame(done));
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }
  return longest;
}"""


def test_ten_thousand_rows_are_sorted_filtered_and_scrolled(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    model = running.wait(running.submit(["true"], name="model")["run_id"])
    dashboard = visit(running)
    page = dashboard.page
    page.route("**/v1/runs?*", lambda route: answer(route, model))
    page.reload()  # the session stays: a new link here would race with the reload, and be used twice
    expect(page.get_by_role("status").first).to_contain_text("10,000 runs")
    assert page.get_by_role("row").count() < 60
    assert page.evaluate(SORT) < 1500
    assert page.evaluate(SCROLL) < 500
    expect(page.get_by_role("row").nth(1)).to_be_attached()
    page.get_by_role("combobox", name="status").select_option("timed_out")
    expect(page.get_by_role("status").first).to_contain_text("2,500 of 10,000 runs")
    page.get_by_role("searchbox", name="Text").fill("run 9998")
    expect(page.get_by_role("row")).to_have_count(2)
    assert dashboard.faults == []


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
