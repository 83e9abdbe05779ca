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
MCP_SESSION = "mcp"  # a server finds the runs of its own session


def over_library(state: Path, run_id: str, **how: Any) -> None:
    async def ask() -> None:
        async with holdfast.Supervisor(state_dir=state) as supervisor:
            run = await supervisor.adopt(run_id)
            await run.cancel(**how)
        run.close()

    anyio.run(ask)


def over_client(state: Path, run_id: str, **how: Any) -> None:
    with holdfast.Client(state_dir=str(state)) as client:
        client.cancel(run_id, **how)


def over_async_client(state: Path, run_id: str, **how: Any) -> None:
    async def ask() -> None:
        async with holdfast.AsyncClient(state_dir=str(state)) as client:
            await client.cancel(run_id, **how)

    anyio.run(ask)


def over_command(state: Path, run_id: str, *, now: bool = False, grace: float | None = None) -> None:
    how = [*(["--now"] if now else []), *([] if grace is None else ["--grace", f"{grace}s"])]
    done = command("cancel", "--no-wait", *how, run_id, "--state-dir", str(state))
    assert (done.returncode, done.stdout.decode()) == (0, f"{run_id}  asked\n"), done


def over_sidecar(state: Path, run_id: str, **how: Any) -> None:
    with Host("--state-dir", str(state)) as host:
        host.call("adopt", run_id=run_id)
        host.call("cancel", run_id=run_id, **as_json(how))


def over_mcp(state: Path, run_id: str, **how: Any) -> None:
    async def ask() -> None:
        async with over_stdio(state, "--session", MCP_SESSION, "--detached") as call:
            assert not (await call("cancel", run_id=run_id, wait_s=0, **as_json(how))).is_error

    anyio.run(ask)


def over_http(running: Daemon) -> Callable[..., None]:
    def ask(_state: Path, run_id: str, **how: Any) -> None:
        running.cancel(run_id, **as_json(how))

    return ask


def as_json(how: dict[str, Any]) -> dict[str, Any]:
    """The names of JSON, which carry the unit."""
    return {"grace_s" if name == "grace" else name: value for name, value in how.items()}


