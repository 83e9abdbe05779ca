"""Strict runs (HOLDFAST_STRICT=1): a skipped test is a failed test, unless its reason begins with "allowed:"."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ALLOWED = "allowed:"


def is_strict() -> bool:
    """Whether this run treats skips as failures."""
    return os.environ.get("HOLDFAST_STRICT", "") not in ("", "0")


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip without permission into a failure that says so; expected failures are no skips."""
    if not is_strict() or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"skipped in a strict run: {reason}"
