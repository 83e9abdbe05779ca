"""The log of a run on the page: colours, streams, late output, times, following, and the bytes themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.daemons import Daemon
    from .driving import Dashboard

RAW = (
    "\x1b[31mred\x1b[0m plain \x1b[1;4;38;2;10;20;30mexact\x1b[22m thin\x1b[0m\n"
    "\x1b[48;5;21mon blue\x1b[0m \x1b[7mturned\x1b[27m back\n"
    "\x1b[32mgreen goes on\nin the next line\x1b[0m\n"
)
COLOURED = f"""printf '{RAW.replace(chr(27), chr(92) + "033").replace(chr(10), chr(92) + "n")}'
printf '\\033[35mpurple problem\\033[0m\\n' >&2
trap 'printf "\\033[31mtoo late\\033[0m\\n"; exit 0' TERM
echo ready; read -r x"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_streams_and_late_output_are_seen(
    running: Daemon, visit: Callable[..., Dashboard], *, dark: bool
) -> None:
    run_id = running.submit(["sh", "-c", COLOURED], name="colours", stdin="pipe")["run_id"]
    running.until_output(run_id)
    running.cancel(run_id)
    running.wait(run_id)
    dashboard = visit(running, dark=dark)
    dashboard.go(f"/runs/{run_id}")
    page = dashboard.page
    expect(page.locator(".line.late")).to_be_visible()

    def seen(text: str, what: str = "color") -> str:
        return dashboard.looks(page.locator(".lines").get_by_text(text, exact=True), what)

    ink = dashboard.colour("ink")
    plain = page.locator(".line", has_text="ready")
    assert seen("red") == ("rgb(255, 128, 118)" if dark else "rgb(179, 38, 30)")
    assert dashboard.looks(page.locator(".line").first, "color") == ink, "what is not coloured has the page's own"
    assert [seen("exact", what) for what in ("color", "font-weight", "text-decoration-line")] == [
        "rgb(10, 20, 30)",
        "700",
        "underline",
    ]
    assert [seen("thin", what) for what in ("color", "font-weight")] == ["rgb(10, 20, 30)", "400"]
    assert seen("on blue", "background-color") == "rgb(0, 0, 255)"
    assert [seen("turned", "color"), seen("turned", "background-color")] == [dashboard.colour("page"), ink]
    assert seen("green goes on") == seen("in the next line") != ink
    # The streams differ in more than their words, and in words for users who do not see the difference.
    problem = page.locator(".line.stderr")
    expect(problem).to_have_text("stderr: purple problem")
    assert dashboard.looks(problem, "border-left-color") == dashboard.colour("failed")
    assert dashboard.looks(plain, "border-left-color") == "rgba(0, 0, 0, 0)"
    assert dashboard.looks(problem, "background-color") != dashboard.looks(plain, "background-color")
    assert seen("purple problem") not in (ink, dashboard.colour("failed"))
    # Late output is grey, also if it has a colour of its own.
    late = page.locator(".line.late")
    expect(late).to_have_text("stdout, late: too late")
    assert dashboard.colour("dim") != ink
    assert {dashboard.looks(late, "color"), seen("too late")} == {dashboard.colour("dim")}
    assert [dashboard.looks(late, "font-style"), dashboard.looks(plain, "font-style")] == ["italic", "normal"]
    assert dashboard.faults == []


def test_times_on_demand_and_the_bytes_as_they_were(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    script = f"{COLOURED.partition('printf')[1]}{COLOURED.partition('printf')[2].partition('trap')[0]}"
    run_id = running.submit(["sh", "-c", script], name="bytes")["run_id"]
    report = running.wait(run_id)
    dashboard = visit(running)
    dashboard.go(f"/runs/{run_id}")
    page = dashboard.page
    times = page.locator(".line time")
    expect(page.locator(".line")).to_have_count(5)
    expect(times).to_have_count(0)
    page.get_by_role("checkbox", name="times").check()
    expect(times).to_have_count(5)
    for one in times.all():
        at = one.get_attribute("datetime") or ""
        assert report["started_at"] <= at <= report["settled_at"]
        assert one.inner_text() == at[11:23]
    page.get_by_role("checkbox", name="times").uncheck()
    expect(times).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == f"{run_id}.log"
    got = download.value.path().read_bytes()
    problem = b"\x1b[35mpurple problem\x1b[0m\n"  # another stream: the page may read it before or after
    assert got.replace(problem, b"", 1) == RAW.encode()
    assert problem in got


def test_following_stays_at_the_end_until_somebody_looks_elsewhere(
    running: Daemon, visit: Callable[..., Dashboard]
) -> None:
    script = 'seq 200; echo ready; while read -r x; do seq 200; echo "part $x"; done'
    run_id = running.submit(["sh", "-c", script], stdin="pipe")["run_id"]
    running.until_output(run_id)
    dashboard = visit(running, height=1600)
    dashboard.go(f"/runs/{run_id}")
    page = dashboard.page
    lines, follow = page.locator(".line"), page.get_by_role("checkbox", name="follow")

    def send(**body: object) -> None:
        assert running.request("POST", f"/v1/runs/{run_id}/input", body).status == 200

    expect(lines.last).to_have_text("ready")
    expect(lines.last).to_be_in_viewport()
    send(text="1\n")
    expect(lines.last).to_have_text("part 1")
    expect(lines.last).to_be_in_viewport()
    expect(follow).to_be_checked()
    page.get_by_role("button", name="Start").click()
    expect(lines.first).to_be_in_viewport()
    expect(follow).not_to_be_checked()
    send(text="2\n")
    expect(lines.last).to_have_text("part 2")  # it still comes
    expect(lines.first).to_be_in_viewport()  # and takes nobody away
    expect(lines.last).not_to_be_in_viewport()
    follow.check()
    expect(lines.last).to_be_in_viewport()
    send(text="", eof=True)
    expect(page.locator(".title")).to_contain_text("succeeded · exit")
