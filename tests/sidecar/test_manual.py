"""The manual's program prints what the page says, and its tables name everything in the schema."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from holdfast.sidecar.schema import schema

PAGE = (Path(__file__).parents[2] / "docs" / "sidecar.md").read_text()
BOUND_S = 60


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    expected = re.findall(r"print\(.*\)  # (.*)$", program, re.MULTILINE)
    place = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOLDFAST_STATE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **place},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (expected, "", 0)
    assert len(expected) == 5


def test_the_page_has_every_method_and_every_code() -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    for method in schema()["methods"]:
        assert f"`{method}`" in rows, method
    for notification in schema()["notifications"]:
        assert f"`{notification}`" in PAGE
    for code in schema()["errors"]:
        assert code in rows, code
