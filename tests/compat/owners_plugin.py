"""A pytest plugin for the owners' suites: our drop-in in the place of the original, and what became of tests.

`HOLDFAST_OWNERS` names the suite, and `HOLDFAST_OWNERS_TOLD` the file that gets one line of JSON.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_passed: set[str] = set()
_failed: dict[str, str] = {}
_skipped: dict[str, str] = {}


def _use_anyio() -> None:
    import anyio

    from holdfast.compat import anyio as ours

    anyio.open_process = ours.open_process
    anyio.run_process = ours.run_process


def _use_trio() -> None:
    import trio

    from holdfast.compat import trio as ours

    trio.run_process = ours.run_process
    trio.lowlevel.open_process = ours.open_process


def pytest_configure() -> None:
    {"anyio": _use_anyio, "trio": _use_trio}[os.environ["HOLDFAST_OWNERS"]]()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.rpartition("::")[2]
    if report.skipped:
        _skipped[name] = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    elif report.failed:
        _failed[name] = report.longreprtext
    elif report.when == "call":
        _passed.add(name)


def pytest_sessionfinish() -> None:
    told = {"passed": sorted(_passed - _failed.keys()), "failed": _failed, "skipped": _skipped}
    Path(os.environ["HOLDFAST_OWNERS_TOLD"]).write_text(json.dumps(told) + "\n")
