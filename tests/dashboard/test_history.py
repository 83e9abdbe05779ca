"""The charts of History: drawn from the daemon's counts, in their colours and proportions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.daemons import Daemon
    from .driving import Dashboard

# For one chart: how many pixels of each colour its drawing has, and the height of their middle above the axis, as a
# part of the height. A colour has the form of a computed style, `rgb(r, g, b)`.
PIXELS = """(figure, colours) => {
  const canvas = figure.querySelector('canvas');
  const over = figure.querySelector('.u-over').getBoundingClientRect();
  const box = canvas.getBoundingClientRect();
  const ratio = canvas.width / box.width;
  const parts = [over.left - box.left, over.top - box.top, over.width, over.height];
  const [left, top, width, height] = parts.map((one) => Math.round(one * ratio));
  const { data } = canvas.getContext('2d').getImageData(left, top, width, height);
  return colours.map((colour) => {
    const wanted = colour.match(/\\d+/g).map(Number);
    let count = 0, sum = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] !== 255 || wanted.some((part, place) => Math.abs(data[at + place] - part) > 3)) continue;
      count++;
      sum += height - 0.5 - Math.floor(at / 4 / width);
    }
    return [count, count === 0 ? null : sum / count / height];
  });
}"""
HEADROOM = 1.05  # of the axis above the largest value


def test_the_charts_are_drawn_from_what_was_counted(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    ended = [running.submit(["true"]) for _ in range(2)]
    ended += [running.submit(["false"]), running.submit(["sleep", "600"], timeout_s=0.3)]
    for one in ended:
        running.wait(one["run_id"])
    dashboard = visit(running)
    page = dashboard.page
    with page.expect_response(lambda answer: "/v1/statistics" in answer.url and "slices=60" in answer.url) as answer:
        dashboard.go("/history")
    told = answer.value.json()
    last = told["slices"][-1]
    expect(page.locator(".totals")).to_have_text("4 runs2 succeeded1 failed1 timed_out")
    charts = page.locator(".charts figure")
    expect(charts.locator("figcaption")).to_have_text(["Outcomes", "Duration", "Wait in the queue"])
    expect(charts.nth(2).locator("canvas")).to_be_visible()

    # Outcomes: stacked bars of the same width, as high as their numbers.
    colours = [dashboard.colour(name) for name in ("succeeded", "failed", "timed_out", "cancelled", "lost")]
    (succeeded, failed, timed_out, cancelled, lost) = charts.nth(0).evaluate(PIXELS, colours)
    assert failed[0] > 50, "nothing is drawn"
    assert succeeded[0] == pytest.approx(2 * failed[0], rel=0.15)
    assert timed_out[0] == pytest.approx(failed[0], rel=0.15)
    assert cancelled[0] == lost[0] == 0
    heights = [succeeded[1], failed[1], timed_out[1]]
    assert heights == pytest.approx([1 / 4 / HEADROOM, 2.5 / 4 / HEADROOM, 3.5 / 4 / HEADROOM], abs=0.03)
    # The pointer shows the numbers.
    point_at_the_last(charts.nth(0))
    legend = charts.nth(0).locator(".u-series:not(:first-child)")
    expect(legend).to_have_text(
        [re.compile(f"{name}.*{last['outcomes'][name]}$") for name in reversed(list(told["outcomes"]))]
    )

    # Durations: a point for each percentile; the run with the deadline was the longest.
    assert last["duration_p99_s"] >= 0.3
    expect_point(dashboard, charts.nth(1), "failed", last["duration_p99_s"])
    point_at_the_last(charts.nth(1))
    expect_values(charts.nth(1), last, {"p50": "duration_p50_s", "p95": "duration_p95_s", "p99": "duration_p99_s"})
    point_at_the_last(charts.nth(2))
    expect_values(charts.nth(2), last, {"p50": "queue_p50_s", "p95": "queue_p95_s"})
    expect_point(dashboard, charts.nth(2), "timed_out", last["queue_p95_s"])
    assert dashboard.faults == []


def point_at_the_last(chart: Locator) -> None:
    """Move the pointer over the newest slice: there is room for one slice on either side."""
    chart.scroll_into_view_if_needed()
    over = chart.locator(".u-over")
    box = over.bounding_box()
    assert box is not None
    over.hover(position={"x": box["width"] * 60 / 61, "y": box["height"] / 2})


def expect_point(dashboard: Dashboard, chart: Locator, colour: str, value: float) -> None:
    """The point of this colour is as high as its value, the largest of all; the axis shows a millisecond at least."""
    ((count, height),) = chart.evaluate(PIXELS, [dashboard.colour(colour)])
    assert count > 4, "nothing is drawn"
    assert height == pytest.approx(value / max(value, 1e-3) / HEADROOM, abs=0.04)


def expect_values(chart: Locator, last: dict[str, Any], names: dict[str, str]) -> None:
    """The legend shows the daemon's numbers."""
    for label, name in names.items():
        row = chart.locator(".u-series", has=chart.page.get_by_text(label, exact=True))
        expect(row.locator(".u-value")).to_have_text(re.compile(r"^\d"))
        assert seconds(row.locator(".u-value").inner_text()) == pytest.approx(last[name], abs=0.051), label


def seconds(text: str) -> float:
    """The seconds of a short duration on the page."""
    return float(text.removesuffix("ms")) / 1000 if text.endswith("ms") else float(text.removesuffix("s"))
