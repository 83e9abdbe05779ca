"""The page and its daemon: logging in, losing the daemon, a drain; and attacks of hostile runs on the page."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, expect

from ..support.daemons import Gate, daemon
from ..support.web import fetch, port_of
from .driving import Dashboard, login_link

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.daemons import Daemon

FIRST_LOAD = 150_000


def test_the_first_load_is_small_and_strict(running: Daemon) -> None:
    port = port_of(running)
    page = fetch(port, "/", headers={"Accept-Encoding": "gzip"})
    assert page.status == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    sizes = [len(page.body)]
    for path in ("/static/app.js", "/static/app.css", "/static/icon.svg"):
        answer = fetch(port, path, headers={"Accept-Encoding": "gzip"})
        assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
        assert fetch(port, path, headers={"If-None-Match": answer.headers["etag"]}).status == 304
        sizes.append(len(answer.body))
    assert sum(sizes) < FIRST_LOAD, sizes
    assert fetch(port, "/static/../pages.py").status in (401, 404)
    assert fetch(port, "/v1/health").status == 401


def test_a_link_logs_in_once_and_actions_need_the_csrf_token(running: Daemon, browser: Browser) -> None:
    context = browser.new_context()
    dashboard = Dashboard(context, running)
    page = dashboard.page
    page.goto(dashboard.origin)
    expect(page.get_by_text("holdfast open")).to_be_visible()
    dashboard.picture("login")
    link = login_link(running)
    page.goto(link)  # only the part behind `#` changes: the page itself posts the code
    expect(page.get_by_role("list", name="Counters")).to_be_visible()
    page.reload()
    expect(page.get_by_role("list", name="Counters")).to_be_visible()
    assert "login" not in page.url
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert page.evaluate("document.cookie") == ""
    run_id = running.submit(["sleep", "600"])["run_id"]
    # The session is not enough: a form or script from another site would have it, too.
    assert dashboard.fetch("GET", f"/v1/runs/{run_id}") == 200
    assert dashboard.fetch("POST", f"/v1/runs/{run_id}/cancel", {}) == 403
    assert dashboard.fetch("POST", f"/v1/runs/{run_id}/cancel", {}, {"holdfast-csrf": "0" * 64}) == 403
    assert dashboard.fetch("POST", "/v1/login-links", {}) == 403
    # Nor does it lead to the second secret: a server on another port gets the cookie, but not the page's storage.
    stolen = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    port = port_of(running)
    assert fetch(port, "/v1/login/session", headers=stolen).json == {"by": "session", "csrf": None}
    csrf = page.evaluate("localStorage.getItem('holdfast-csrf')")
    assert dashboard.fetch("POST", f"/v1/runs/{run_id}/cancel", {}, {"holdfast-csrf": csrf}) == 200
    second = context.new_page()  # another tab has it, too
    second.goto(dashboard.origin)
    expect(second.get_by_role("list", name="Counters")).to_be_visible()
    second.close()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("holdfast open")).to_be_visible()
    assert page.evaluate("localStorage.getItem('holdfast-csrf')") is None
    both = {**stolen, "Holdfast-CSRF": csrf, "Content-Type": "application/json"}
    assert fetch(port, "/v1/runs", headers=stolen).status == 401
    assert fetch(port, f"/v1/runs/{run_id}/cancel", method="POST", body=b"{}", headers=both).status == 401
    page.goto(link)
    page.reload()
    expect(page.get_by_text("holdfast open")).to_be_visible()
    assert {one.split(" ")[1].split("/")[2] for one in dashboard.requests} == {dashboard.origin.split("/")[2]}
    context.close()


@pytest.mark.parametrize("only", [False, True], ids=["opened", "printed"])
def test_open_prints_the_link_and_opens_it(running: Daemon, tmp_path: Path, *, only: bool) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{seen}"\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "holdfast.cli.main", "open", "--state-dir", str(running.state_dir)]
    command += ["--print"] if only else []
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert told.stdout.startswith(f"http://127.0.0.1:{port_of(running)}/#login=")
    assert told.stderr == ""
    assert seen.exists() is not only
    if only:
        return
    # Every user can read the command line of the browser: it has the name of a file, and not the code.
    link = told.stdout.strip()
    page = Path(seen.read_text().removeprefix("file://"))
    assert link.partition("#login=")[2] not in seen.read_text()
    assert (page.parent, stat.S_IMODE(page.stat().st_mode)) == (running.state_dir, 0o600)
    assert link in page.read_text()
    os.utime(page, (0, 0))
    subprocess.run(command, check=True, capture_output=True, env=environment)
    assert not page.exists()  # the code has expired, so the next link removes its page


def test_it_comes_back_after_the_daemon_was_killed(
    tmp_path: Path,
    visit: Callable[..., Dashboard],
    built: None,  # noqa: ARG001
) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as first:
        run_id = first.submit(gate.waits(), name="goes on")["run_id"]
        first.until_output(run_id)
        dashboard = visit(first)
        page, port = dashboard.page, port_of(first)
        expect(dashboard.row(run_id)).to_contain_text("running")
        first.kill()
        expect(page.get_by_role("alert")).to_contain_text("The daemon is gone")
        dashboard.picture("gone")
        gate.open()  # the run ends while there is no daemon
    with daemon(tmp_path / "state", "--listen", f"127.0.0.1:{port}") as second:
        expect(dashboard.row(run_id)).to_contain_text("succeeded · exit")
        expect(page.get_by_role("alert")).to_have_count(0)
        later = second.submit(["true"], name="later")["run_id"]
        expect(dashboard.row(later)).to_contain_text("succeeded · exit")
        second.wait(later)


def test_the_drain_is_seen(running: Daemon, visit: Callable[..., Dashboard], tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = running.submit(gate.waits(), name="last one")["run_id"]
    running.until_output(run_id)
    dashboard = visit(running)
    expect(dashboard.row(run_id)).to_contain_text("running")
    running.signal(signal.SIGTERM)
    banner = dashboard.page.get_by_role("alert")
    expect(banner).to_contain_text("The daemon is shutting down")
    expect(banner).to_contain_text("left, then what still runs is cancelled")
    expect(banner.get_by_role("link", name="last one")).to_be_visible()
    dashboard.picture("draining")
    dashboard.page.reload()  # a browser that comes now sees it as well
    expect(banner).to_contain_text("left, then what still runs is cancelled")
    gate.open()
    assert running.exit_code() == 0
    expect(banner).to_contain_text("The daemon has stopped")


ATTACK = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def test_nothing_a_run_says_is_taken_for_markup_or_escapes(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    escape = "\\033]0;stolen title\\007\\033[2J\\033]8;;javascript:alert(1)\\007link\\033]8;;\\007\\033[31m"
    script = f"printf '%s\\n' \"$0\"; printf '{escape}x\\033[0m\\n'; printf '\\342\\200\\256gnp.exe\\n'; exec sleep 600"
    report = running.submit(
        ["sh", "-c", script, ATTACK], name=ATTACK, labels={"note": ATTACK}, session=ATTACK.replace("/", "\\")
    )
    run_id = report["run_id"]
    running.until_output(run_id, b"gnp")
    dashboard = visit(running)
    page = dashboard.page
    expect(dashboard.row(run_id)).to_contain_text(ATTACK)
    running.cancel(run_id, reason=ATTACK + "\x1b[31m\u202e", now=True)
    running.wait(run_id)
    expect(dashboard.row(run_id)).to_contain_text("cancelled · user")
    for path, place in (
        (f"/runs/{run_id}", ".lines"),
        ("/history?q=hacked", ".matches"),
        ("/sessions", ".scroll table"),
        ("/history", ".scroll table"),
    ):
        dashboard.go(path)
        expect(page.locator(place)).to_contain_text("window.hacked=1")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img[src=x]").count() == 0
        text = page.locator("body").inner_text()
        assert not [one for one in ("\x1b", "\x07", "\u202e") if one in text]
    dashboard.go(f"/runs/{run_id}")
    expect(page.locator(".line").nth(1)).to_have_text("linkx")
    expect(page.locator(".line").nth(2)).to_have_text("\\u202egnp.exe")
    assert page.locator(".lines a").count() == 0
    # If the page ever made markup from text, the browser would refuse it.
    attempt = (
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'made'; } catch (error) { return 'refused'; } })()"
    )
    assert page.evaluate(attempt) == "refused"
    dashboard.faults = [fault for fault in dashboard.faults if "TrustedHTML" not in fault]
    assert page.title().startswith("<img")
    assert dashboard.faults == []


@pytest.fixture
def furnished(running: Daemon, tmp_path: Path) -> Daemon:
    """A daemon with some runs of every kind."""
    gate = Gate(tmp_path / "gate")
    busy = 'i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo "step $i: compiling module $i"; done; '
    agent = running.submit(
        ["sh", "-c", f"{busy} echo ready; exec sleep 600"],
        name="claude: fix the flaky test",
        session="nightly",
        timeout_s=900,
        idle_timeout_s=120,
        labels={"repo": "api"},
    )["run_id"]
    tool = running.submit(
        ["sh", "-c", "echo ready; exec sleep 600"], name="pytest -x", parent=agent, session="nightly", timeout_s=60
    )
    reader = running.submit(["sh", "-c", "echo ready; read -r x"], name="asks a question", stdin="pipe", timeout_s=300)
    for run_id in (agent, tool["run_id"], reader["run_id"]):
        running.until_output(run_id)
    ended = [
        running.submit(["sh", "-c", "echo done"], name="lint", session="ci"),
        running.submit(["sh", "-c", "echo 'assertion failed' >&2; exit 3"], name="unit tests", session="ci"),
        running.submit(["sh", "-c", 'echo ready; read -r _ < "$0"', str(gate.path)], name="hangs", timeout_s=0.2),
        running.submit(["no-such-command"], name="typo"),
    ]
    for report in ended:
        running.wait(report["run_id"])
    return running


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_is_accessible_and_can_be_looked_at(
    furnished: Daemon, visit: Callable[..., Dashboard], dark: bool
) -> None:
    dashboard = visit(furnished, dark=dark, height=720)
    page = dashboard.page
    suffix = "-dark" if dark else ""
    expect(page.get_by_role("row")).to_have_count(8)
    expect(page.get_by_role("link", name="1 waiting for input")).to_be_visible()
    expect(page.locator(".c-number", has_text="%").first).to_be_visible()
    pages = {"runs": "/", "sessions": "/sessions", "history": "/history", "hosts": "/hosts", "doctor": "/doctor"}
    signs = {
        "runs": "[role=row] .bar",
        "sessions": "tbody tr",
        "history": ".u-legend",
        "hosts": "tbody tr",
        "doctor": ".findings li",
    }
    for name, path in pages.items():
        dashboard.go(path)
        expect(page.locator(signs[name]).first).to_be_visible()
        assert dashboard.serious_faults() == [], name
        dashboard.picture(f"{name}{suffix}")
    dashboard.go("/")
    page.get_by_role("link", name="claude: fix the flaky test").click()
    expect(page.locator(".processes")).to_contain_text("sleep 600")
    expect(page.locator(".line").last).to_have_text("ready")
    assert dashboard.serious_faults() == []
    dashboard.picture(f"live{suffix}")
    page.set_viewport_size({"width": 390, "height": 800})
    dashboard.go("/")
    expect(page.locator("[role=row] .bar").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert dashboard.serious_faults() == []
    dashboard.picture(f"narrow{suffix}")
    assert dashboard.faults == []


def test_the_hosts_are_shown_with_their_runs(running: Daemon, visit: Callable[..., Dashboard]) -> None:
    running.submit(["sleep", "1000"], name="far away", timeout_s=1000)
    dashboard = visit(running)
    dashboard.page.get_by_role("link", name="Hosts").click()
    row = dashboard.page.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(os.uname().nodename)
    expect(row).to_contain_text("alive")
    row.get_by_role("link", name="far away").click()
    expect(dashboard.page.get_by_role("heading", name="far away")).to_be_visible()
    assert dashboard.faults == []


def test_the_doctor_shows_what_it_would_do_and_a_session_is_closed(
    furnished: Daemon, visit: Callable[..., Dashboard]
) -> None:
    dashboard = visit(furnished)
    page = dashboard.page
    dashboard.go("/doctor")
    page.get_by_role("button", name="Reap: dry run").click()
    expect(page.get_by_role("region", name="Dry run")).to_be_visible()
    dashboard.go("/sessions")
    page.get_by_role("button", name="Close nightly").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Its 2 runs end now")
    expect(dialog).to_contain_text("until somebody opens it again")
    expect(dialog).to_contain_text("it refuses every new run")
    dialog.get_by_role("button", name="Close session").click()
    expect(page.get_by_role("status").last).to_contain_text("2 runs confirmed gone")
    expect(page.locator("tr", has_text="nightly")).to_contain_text("closed")
    page.get_by_role("button", name="Open nightly again").click()
    expect(page.get_by_role("status").last).to_contain_text("Session nightly takes runs again")
    expect(page.locator("tr", has_text="nightly")).to_contain_text("open")
    expect(page.get_by_role("button", name="Close nightly")).to_be_visible()
    dashboard.go("/history?q=assertion")
    expect(page.locator(".matches li")).to_have_count(1)
    expect(page.locator(".matches")).to_contain_text("unit tests")
