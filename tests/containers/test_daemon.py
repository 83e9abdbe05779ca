"""Runs of a daemon in containers: a shutdown ends them inside, and a crash of the daemon does not affect them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..cli.console import holdfast as cli
from ..cli.kept_runs import as_json
from ..support.daemons import daemon

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.containers import Container
    from ..support.daemons import Daemon

pytestmark = pytest.mark.root

STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do read -t 60 x; done </dev/ptmx"]


def begun(running: Daemon, container: Container) -> str:
    where = {"in_container": container.name, "container_runtime": container.runtime}
    run_id: str = running.submit(STUBBORN, grace_s=0.1, **where)["run_id"]
    running.until_output(run_id)
    return run_id


def shown(state: Path, run_id: str) -> dict[str, Any]:
    report: dict[str, Any] = as_json(cli("show", "--json", "--state-dir", str(state), run_id))
    return report


def test_a_shutdown_ends_it_inside(container: Container, tmp_path: Path) -> None:
    with daemon(tmp_path / "s", "--drain", "200ms") as running:
        run_id = begun(running, container)
        running.signal()
        assert running.exit_code() == 0
    assert container.is_empty()
    report = shown(tmp_path / "s", run_id)
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "shutdown", "gone")


def test_it_outlives_a_daemon_that_is_killed(container: Container, tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        run_id = begun(running, container)
        running.kill()
    with daemon(tmp_path / "s") as running:
        assert running.report(run_id)["state"] == "running"
        running.cancel(run_id)
        report = running.wait(run_id)
        assert (report["status"], report["containment"], report["tree"]) == ("cancelled", "container", "gone")
    assert container.is_empty()
