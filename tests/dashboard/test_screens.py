"""Other screens and devices: a dark screen, a narrow one, and no mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.daemons import Daemon
    from .driving import Dashboard

SLEEPS = ["sh", "-c", "echo ready; exec sleep 600"]
# The brightness of the background and of the text: 0 is black, 255 white.
LIGHTNESS = """() => ['background-color', 'color'].map((what) => {
  const parts = getComputedStyle(document.body).getPropertyValue(what).match(/\\d+/g).map(Number);
  return parts.reduce((sum, part) => sum + part, 0) / 3;
})"""
# Whether this colour is in the chart of the outcomes.
DRAWN = """(colour) => {
  const canvas = document.querySelector('.charts canvas');
  const data = canvas?.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data ?? [];
  const wanted = colour.match(/\\d+/g).map(Number);
  for (let at = 0; at < data.length; at += 4)
    if (data[at + 3] === 255 && wanted.every((part, place) => Math.abs(data[at + place] - part) < 4)) return true;
  return false;
}"""
# The elements that make the page itself scroll sideways.
WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 150))"""
# The elements that are wider than the screen, except those with a scroll bar of their own.
TOO_WIDE = """() => [...document.querySelectorAll(':is(main, header) :is(a, button, input, select)')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, .lines, .table, .sr'))
  .map((one) => one.outerHTML.slice(0, 200))"""


def test_it_is_dark_where_the_system_is(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    running.wait(running.submit(["true"])["run_id"])
    dashboard = visit(running, dark=True)
    page = dashboard.page
    dashboard.go("/history")
    expect(page.locator(".charts canvas").last).to_be_visible()
    behind, text = page.evaluate(LIGHTNESS)
    assert behind < 40
    assert text > 200
    dark = dashboard.colour("succeeded")
    assert dashboard.looks(page.locator(".totals .succeeded"), "color") == dark
    page.wait_for_function(DRAWN, arg=dark)
    page.emulate_media(color_scheme="light")  # as evening and morning do it, with the page open
    behind, text = page.evaluate(LIGHTNESS)
    assert behind > 240
    assert text < 60
    assert dashboard.colour("succeeded") != dark
    page.wait_for_function(DRAWN, arg=dashboard.colour("succeeded"))
    assert not page.evaluate(DRAWN, dark)


def test_every_page_fits_a_telephone(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    long = "a name as long as people who are in a hurry never write, but programs do " * 2
    run_id = running.submit(SLEEPS, name=long.strip(), session="night", timeout_s=600, labels={"team": "long-" * 12})[
        "run_id"
    ]
    running.until_output(run_id)
    running.wait(running.submit(["sh", "-c", f"echo {'x' * 500}; exit 3"], session="night")["run_id"])
    dashboard = visit(running, width=360, height=740)
    page = dashboard.page
    for path, sign in (
        ("/", "[role=row] .bar"),
        ("/sessions", "tbody tr"),
        ("/history", ".charts canvas"),
        ("/history?q=xxx", ".matches li"),
        ("/doctor", ".findings li"),
        (f"/runs/{run_id}", ".processes li"),
    ):
        dashboard.go(path)
        expect(page.locator(sign).first).to_be_visible()
        assert page.evaluate(WIDE) == [], path
        assert page.evaluate(TOO_WIDE) == [], path
    dashboard.picture("narrow-run")
    page.get_by_role("button", name="Cancel now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel now")).to_be_in_viewport(ratio=1)
    dialog.get_by_role("button", name="Back").click()
    dashboard.go("/")
    row = dashboard.row(run_id)
    expect(row.get_by_role("link")).to_be_in_viewport()
    expect(row.get_by_role("meter", name="Time to the deadline")).to_be_in_viewport(ratio=1)


def test_without_a_mouse(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    run_id = running.submit(SLEEPS, name="unwanted")["run_id"]
    running.until_output(run_id)
    dashboard = visit(running)
    page, keys = dashboard.page, dashboard.page.keyboard
    heading, dialog = page.get_by_role("heading", level=1), page.get_by_role("dialog")
    expect(dashboard.row(run_id)).to_contain_text("running")
    keys.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    for key, title in (("s", "Sessions"), ("h", "History"), ("d", "Doctor")):
        keys.press("g")
        keys.press(key)
        expect(heading).to_have_text(title)
    keys.press("g")
    keys.press("r")
    expect(dashboard.row(run_id)).to_be_visible()
    dashboard.row(run_id).focus()
    keys.press("c")
    expect(dialog.get_by_role("textbox")).to_be_focused()
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    expect(dashboard.row(run_id)).to_be_focused()
    keys.press("c")
    expect(dialog.get_by_role("textbox")).to_be_focused()
    keys.type("nobody needs it")
    keys.press("Enter")
    expect(dashboard.row(run_id)).to_contain_text("cancelled · user")
    assert "nobody needs it" in running.wait(run_id)["reason"]
    assert dashboard.faults == []
