"""The published table: every requested row and peer is in it, and `docs/` shows a whole run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conformance.expectation import Finding, Seen
from conformance.peers import PEERS, REASONS
from conformance.row import Row
from conformance.rows import ROWS

from conformance import cell

DOCS = Path(__file__).resolve().parents[2] / "docs"
WAYS = {
    "holdfast run", "holdfast.run", "Supervisor", "subprocess.run", "asyncio", "anyio", "trio", "psutil", "timeout -k",
    "child_process", "execa", "Go os/exec", "bubblewrap", "supervisord", "pm2", "systemd-run",
}  # fmt: skip
# Rows that depend on chance repeat the chance inside the row, or are repeated.
RACY = {"storm", "forks-on-term", "stop-and-continue", "no-such-directory"}


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "conformance.json").read_text())
    return found


def test_every_way_to_run_a_process_that_was_asked_for_is_a_column() -> None:
    assert {peer.name for peer in PEERS} == WAYS


def test_the_published_table_is_of_every_row_and_every_peer(published: dict[str, Any]) -> None:
    assert [row["name"] for row in published["rows"]] == [row.name for row in ROWS]
    assert [peer["name"] for peer in published["peers"]] == [peer.name for peer in PEERS]
    for row in ROWS:
        assert set(published["cells"][row.name]) == WAYS, row.name


def test_holdfast_holds_every_published_row_it_can_run(published: dict[str, Any]) -> None:
    for row in ROWS:
        for peer in PEERS:
            if peer.ours:
                found = published["cells"][row.name][peer.name]
                cannot = peer.lacks.intersection(row.needs)
                assert found["verdict"] == ("not applicable" if cannot else "held"), (row.name, peer.name)


def test_no_published_cell_is_without_a_verdict_or_a_reason(published: dict[str, Any]) -> None:
    for name, cells in published["cells"].items():
        for peer, found in cells.items():
            match found["verdict"]:
                case "held":
                    assert found["findings"] == [], (name, peer)
                case "failed":
                    assert found["findings"], (name, peer)
                case "absent":
                    assert found["reason"], (name, peer)
                case "not applicable":
                    assert any(words in found["reason"] for words in REASONS.values()), (name, peer)
                case _:
                    pytest.fail(f"{name} with {peer}: {found}")


def test_an_absent_peer_is_absent_in_every_row(published: dict[str, Any]) -> None:
    for peer in published["peers"]:
        verdicts = {cells[peer["name"]]["verdict"] for cells in published["cells"].values()}
        assert (peer["version"] is None) == (verdicts == {"absent"}), peer["name"]
        assert verdicts == {"absent"} or "absent" not in verdicts, peer["name"]


def test_the_published_page_is_made_from_its_results(tmp_path: Path) -> None:
    (tmp_path / "conformance.json").write_bytes((DOCS / "conformance.json").read_bytes())
    command = [sys.executable, "-m", "conformance", "--page-only", "--output", str(tmp_path)]
    subprocess.run(command, cwd=DOCS.parent, check=True, capture_output=True)
    for name in ("conformance.md", "conformance/heatmap.svg"):
        assert (tmp_path / name).read_text() == (DOCS / name).read_text(), name


@pytest.mark.parametrize("fails_at", [1, 3, None])
def test_a_racy_row_is_repeated_until_something_is_found(fails_at: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {row.name for row in ROWS if row.repeats > 1} == RACY
    racy = next(row for row in ROWS if row.name == "storm")
    watched: list[Row] = []

    def watch(row: Row, *_: object) -> Seen:
        watched.append(row)
        return Seen([], [], [], False, 10)

    def judge(*_: object) -> list[Finding]:
        return [Finding("left", "somebody")] if len(watched) == fails_at else []

    monkeypatch.setattr(cell, "become_subreaper", lambda: None)
    monkeypatch.setattr(cell, "_watch", watch)
    monkeypatch.setattr(cell, "judge", judge)
    monkeypatch.setattr(cell, "_REPEATING_S", 3600.0)
    found = cell.run_cell(racy, PEERS[0])
    assert found["verdict"] == ("held" if fails_at is None else "failed")
    assert len(watched) == (fails_at or racy.repeats)
