"""The page of one run: its buttons, its drawing, and that it asks only when something has changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from ..support.listening import listens
from ..support.readiness import names_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.daemons import Daemon
    from .driving import Dashboard

STUBBORN = ["sh", "-c", "trap '' INT TERM; trap : USR1; echo ready; while :; do sleep 600 & wait; done"]
# Ignores SIGINT, ends with 0 at SIGTERM; prints before its deadline and after.
TOO_LATE = """trap '' INT; trap 'echo saved; exit 0' TERM; trap : USR1
echo ready; while :; do read -r x; done"""
FACTS = ["start", "warn", "limit decided", "rung", "rung", "exit late", "tree", "drain", "tree"]
GROWS = 'echo ready; while read -r x; do sleep 600 & echo "got $x"; done'
LEFT = "(all) => all.map((one) => one.getBoundingClientRect().left)"
# After this many looks at the live runs, the page has had about as many.
LOOKS = """(wanted) => new Promise((done) => {
  const source = new EventSource('/v1/processes?every_s=0.5');
  let seen = 0;
  source.addEventListener('processes', () => {
    if (++seen < wanted) return;
    source.close();
    done();
  });
})"""


def test_cancel_now_ends_at_once_what_a_cancel_would_wait_for(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    other, run_id = (running.submit(STUBBORN, ladder="TERM:1h,KILL")["run_id"] for _ in range(2))
    for one in (other, run_id):
        running.until_output(one)
    dashboard = visit(running)
    page, dialog, title = dashboard.page, dashboard.page.get_by_role("dialog"), dashboard.page.locator(".title")
    # A cancel is not enough for these: it leaves them an hour.
    dashboard.go(f"/runs/{other}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(title).to_contain_text("stoppingcancelled · user")
    expect(page.locator(".moments")).to_contain_text("SIGTERM")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
    expect(page.get_by_role("button", name="Cancel now")).to_be_enabled()
    dashboard.go(f"/runs/{run_id}")
    page.get_by_role("button", name="Cancel now").click()
    expect(dialog).to_contain_text(f"Cancel run {run_id} now?")
    expect(dialog).to_contain_text("The whole tree gets SIGKILL at once")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert running.report(run_id)["status"] is None, "it was asked for nothing yet"
    page.get_by_role("button", name="Cancel now").click()
    dialog.get_by_role("textbox", name="Reason").fill("no time")
    dialog.get_by_role("button", name="Cancel now").click()
    expect(title).to_contain_text("cancelled · user")
    expect(title.locator(".stopping")).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel now")).to_be_disabled()
    expect(page.locator(".moments")).to_contain_text("SIGKILL")
    expect(page.locator(".moments")).not_to_contain_text("SIGTERM")
    expect(page.locator(".facts")).to_contain_text("yes, SIGKILL was needed")
    expect(page.get_by_role("heading", name="Process tree now")).to_have_count(0)
    report = running.report(run_id)
    assert [report[name] for name in ("state", "status", "cause", "tree")] == ["settled", "cancelled", "user", "gone"]
    assert "no time" in report["reason"]
    assert running.report(other)["state"] == "stopping"
    running.cancel(other, now=True)
    assert dashboard.faults == []


def test_the_drawing_has_every_fact_in_its_place(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    run_id = running.submit(
        ["sh", "-c", TOO_LATE], stdin="pipe", timeout_s=1.6, warn_before_s=0.4, ladder="INT:50ms,TERM:1h,KILL"
    )["run_id"]
    dashboard = visit(running)
    dashboard.go(f"/runs/{run_id}")
    page = dashboard.page
    dots = page.locator(".track .dot")
    expect(dots).to_have_count(len(FACTS))  # the lines came while the page was open
    assert [
        one.removeprefix("dot ").strip() for one in dots.evaluate_all("(all) => all.map((one) => one.className)")
    ] == FACTS
    places = dots.evaluate_all(LEFT)
    assert places == sorted(set(places)), "each is to be told apart from the one before"
    assert dots.all_inner_texts() == [str(number + 1) for number in range(len(FACTS))]
    # The decisive fact stands out in drawing and list, and the time after it is hatched.
    decided = page.locator(".track .decided")
    expect(decided).to_have_attribute("title", re.compile("its deadline of 1.6s passed$"))
    assert dashboard.looks(decided, "background-color") == dashboard.colour("ink")
    assert dashboard.looks(dots.first, "background-color") == dashboard.colour("page")
    (after,) = page.locator(".track .after").evaluate_all(LEFT)
    assert places[1] < after < places[3]
    # Output: at the start, and late.
    (ready,) = page.locator(".track .tick:not(.late)").evaluate_all(LEFT)
    (late,) = page.locator(".track .tick.late").evaluate_all(LEFT)
    assert ready < places[1] < after < late
    expect(page.locator(".moments li")).to_have_count(len(FACTS))
    dashboard.picture("timeline")


def test_nothing_is_asked_again_while_nothing_is_different(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    run_id = running.submit(["sh", "-c", GROWS], stdin="pipe", timeout_s=3600)["run_id"]
    running.until_output(run_id)
    dashboard = visit(running)
    page = dashboard.page
    page.route("**/v1/processes", lambda route: route.continue_(url=f"{route.request.url}?every_s=0.5"))
    page.reload()
    dashboard.go(f"/runs/{run_id}")
    expect(page.locator(".title")).to_contain_text("waiting for input")
    expect(page.locator(".processes li")).to_have_count(1)
    expect(page.locator(".track .tick")).to_have_count(1)
    page.evaluate(LOOKS, 2)
    before = len(dashboard.requests)
    page.evaluate(LOOKS, 3)
    asked = [one.rpartition("/")[2] for one in dashboard.requests[before:] if run_id in one]
    assert asked in ([], ["processes"])  # at most, to see that the busy process is idle now
    # A change is visible: one more process, and its output, without reading the whole record again.
    page.get_by_role("textbox", name="Send input").fill("x")
    page.keyboard.press("Enter")
    expect(page.locator(".processes li")).to_have_count(2)
    expect(page.locator(".processes")).to_contain_text("sleep 600")
    expect(page.locator(".track .tick")).to_have_count(2)
    assert [one for one in dashboard.requests[before:] if one.endswith("/timeline")] == []


def test_facts_that_have_no_event_are_seen_when_they_are_due(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    run_id = running.submit(STUBBORN, timeout_s=3600, warn_before_s=3599, ladder="INT:500ms,TERM:1h,KILL")["run_id"]
    dashboard = visit(running)
    dashboard.go(f"/runs/{run_id}")
    moments = dashboard.page.locator(".moments")
    expect(moments).to_contain_text("warned of its deadline")
    running.cancel(run_id)
    expect(moments).to_contain_text("SIGINT sent")
    expect(moments).to_contain_text("SIGTERM sent")
    assert running.report(run_id)["state"] == "stopping"
    running.cancel(run_id, now=True)
    expect(moments).to_contain_text("settled")


def test_the_ports_of_a_run_are_behind_its_name_and_in_its_report(
    running: Daemon, visit: Callable[..., Dashboard]
) -> None:
    run_id = running.submit(listens())["run_id"]
    port = names_in(running.until_output(run_id, b"\n"))["port"]
    dashboard = visit(running)
    expect(dashboard.page.locator(f"[data-run='{run_id}'] .c-name")).to_contain_text(f":{port}")
    dashboard.go(f"/runs/{run_id}")
    expect(dashboard.page.locator(".facts")).to_contain_text(f"Ports{port}")
