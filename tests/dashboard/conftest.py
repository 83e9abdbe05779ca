"""A browser per module, and a page that is logged in to a real daemon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from ..support.daemons import Daemon, daemon
from .driving import Dashboard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = "/usr/bin/chromium"
BOUND_MS = 30_000


@pytest.fixture(scope="session")
def built() -> None:
    """The dashboard, built from its present sources."""
    subprocess.run([sys.executable, ROOT / "hatch_build.py", "dashboard"], check=True, stdout=subprocess.DEVNULL)


# Not for the whole session: while it is open, no other test of this process can have an event loop.
@pytest.fixture(scope="module")
def browser(built: None) -> Iterator[Browser]:  # noqa: ARG001 - pages are served when they are there
    """Debian's chromium."""
    expect.set_options(timeout=BOUND_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def running(tmp_path: Path, built: None) -> Iterator[Daemon]:  # noqa: ARG001
    """A daemon with a TCP listener."""
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", "--max-runs", "8") as started:
        yield started


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Dashboard]]:
    """Open the dashboard of a daemon, logged in: `visit(running)`."""
    opened: list[Dashboard] = []

    def open_page(of: Daemon, *, width: int = 1280, height: int = 800, dark: bool = False) -> Dashboard:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", locale="en-GB"
        )
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened.append(Dashboard(context, of))
        opened[-1].login()
        return opened[-1]

    yield open_page
    for one in opened:
        one.context.close()
