"""The page's sources against the types of the API, which are made from the daemon's own description of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from .driving import ROOT

if TYPE_CHECKING:
    import pytest


def test_the_page_asks_for_what_there_is(built: None, capfd: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    subprocess.run([ROOT / "clients/typescript/scripts/build", sys.executable], check=True)
    compiler = ROOT / "dashboard/node_modules/typescript/bin/tsc"
    done = subprocess.run(["node", compiler, "--project", "tsconfig.json"], cwd=ROOT / "dashboard", check=False)
    assert done.returncode == 0, capfd.readouterr().out
