"""The fate of runs when calls, clients and servers end."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import anyio
import pytest

from holdfast.state import sessions
from holdfast.state.directory import StateDirectory

from ..cli.console import HOLDFAST, holdfast, read_until, start
from ..support.durable import DurableRun, run_to_end
from ..support.leftovers import open_descriptors
from ..support.processes import wait_exited
from .serving import BOUND_S, HttpServer, in_process, over_stdio, report_of

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.children import Children
    from .serving import Caller

pytestmark = pytest.mark.anyio


async def sleeper(call: Caller, child: Children) -> tuple[str, int]:
    """A run that lives until it is ended, and the process of its command."""
    run_id = (await call("exec", argv=child("exits_on_term", 0), wait_s=0))["run_id"]
    ready = (await call("output", run_id=run_id, wait_s=BOUND_S))["text"]
    return run_id, int(ready.split("pid=")[1].split()[0])


async def test_runs_end_with_the_client_that_started_the_server(tmp_path: Path, child: Children) -> None:
    state = tmp_path / "state"
    async with over_stdio(state) as call:
        run_id, pid = await sleeper(call, child)
        with anyio.move_on_after(0.5) as given_up:
            await call("wait", run_id=run_id)
        assert given_up.cancelled_caught
        assert (await call("poll", run_id=run_id))["state"] == "running"  # the call was cancelled, the run was not
    assert wait_exited(pid)
    report = report_of(state, run_id)
    assert (report["state"], report["status"], report["cause"], report["tree"]) == (
        "settled",
        "cancelled",
        "shutdown",
        "gone",
    )


async def test_runs_end_with_a_server_that_is_killed(tmp_path: Path, child: Children) -> None:
    with HttpServer(tmp_path / "state") as server:
        async with server.client() as call:
            run_id, pid = await sleeper(call, child)
        server.kill()
        assert wait_exited(pid)
    done = holdfast("wait", run_id, "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 143
    report = report_of(tmp_path / "state", run_id)
    assert (report["status"], report["cause"]) == ("cancelled", "owner")


async def test_detached_runs_go_on_and_the_next_server_has_them(tmp_path: Path, child: Children) -> None:
    state = tmp_path / "state"
    async with over_stdio(state, "--detached", "--session", "work") as call:
        run_id, pid = await sleeper(call, child)
        over = await call("exec", command="echo remembered; exit 3")
    assert report_of(state, run_id)["state"] == "running"
    async with over_stdio(state, "--detached", "--session", "work", "--max-runs", "1", mode="legacy") as call:
        assert call.client.protocol_version == "2025-11-25"
        polled = await call("poll", run_id=run_id)
        assert (polled["state"], polled["status"]) == ("running", None)
        assert "1 runs are live" in (await call("exec", argv=["true"])).text
        answer = await call("cancel", run_id=run_id)
        assert (answer.verdict, answer["tree"]) == (("cancelled", "user", 0), "gone")
        again = await call("wait", run_id=over["run_id"])
        assert (again.verdict, again["output"], again.is_error) == (("failed", "exit", 3), "remembered\n", True)
    assert wait_exited(pid)


async def test_a_signal_ends_the_server_though_its_client_stays(tmp_path: Path) -> None:
    server = start("mcp", "--state-dir", str(tmp_path / "state"), stdin=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    # Legacy on purpose: one line in, one line out, and then the server waits for the next.
    server.stdin.write(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        b'"clientInfo":{"name":"test","version":"1"}}}\n'
    )
    server.stdin.flush()
    assert b'"name":"holdfast"' in read_until(server.stdout.fileno(), b"\n")
    server.send_signal(signal.SIGTERM)
    assert await anyio.to_thread.run_sync(server.wait, BOUND_S) == 0  # its stdin is still open
    assert server.communicate() == (b"", b"")


async def test_a_client_that_stops_reading_is_no_disaster(tmp_path: Path) -> None:
    server = start("mcp", "--state-dir", str(tmp_path / "state"), stdin=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdout.close()
    server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 100)
    server.stdin.close()
    assert await anyio.to_thread.run_sync(server.wait, BOUND_S) == 0
    assert server.stderr is not None
    with server.stderr:
        assert server.stderr.read() == b""


def test_nonsense_on_the_wire_is_survived(tmp_path: Path) -> None:
    lines = b"".join((b"\n", b"no json\n", b'{"a":\n', b"[]\n", b"\xff\xfe\n", b"{}\n", b"x" * 100_000 + b"\n"))
    server = start("mcp", "--state-dir", str(tmp_path / "state"), stdin=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(lines + b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n')
    server.stdin.flush()
    read_until(server.stdout.fileno(), b'"id":7,"result":{}')
    server.communicate(timeout=BOUND_S)
    assert server.returncode == 0


async def test_a_closed_session_takes_no_more_runs(tmp_path: Path) -> None:
    state = tmp_path / "state"
    sessions.mark_closed(StateDirectory.open(str(state)), "over")
    async with in_process(state, session="over") as call:
        answer = await call("exec", argv=["true"])
        assert "the session 'over' is closed and takes no more runs" in answer.text
        assert answer.is_error


async def test_runs_of_others_are_not_found(tmp_path: Path) -> None:
    state = tmp_path / "state"
    run_id = run_to_end(StateDirectory.open(str(state)), ["/bin/echo", "private"], session="shared")
    with DurableRun(StateDirectory.open(str(state)), ["sleep", "600"], session="shared") as live:
        async with in_process(state, session="shared") as call:
            for other in (run_id, live.run_id, "", ".", "..", "../runs", "a/b", "\0"):
                for tool in ("poll", "output", "wait", "cancel", "send_input"):
                    assert "there is no run" in (await call(tool, run_id=other)).text
            assert (await call("list", which="all"))["runs"] == []
            assert (await call("exec", argv=["true"]))["status"] == "succeeded"
        # The control: the run exists, and commands on the directory show it.
        assert report_of(state, live.run_id)["state"] in ("starting", "running")
    assert holdfast("logs", run_id, "--state-dir", str(state)).stdout == b"private\n"


async def test_two_servers_do_not_see_each_others_runs(tmp_path: Path, child: Children) -> None:
    state = tmp_path / "state"
    async with over_stdio(state) as one, over_stdio(state) as other:
        run_id, pid = await sleeper(one, child)
        over = (await one("exec", argv=["true"]))["run_id"]
        for tool in ("poll", "output", "wait", "cancel", "send_input"):
            for theirs in (run_id, over):
                assert "there is no run" in (await other(tool, run_id=theirs)).text
        for which in ("live", "all"):
            assert (await other("list", which=which))["runs"] == []
        # The control: its own server finds both.
        assert {run["run_id"] for run in (await one("list", which="all"))["runs"]} == {run_id, over}
        assert (await one("poll", run_id=run_id))["state"] == "running"
        assert (await one("cancel", run_id=run_id))["tree"] == "gone"
    assert wait_exited(pid)


async def test_a_command_cannot_extend_its_own_run(tmp_path: Path) -> None:
    extend = " ".join([*HOLDFAST, "extend", "--state-dir", str(tmp_path / "state"), '"$HOLDFAST_RUN_ID"', "1h"])
    async with over_stdio(tmp_path / "state", "--max-timeout", "5s") as call:
        answer = await call("exec", command=f"{extend} 2>&1; echo rc=$?; exec sleep 600", wait_s=BOUND_S)
    assert "rc=125" in answer["output"]
    assert (answer["status"], answer["cause"]) == ("timed_out", "deadline")
    asked = holdfast("show", "--json", answer["run_id"], "--state-dir", str(tmp_path / "state")).stdout
    assert b'"extended"' not in asked


async def test_descriptors_are_given_back(tmp_path: Path) -> None:
    async with in_process(tmp_path / "state", session="s") as call:
        await call("exec", argv=["true"])
        before = len(open_descriptors())
        ids = [(await call("exec", argv=["true"]))["run_id"] for _ in range(20)]
        for run_id in ids:
            await call("poll", run_id=run_id)
        await call("exec", argv=["true"])
        assert len(open_descriptors()) <= before + 1
