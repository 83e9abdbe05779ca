"""A few cells, started as a user does: results exist, the peers differ, and the page is made from them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = ("daemon-left", "supervisor-killed", "exit-codes", "dots")
PEERS = ("holdfast.run", "subprocess.run", "systemd-run")

pytestmark = pytest.mark.xdist_group("conformance")  # one worker measures for all of them


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """One run of a part of the pack; nothing is installed for it."""
    directory = tmp_path_factory.mktemp("conformance")
    chosen = [word for name in ROWS for word in ("--row", name)] + [word for name in PEERS for word in ("--peer", name)]
    command = [sys.executable, "-m", "conformance", "--no-install", *chosen, "--output", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((directory / "conformance.json").read_text()), directory


@pytest.mark.alone
@pytest.mark.slow
def test_holdfast_holds_what_it_can_run(measured: tuple[dict[str, Any], Path]) -> None:
    for row in ROWS:
        assert measured[0]["cells"][row]["holdfast.run"]["verdict"] == "held", row


@pytest.mark.slow
def test_control_the_oracle_sees_what_a_peer_leaves(measured: tuple[dict[str, Any], Path]) -> None:
    for row in ("daemon-left", "supervisor-killed"):
        cell = measured[0]["cells"][row]["subprocess.run"]
        assert cell["verdict"] == "failed", row
        assert [finding["aspect"] for finding in cell["findings"]] == ["left"]
    assert measured[0]["cells"]["exit-codes"]["subprocess.run"]["verdict"] == "held", "and only that"


@pytest.mark.slow
def test_what_cannot_be_run_is_said_and_not_failed(measured: tuple[dict[str, Any], Path]) -> None:
    cells = measured[0]["cells"]
    assert cells["dots"]["subprocess.run"] == {"verdict": "not applicable", "reason": "no idle timeout"}
    if not Path("/run/systemd/system").is_dir():
        assert {found["systemd-run"]["verdict"] for found in cells.values()} == {"absent"}


@pytest.mark.slow
def test_the_page_and_the_heat_map_show_it(measured: tuple[dict[str, Any], Path]) -> None:
    text = (measured[1] / "conformance.md").read_text()
    assert "Holdfast holds 4 of 4 as `holdfast.run`." in text
    assert "one left alive (daemonises)" in text
    drawing = measured[1] / "conformance" / "heatmap.svg"
    assert "conformance/heatmap.svg" in text
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")
    assert drawing.read_text().count("<title>") == len(ROWS) * len(PEERS)


def test_an_unknown_row_is_an_error_that_names_the_known_ones() -> None:
    command = [sys.executable, "-m", "conformance", "--row", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "ignores-term" in done.stderr
