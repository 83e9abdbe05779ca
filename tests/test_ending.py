"""Who may hurry the end of a run: docs/ending.md, through the library, commands, HTTP, sidecar and MCP."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import holdfast

from .cli.console import holdfast as command
from .mcp.serving import over_stdio
from .support.daemons import BOUND_S, daemon
from .support.sidecars import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .support.children import Children
    from .support.daemons import Daemon

LADDER = "USR1:10m,USR2:10m,KILL"
FIRST, SECOND, LAST = int(signal.SIGUSR1), int(signal.SIGUSR2), int(signal.SIGKILL)
SESSION = "s"


def over_library(state: Path, run_id: str, now: bool) -> None:
    async def ask() -> None:
        async with holdfast.Supervisor(state_dir=state) as supervisor:
            run = await supervisor.adopt(run_id)
            await run.cancel(now=now)
        run.close()

    anyio.run(ask)


def over_client(state: Path, run_id: str, now: bool) -> None:
    with holdfast.Client(state_dir=str(state)) as client:
        client.cancel(run_id, now=now)


def over_command(state: Path, run_id: str, now: bool) -> None:
    done = command("cancel", "--no-wait", *(["--now"] if now else []), run_id, "--state-dir", str(state))
    assert (done.returncode, done.stdout.decode()) == (0, f"{run_id}  asked\n"), done


def over_sidecar(state: Path, run_id: str, now: bool) -> None:
    with Host("--state-dir", str(state)) as host:
        host.call("adopt", run_id=run_id)
        host.call("cancel", run_id=run_id, now=now)


def over_mcp(state: Path, run_id: str, now: bool) -> None:
    async def ask() -> None:
        async with over_stdio(state) as call:
            assert not (await call("cancel", run_id=run_id, now=now, wait_s=0)).is_error

    anyio.run(ask)


def over_http(running: Daemon) -> Callable[[Path, str, bool], None]:
    def ask(_state: Path, run_id: str, now: bool) -> None:
        running.cancel(run_id, now=now)

    return ask


DOORS = {
    "library": over_library,
    "client": over_client,
    "command": over_command,
    "sidecar": over_sidecar,
    "mcp": over_mcp,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon(tmp_path_factory.mktemp("ending") / "state") as started:
        yield started


def rungs(running: Daemon, run_id: str) -> list[int]:
    """The signals of the ladder so far, without repetitions of the last."""
    found = [fact["signal"] for fact in running.report(run_id)["evidence"] if fact["fact"] == "signalled"]
    return found[: found.index(LAST) + 1] if LAST in found else found


def asked(running: Daemon, run_id: str) -> int:
    """How many stop requests are on record."""
    return [fact["fact"] for fact in running.report(run_id)["evidence"]].count("stop_asked")


def submitted(running: Daemon, child: Children, **options: Any) -> str:
    report = running.submit(child("reports_signals"), ladder=LADDER, labels={"via": "mcp"}, **options)
    running.until_output(report["run_id"])
    run_id: str = report["run_id"]
    return run_id


@pytest.mark.parametrize("begun_by", ["deadline", "door"])
@pytest.mark.parametrize("door", [*DOORS, "http"])
def test_a_request_joins_and_now_kills(door: str, begun_by: str, running: Daemon, child: Children) -> None:
    ask = DOORS.get(door) or over_http(running)
    run_id = submitted(running, child, **({"timeout_s": 0.3} if begun_by == "deadline" else {}))
    if begun_by == "deadline":
        running.wait(run_id, "verdict")
    for _ in range(2):
        ask(running.state_dir, run_id, False)
    assert asked(running, run_id) == 2
    # Both are a person's on the command line: after a deadline the first joins, and the second is on purpose.
    assert rungs(running, run_id) == ([FIRST, SECOND] if door == "command" else [FIRST])
    ask(running.state_dir, run_id, True)
    running.wait(run_id)
    assert rungs(running, run_id)[-1] == LAST


def test_one_cancel_of_the_command_line_in_the_grace_of_a_deadline(running: Daemon, child: Children) -> None:
    run_id = submitted(running, child, timeout_s=0.3)
    running.wait(run_id, "verdict")
    over_command(running.state_dir, run_id, False)
    assert rungs(running, run_id) == [FIRST]
    running.cancel(run_id, now=True)


@pytest.mark.parametrize("door", ["command", "http", "sidecar"])
def test_closing_a_session_joins(door: str, running: Daemon, child: Children) -> None:
    """Each of them waits for the end, so another asker brings it, by `now`, when the request is on record."""
    session = f"{SESSION}-{door}"
    run_id = submitted(running, child, session=session, timeout_s=0.3)
    running.wait(run_id, "verdict")
    pid = os.fork()
    if pid == 0:
        try:
            if door == "command":
                command("reap", "--session", session, "--state-dir", str(running.state_dir))
            elif door == "http":
                running.request("DELETE", f"/v1/sessions/{session}")
            else:
                with Host("--state-dir", str(running.state_dir)) as host:
                    host.call("session.close", session=session)
        finally:
            os._exit(0)
    while asked(running, run_id) == 0:
        os.sched_yield()
    assert rungs(running, run_id) == [FIRST]
    running.cancel(run_id, now=True)
    report = running.wait(run_id)
    assert (report["status"], report["cause"]) == ("timed_out", "deadline")
    assert os.waitpid(pid, 0)[1] == 0


def test_the_shutdown_of_a_daemon_joins(tmp_path: Path) -> None:
    mark = tmp_path / "saved"
    script = f"trap 'sleep 1; touch {mark}; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    with daemon(tmp_path / "state", "--on-shutdown", "cancel") as stopping:
        run_id = stopping.submit(["sh", "-c", script], grace_s=30)["run_id"]
        stopping.until_output(run_id)
        stopping.cancel(run_id)
        stopping.signal(signal.SIGTERM)
        assert stopping.process.wait(BOUND_S) == 0
    assert mark.exists()
