"""RFC 3339 text of wall-clock times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

import holdfast
from holdfast.values.timestamps import format_timestamp


@pytest.mark.parametrize(
    ("wall_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (999, "1970-01-01T00:00:00.000000Z"),
        (1_782_907_200_000_250_999, "2026-07-01T12:00:00.000250Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_utc_with_microseconds(wall_ns: int, text: str) -> None:
    assert format_timestamp(wall_ns) == text
    assert datetime.fromisoformat(text).timestamp() == pytest.approx(wall_ns / 1e9, abs=1e-5)


def test_the_time_zone_of_the_process_does_not_matter() -> None:
    script = "from holdfast.values.timestamps import format_timestamp; print(format_timestamp(0))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env={**os.environ, "TZ": "Asia/Tokyo"}, capture_output=True, text=True, check=True)
    assert done.stdout == "1970-01-01T00:00:00.000000Z\n"


def test_there_is_no_second_formatter() -> None:
    files = Path(holdfast.__file__).parent.rglob("*.py")
    elsewhere = [path.name for path in files if re.search(r"%Y-%m-%dT|\.isoformat\(", path.read_text("utf-8"))]
    assert elsewhere == ["timestamps.py"]
