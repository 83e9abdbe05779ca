"""The page of runs, and one run, driven in a browser against a real daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from ..support.daemons import Gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..support.daemons import Daemon
    from .driving import Dashboard

SLEEPS = ["sh", "-c", "echo ready; exec sleep 600"]
# Ends with 0, but only after its deadline, and prints something before the end.
TOO_LATE = ["sh", "-c", "trap 'echo saved my work; exit 0' TERM; echo ready; echo careful >&2; sleep 600 & wait"]


def test_a_run_that_succeeds_is_followed_without_asking_again(
    running: Daemon, visit: Callable[..., Dashboard], tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    dashboard = visit(running)
    expect(dashboard.page.get_by_text("No runs yet")).to_be_visible()
    asked = len(dashboard.requests)
    run_id = running.submit(gate.waits(), name="works", timeout_s=600, idle_timeout_s=300, labels={"team": "a"})[
        "run_id"
    ]
    row = dashboard.row(run_id)
    expect(row).to_contain_text("running")
    expect(row.get_by_role("meter", name="Time to the deadline")).to_contain_text("m")
    expect(row.get_by_role("meter", name="Time to the idle limit")).to_be_visible()
    expect(row).to_contain_text("team=a")
    expect(dashboard.page.get_by_role("link", name="1 running")).to_be_visible()
    gate.open()
    expect(row).to_contain_text("succeeded · exit")
    expect(dashboard.page.get_by_role("link", name="0 running")).to_be_visible()
    assert [one for one in dashboard.requests[asked:] if "/v1/runs?" in one] == [], "it polls"
    row.get_by_role("link").click()
    expect(dashboard.page.locator(".moments li.decided")).to_contain_text("the command exited with code 0")
    expect(dashboard.page.get_by_role("log")).to_contain_text("ready")
    assert dashboard.faults == []


def test_a_timeout_stays_one_whatever_the_command_says_later(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    run_id = running.submit(TOO_LATE, name="migrate the database", timeout_s=2, warn_before_s=0.5)["run_id"]
    running.wait(run_id)
    dashboard = visit(running)
    expect(dashboard.row(run_id)).to_contain_text("timed_out · deadline")
    dashboard.row(run_id).get_by_role("link").click()
    page = dashboard.page
    expect(page.locator(".moments li.decided")).to_contain_text("its deadline of 2s passed")
    exited = page.locator(".moments li", has_text="the command exited with code 0")
    expect(exited).to_contain_text("came too late to decide")
    expect(page.locator(".line.late")).to_have_text("stdout, late: saved my work")
    expect(page.locator(".line.stdout:not(.late)")).to_have_text("ready")
    expect(page.locator(".facts")).to_contain_text("timed_out, cause deadline")
    dashboard.picture("run")


def test_cancel_from_the_page(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    run_id = running.submit(SLEEPS, name="unwanted", timeout_s=600)["run_id"]
    running.until_output(run_id)
    dashboard = visit(running)
    dashboard.go(f"/runs/{run_id}")
    page = dashboard.page
    expect(page.get_by_role("heading", name="Process tree now")).to_be_visible()
    expect(page.locator(".processes")).to_contain_text("sleep 600")
    page.get_by_role("button", name="Extend").click()
    page.get_by_role("textbox", name="By how much").fill("1h")
    page.get_by_role("dialog").get_by_role("button", name="Extend").click()
    expect(page.locator(".moments")).to_contain_text("its deadline was moved")
    page.get_by_role("button", name="Copy as command").click()
    expect(page.get_by_role("status").last).to_contain_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == (
        "holdfast run --name unwanted --timeout 600 --ladder TERM:10s,KILL --max-output 1073741824 "
        "--on-max-output roll -- sh -c 'echo ready; exec sleep 600'"
    )
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("textbox", name="Reason").fill("nobody needs it")
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator(".title")).to_contain_text("cancelled · user")
    report = running.wait(run_id)
    assert (report["status"], report["cause"]) == ("cancelled", "user")
    assert "nobody needs it" in report["reason"]


def test_many_are_selected_and_cancelled_and_nested_ones_are_a_tree(
    running: Daemon, visit: Callable[..., Dashboard]
) -> None:
    outer = running.submit(SLEEPS, name="outer", session="bulk")["run_id"]
    inner = running.submit(SLEEPS, name="inner", session="bulk", parent=outer)["run_id"]
    other = running.submit(SLEEPS, name="other")["run_id"]
    for run_id in (outer, inner, other):
        running.until_output(run_id)
    dashboard = visit(running)
    page = dashboard.page
    expect(dashboard.row(inner)).to_contain_text("└")
    dashboard.row(outer).get_by_role("button", name="Hide 1 nested run of outer").click()
    expect(dashboard.row(inner)).to_have_count(0)
    dashboard.row(outer).get_by_role("button", name="Show 1 nested run of outer").click()
    page.get_by_role("combobox", name="session").select_option("bulk")
    expect(dashboard.row(other)).to_have_count(0)
    assert page.url.endswith("#/?session=bulk")
    page.reload()  # the filter in the address comes back
    expect(page.get_by_role("status").first).to_contain_text("2 of 3 runs")
    page.get_by_role("checkbox", name="Select all that are not decided").check()
    page.get_by_role("button", name="Cancel 2", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    expect(dashboard.row(outer)).to_contain_text("cancelled · user")
    expect(dashboard.row(inner)).to_contain_text("cancelled · ")
    assert running.wait(outer)["cause"] == "user"
    assert running.wait(inner)["cause"] in ("user", "parent")  # cancelled by us, and by the end of the outer run
    assert running.report(other)["status"] is None


def test_keys_move_select_and_open(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    for name in ("first", "second"):
        running.wait(running.submit(["true"], name=name)["run_id"])
    dashboard = visit(running)
    page = dashboard.page
    expect(page.get_by_role("row")).to_have_count(3)
    page.locator("[data-row='0']").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-row='1']")).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_role("region", name="Selected runs")).to_contain_text("1 run selected")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("first")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Text")).to_be_focused()
    page.keyboard.type("SECOND")
    expect(page.get_by_role("row")).to_have_count(2)


def test_a_log_is_followed_searched_and_filtered(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    script = "printf '\\033[31mred\\033[0m plain\\n'; echo problem >&2; while read -r x; do echo \"got $x\"; done"
    run_id = running.submit(["sh", "-c", script], name="talks", stdin="pipe")["run_id"]
    dashboard = visit(running)
    dashboard.go(f"/runs/{run_id}")
    page = dashboard.page
    lines = page.locator(".line")
    expect(lines).to_have_count(2)
    expect(page.locator(".line .f-a1")).to_have_text("red")
    expect(page.locator(".line.stderr")).to_contain_text("problem")
    expect(page.locator(".title")).to_contain_text("waiting for input")
    for word in ("apple", "banana", "Apple pie"):
        page.get_by_role("textbox", name="Send input").fill(word)
        page.get_by_role("button", name="Send", exact=True).click()
        expect(lines.last).to_have_text(f"got {word}")
    page.get_by_role("searchbox", name="Search this log").fill("apple")
    expect(page.locator(".found")).to_have_text("2 lines")
    expect(lines).to_have_count(5)  # a search keeps the lines
    expect(page.locator(".line mark")).to_have_count(2)
    page.get_by_role("button", name="Next match").click()
    expect(page.locator(".line.current")).to_have_text("got apple")
    page.get_by_role("checkbox", name="hide other lines").check()
    expect(lines).to_have_count(2)
    page.get_by_role("checkbox", name="hide other lines").uncheck()
    page.get_by_role("checkbox", name="times").check()
    expect(page.locator(".line time").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes().endswith(b"got apple\ngot banana\ngot Apple pie\n")
    page.get_by_role("button", name="End of input").click()
    expect(page.locator(".title")).to_contain_text("succeeded · exit")
    assert dashboard.faults == []


def test_a_large_log_opens_at_its_end_and_is_searched_where_it_is(
    running: Daemon, visit: Callable[..., Dashboard]
) -> None:
    script = (
        "yes 'a line of sixty characters or so, again and again and again' | head -n 200000; echo needle; seq 20000"
    )
    run_id = running.submit(["sh", "-c", script], name="talkative")["run_id"]
    assert running.wait(run_id)["output"]["stdout_bytes"] > 12_000_000
    dashboard = visit(running)
    received: list[int] = []
    dashboard.page.on("requestfinished", lambda one: received.append(one.sizes()["responseBodySize"]))
    dashboard.go(f"/runs/{run_id}")
    page = dashboard.page
    expect(page.locator(".line").last).to_have_text("20000")
    assert sum(received) < 2_000_000, "all of it was loaded"
    page.get_by_role("searchbox", name="Search this log").fill("needle")
    expect(page.locator(".found")).to_have_text("1 line")
    page.get_by_role("button", name="Next match").click()
    expect(page.locator(".line.current")).to_have_text("needle")
    page.get_by_role("button", name="Start").click()
    expect(page.locator(".line").first).to_be_in_viewport()
    assert page.locator(".line").count() < 6000
    assert sum(received) < 4_000_000