DOORS = {
    "library": over_library,
    "client": over_client,
    "async client": over_async_client,
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


def shortened(running: Daemon, run_id: str) -> list[float]:
    """The graces that requests have shortened the run's to, in seconds."""
    facts = running.report(run_id)["evidence"]
    return [fact["grace_ns"] / 1e9 for fact in facts if fact["fact"] == "grace_shortened"]


def asked(running: Daemon, run_id: str) -> int:
    """How many stop requests are on record."""
    return [fact["fact"] for fact in running.report(run_id)["evidence"]].count("stop_asked")


def submitted(running: Daemon, child: Children, **options: Any) -> str:
    found = {"labels": {"via": "mcp"}, "session": MCP_SESSION}
    report = running.submit(child("reports_signals"), ladder=LADDER, **{**found, **options})
    running.until_output(report["run_id"])
    run_id: str = report["run_id"]
    return run_id


@pytest.mark.parametrize("begun_by", ["deadline", "door"])
@pytest.mark.parametrize("door", [*DOORS, "http"])
def test_a_request_joins_and_now_kills(door: str, begun_by: str, running: Daemon, child: Children) -> None:
    ask = DOORS.get(door) or over_http(running)
    run_id = submitted(running, child, **({"timeout_s": 1} if begun_by == "deadline" else {}))
    if begun_by == "deadline":
        running.wait(run_id, "verdict")
    for _ in range(2):
        ask(running.state_dir, run_id)
    assert asked(running, run_id) == 2
    # Both are a person's on the command line: after a deadline the first joins, and the second is on purpose.
    assert rungs(running, run_id) == ([FIRST, SECOND] if door == "command" else [FIRST])
    ask(running.state_dir, run_id, now=True)
    running.wait(run_id)
    assert rungs(running, run_id)[-1] == LAST


@pytest.mark.parametrize("begun_by", ["deadline", "door"])
@pytest.mark.parametrize("door", [*DOORS, "http"])
def test_a_shorter_grace_shortens_and_a_longer_one_does_not(
    door: str, begun_by: str, running: Daemon, child: Children
) -> None:
    ask = DOORS.get(door) or over_http(running)
    run_id = submitted(running, child, **({"timeout_s": 1} if begun_by == "deadline" else {}))
    if begun_by == "deadline":
        running.wait(run_id, "verdict")
    ask(running.state_dir, run_id, grace=7200)
    assert (rungs(running, run_id), shortened(running, run_id)) == ([FIRST], []), "the control"
    ask(running.state_dir, run_id, grace=0.2)
    running.wait(run_id)
    # On the command line the second request is a person's on purpose: it climbs, too.
    assert rungs(running, run_id) == ([FIRST, SECOND, LAST] if door == "command" else [FIRST, LAST])
    assert shortened(running, run_id) == [0.2]
    why = command("why", run_id, "--state-dir", str(running.state_dir)).stdout.decode()
    assert "shortened its grace to 200ms" in why


def test_one_cancel_of_the_command_line_in_the_grace_of_a_deadline(running: Daemon, child: Children) -> None:
    run_id = submitted(running, child, timeout_s=1)
    running.wait(run_id, "verdict")
    over_command(running.state_dir, run_id)
    assert rungs(running, run_id) == [FIRST]
    running.cancel(run_id, now=True)


@pytest.mark.parametrize("door", ["command", "http", "sidecar"])
def test_closing_a_session_joins(door: str, running: Daemon, child: Children) -> None:
    """Each of them waits for the end, so another asker brings it, by `now`, when the request is on record."""
    session = f"{SESSION}-{door}"
    run_id = submitted(running, child, session=session, timeout_s=1)
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


@pytest.mark.parametrize("door", ["command", "http", "client", "sidecar"])
def test_closing_a_session_with_a_shorter_grace(door: str, running: Daemon, child: Children) -> None:
    session, state = f"{SESSION}-short-{door}", str(running.state_dir)
    run_id = submitted(running, child, session=session, timeout_s=1)
    running.wait(run_id, "verdict")
    if door == "command":
        assert command("reap", "--session", session, "--grace", "200ms", "--state-dir", state).returncode == 0
    elif door == "http":
        running.request("DELETE", f"/v1/sessions/{session}?grace_s=0.2")
    elif door == "client":
        with holdfast.Client(state_dir=state) as client:
            client.close_session(session, grace=0.2)
    else:
        with Host("--state-dir", state) as host:
            host.call("session.close", session=session, grace_s=0.2)
    assert running.wait(run_id)["cause"] == "deadline"
    assert (rungs(running, run_id), shortened(running, run_id)) == ([FIRST, LAST], [0.2])


@pytest.mark.anyio
@pytest.mark.parametrize("is_ending", [False, True])
@pytest.mark.parametrize("grace", [0.2, None])
async def test_leaving_a_supervisor_with_a_grace_of_its_own(
    grace: float | None, is_ending: bool, child: Children
) -> None:
    """Without one, which is the control, the run gets its own."""
    async with holdfast.Supervisor(shutdown_grace=grace) as supervisor:
        run = await supervisor.start(child("reports_signals"), ladder="USR1:1s,KILL")
        async for _ in run.output():
            break
        if is_ending:
            await run.cancel()
    facts = [fact.detail["grace_ns"] for fact in run.facts if fact.kind == "grace_shortened"]
    assert facts == ([] if grace is None else [round(grace * 1e9)])
    run.close()


def test_a_wrong_shutdown_grace() -> None:
    with pytest.raises(holdfast.SpecError, match="shutdown_grace must not be negative"):
        holdfast.Supervisor(shutdown_grace=-1)


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
