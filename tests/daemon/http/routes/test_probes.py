"""Probes on a real daemon: one bit for everybody, and the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ....support.daemons import Daemon, Gate, daemon
from ....support.web import fetch, port_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard
LISTEN = ("--listen", "127.0.0.1:0")


def probed(running: Daemon) -> tuple[int, int]:
    """The statuses of both probes, asked over TCP without a token; neither answer has a detail."""
    port = port_of(running)
    live, ready = fetch(port, "/livez"), fetch(port, "/readyz")
    assert live.body == b"ok\n"
    if ready.status == 200:
        assert ready.body == b"ok\n"
    else:
        assert ready.json.keys() == {"type", "title", "status"}
        assert ready.json["type"].endswith(":not-ready")
        assert "retry-after" in ready.headers
    return live.status, ready.status


def test_a_daemon_that_takes_runs_is_live_and_ready_for_everybody(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *LISTEN) as running:
        assert probed(running) == (200, 200)
        port = port_of(running)
        assert fetch(port, "/readyz", method="HEAD").status == 200
        # Controls: everything else needs the token, and a page of another site gets nothing.
        assert fetch(port, "/v1/health").status == 401
        assert fetch(port, "/livez/").status == 401
        assert fetch(port, "/livez", method="POST").status == 405
        assert fetch(port, "/readyz", headers={"Host": "attacker.example"}).status == 403


def test_a_disk_below_its_floor_is_not_ready(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *LISTEN, "--disk-floor", "1000000G") as running:
        assert probed(running) == (200, 503)
        assert running.request("GET", "/v1/health").body["status"] == "degraded"  # which says why, to its owner


def test_a_draining_daemon_is_live_and_not_ready(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state", *LISTEN) as running:
        running.until_output(running.submit(gate.waits())["run_id"])
        running.signal()
        running.until_line("^draining")
        assert probed(running) == (200, 503)
        gate.open()
        assert running.exit_code() == 0


def test_a_crowd_of_strangers_does_not_take_it_out_of_service(tmp_path: Path) -> None:
    from ...test_strangers import strangers, until_health

    with daemon(tmp_path / "state", *LISTEN, "--max-connections", "20") as running, strangers(running, 40):
        assert until_health(running, "degraded")
        assert fetch(running, "/readyz").status == 200
