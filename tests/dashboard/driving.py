"""The dashboard as a user has it: one page, its requests, and its errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.web import port_of

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Request

    from ..support.daemons import Daemon

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "dashboard/node_modules/axe-core/axe.min.js"
# The directory for pictures of the pages; the pictures in the documentation come from here.
SCREENSHOTS = Path(os.environ.get("HOLDFAST_SCREENSHOTS", ROOT / "build/screenshots"))


def login_link(running: Daemon) -> str:
    """The link that `holdfast open` prints."""
    command = [sys.executable, "-m", "holdfast.cli.main", "open", "--print", "--state-dir", str(running.state_dir)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Dashboard:
    """An open page. `requests` are the addresses of its requests, `faults` the complaints of the browser."""

    def __init__(self, context: BrowserContext, running: Daemon) -> None:
        self.context = context
        self.running = running
        self.origin = f"http://127.0.0.1:{port_of(running)}"
        self.page = context.new_page()
        self.requests: list[str] = []
        self.faults: list[str] = []
        self.page.on("request", self._asked)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog {dialog.message}"))
        self.page.on("console", self._said)

    def _asked(self, request: Request) -> None:
        self.requests.append(f"{request.method} {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(message.text)

    def login(self) -> None:
        """Open the page by a link of its own."""
        self.page.goto(login_link(self.running))
        self.page.get_by_role("list", name="Counters").wait_for()

    def go(self, path: str) -> None:
        """Go to another page."""
        self.page.goto(f"{self.origin}/#{path}")

    def row(self, run_id: str) -> Locator:
        """The row of a run."""
        return self.page.locator(f'[role=row][data-run="{run_id}"]')

    def fetch(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> int:
        """Send a request as a script of the page would; returns the status."""
        script = """async ([method, path, body, headers]) => (await fetch(path, {method, body, headers})).status"""
        sent = {"content-type": "application/json", **(headers or {})} if body is not None else headers or {}
        found = self.page.evaluate(script, [method, path, None if body is None else json.dumps(body), sent])
        return int(found)

    def looks(self, place: Locator, what: str) -> str:
        """A property of its computed style: what a user really sees."""
        found = place.evaluate("(one, what) => getComputedStyle(one).getPropertyValue(what)", what)
        return str(found)

    def colour(self, name: str) -> str:
        """One of the page's own colours (`--name`) as computed styles have it."""
        script = """(name) => {
          const probe = document.body.appendChild(document.createElement('i'));
          probe.style.color = `var(--${name})`;
          const found = getComputedStyle(probe).color;
          probe.remove();
          return found;
        }"""
        return str(self.page.evaluate(script, name))

    def picture(self, name: str) -> None:
        """Keep a picture of the page."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", animations="disabled")

    def serious_faults(self) -> list[str]:
        """The serious problems that axe-core finds on this page."""
        # A string for the debugger and not a script of the page: the page's policy allows only its own scripts.
        self.page.evaluate(AXE.read_text() + ";0")
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
