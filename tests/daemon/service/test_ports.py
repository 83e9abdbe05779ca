"""The ports of live runs in the daemon's answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...support.daemons import daemon
from ...support.listening import listens
from ...support.readiness import names_in

if TYPE_CHECKING:
    from pathlib import Path


def test_the_ports_of_a_run_are_in_its_report_in_lists_and_in_the_live_numbers(tmp_path: Path) -> None:
    with daemon(tmp_path / "state") as running:
        run_id = running.submit(listens())["run_id"]
        port = names_in(running.until_output(run_id, b"\n"))["port"]
        assert running.report(run_id)["ports"] == [port]
        assert [run["ports"] for run in running.request("GET", "/v1/runs").body["runs"]] == [[port]]
        assert [run["ports"] for run in running.request("GET", "/v1/processes").body["runs"]] == [[port]]
        running.request("POST", f"/v1/runs/{run_id}/cancel", {"now": True})
        assert running.wait(run_id)["ports"] is None
