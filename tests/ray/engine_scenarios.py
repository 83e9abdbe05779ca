"""What must hold for the daemon on a Ray cluster: the contract of engines, and a daemon that is killed.

Each scenario is a coroutine function of `Rig`; `cluster_program` runs them after the others, on the same cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import ray
from ray.exceptions import RpcError
from ray.experimental import internal_kv

from holdfast.daemon.engines.engine import LocalEngine, Needs, NoRoomError
from holdfast.daemon.process.log import Log
from holdfast.daemon.ray_engine.ray_engine import RayEngine
from holdfast.ray import bindings
from holdfast.runs.supervisor import Supervisor
from holdfast.state.directory import StateDirectory
from holdfast.state.elsewhere import HostNote, read_note, write_note
from holdfast.state.index.summary import read_summary
from holdfast.values.spec import make_spec, public_spec
from tests.daemon.engines.contract import PROMISES, EngineRig, output, start, until_written

from .cable import cable_to_second
from .scenarios import LEASE_S, TREE, is_alive, ready_line, touch, until, with_refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.daemon.engines.engine import Engine, EngineRun

    from .scenarios import Rig

CONTRACT = "contract: "


def engine_rig(rig: Rig) -> EngineRig:
    """An engine on the cluster, whose head has a state directory of its own."""
    state = StateDirectory.open(f"{rig.state_dir}-head")

    @asynccontextmanager
    async def opened() -> AsyncIterator[Engine]:
        local, remote = Supervisor(state_dir=state.path, disk_floor="none"), rig.supervisor()
        async with local, remote:
            engine = RayEngine(state, remote, LocalEngine(local), Log("text"))
            try:
                yield engine
            finally:
                await engine.close()

    return EngineRig(state, opened, Path(rig.state_dir))


def _on_ray(promise: Callable[[EngineRig], Awaitable[None]]) -> Callable[[Rig], Awaitable[None]]:
    async def scenario(rig: Rig) -> None:
        await promise(engine_rig(rig))

    return scenario


# A node that is cut off from the head.


async def a_partition_that_heals_in_time_changes_nothing(rig: Rig) -> None:
    heads, go = engine_rig(rig), f"{rig.state_dir}/go-healed"
    script = f"echo begun; while ! test -e {go}; do sleep 0.05; done; seq 20000; exit 6"
    with cable_to_second(rig) as cable:
        async with heads.open() as engine:
            run = await start(engine, "sh", "-c", script, needs=Needs(host=rig.second_id))
            await until_written(heads, run, b"begun\n")
            cable.plugged.clear()
            touch(go)  # it ends while nobody can ask
            await cable.missed.wait()
            cable.plugged.set()
            assert (await run.wait()).exit_code == 6
            assert (await run.settled())["output"]["complete"]
            run.close()
    assert output(heads, run.run_id) == b"begun\n" + b"".join(b"%d\n" % number for number in range(1, 20001))


async def a_node_that_was_cut_off_for_too_long_keeps_none_of_its_runs_and_all_of_the_next(rig: Rig) -> None:
    """The node ends its run itself. The verdict stays, and what the node starts later is not ended for it."""
    heads = engine_rig(rig)
    there = Needs(host=rig.second_id)
    with cable_to_second(rig) as cable:
        async with heads.open() as engine:
            run = await start(engine, "sh", "-c", TREE, needs=there, grace=0.2)
            await until_written(heads, run, b"\n")
            pid = int(output(heads, run.run_id))
            note = read_note(heads.state, run.run_id)
            cable.plugged.clear()
            report = await run.settled()
            assert (report["status"], report["cause"]) == ("lost", "host")
            await until(lambda: not is_alive(pid))  # the node still reaches the store: the new epoch is enough
            assert run.outcome.started is not None
            cable.plugged.set()
            epoch = await asyncio.to_thread(bindings.read_epoch, rig.second_id)
            async with rig.supervisor() as another:  # which does not know that the node was lost
                newer = await another.start(["sh", "-c", "echo newer; exec sleep 1000"], host=rig.second_id, grace=0.2)
                assert await ready_line(newer) == b"newer\n"
                # A daemon that was killed may have left a note of a request to this node, from before the cut.
                assert note is not None
                write_note(heads.state, "asked-before", note)
                old = await engine.adopt("asked-before")
                assert (old.report["status"], old.report["cause"]) == ("lost", "host")
                assert await asyncio.to_thread(bindings.read_epoch, rig.second_id) == epoch
                assert newer.status is None
            with pytest.raises(NoRoomError):
                await start(engine, "true", needs=there)
            again = await start_when_there_is_room(engine, there)  # when the lease of the lost node is over
            assert (await again.wait()).status == "succeeded"
            await again.settled()
            for ended in (run, old, again):
                ended.close()
    assert (await asyncio.to_thread(read, heads, run.run_id))["status"] == "lost"


async def start_when_there_is_room(engine: Engine, needs: Needs) -> EngineRun:
    """Start a run as often as it takes, as the daemon's queue does."""
    while True:
        try:
            return await start(engine, "true", needs=needs)
        except NoRoomError:
            await asyncio.sleep(0.1)


def read(heads: EngineRig, run_id: str) -> dict[str, Any]:
    """The report of a run, as a reader of the head's state directory finds it."""
    found = read_summary(heads.state, run_id)
    assert found is not None
    return found.report


# A store that does not answer.

NO_STORE = "the store of the Ray cluster does not answer: GCS is away"


def no_answer(*_: object, **__: object) -> None:
    raise RpcError("GCS is away\nand a second line")


async def a_store_that_does_not_answer_decides_nothing(rig: Rig) -> None:
    """Nothing is started, and a run of a node that is gone is not lost before the store has the node's new epoch."""
    heads, run_id, node_id = engine_rig(rig), "asked-of-a-gone-node", "f" * 56
    write_note(heads.state, run_id, HostNote(node_id, "gone", public_spec(make_spec(["true"], run_id=run_id))))
    async with heads.open() as engine:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ray, "nodes", no_answer)
            with pytest.raises(NoRoomError) as waits:  # the daemon queues it, with this reason
                await start(engine, "true")
            with pytest.raises(bindings.StoreUnreachableError) as unknown:
                await engine.adopt(run_id)
        for name in ("_internal_kv_get", "_internal_kv_put"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(internal_kv, name, no_answer)
                with pytest.raises(bindings.StoreUnreachableError) as unfenced:
                    await engine.adopt(run_id)
            assert read_note(heads.state, run_id) is not None
        for caught in (waits, unknown, unfenced):
            with_refusal(str(caught.value), NO_STORE)
        lost = await engine.adopt(run_id)
        assert (lost.report["status"], lost.report["cause"]) == ("lost", "host")
        assert await asyncio.to_thread(bindings.read_epoch, node_id) == 1
        lost.close()


# The daemon, as a process.


class RayDaemon:
    """A daemon on the cluster, and commands for it."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.state_dir = f"{rig.state_dir}-{name}"
        self._rig = rig
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the daemon, and return when it is ready."""
        settings = ["--engine", "ray", "--ray-address", self._rig.address, "--ray-state-dir", self._rig.state_dir]
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast.cli.main", "serve", "--state-dir", self.state_dir, *settings),
            *("--ray-lease", f"{LEASE_S}s", "--log-format", "json", "--disk-floor", "none"),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._process.stderr is not None
        log = []
        async for line in self._process.stderr:
            log.append(line)
            if b'"ready"' in line:
                self._draining = asyncio.create_task(self._process.stderr.read())
                return
        raise AssertionError(b"".join(log))

    async def end(self, number: int) -> None:
        """Send the daemon a signal, and wait for its exit."""
        assert self._process is not None
        self._process.send_signal(number)
        await self._process.wait()
        await self._draining

    async def ask(self, *words: str, code: int | None = 0) -> str:
        """Run a command of the command line; returns its stdout, or its stderr if it failed as expected."""
        command, *rest = words
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast.cli.main", command, "--state-dir", self.state_dir, *rest),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await done.communicate()
        assert code is None or done.returncode == code, (words, done.returncode, out, err)
        return (err if code else out).decode()

    async def report(self, run_id: str) -> dict[str, Any]:
        """The report of a run, as the command line reads it from the state directory."""
        found: dict[str, Any] = json.loads(await self.ask("show", "--json", run_id))
        return found


async def a_killed_daemon_loses_no_run_no_verdict_and_no_output(rig: Rig) -> None:
    daemon = RayDaemon(rig, "killed")
    go = f"{rig.state_dir}/go-on"
    await daemon.start()
    try:
        await daemon.ask("submit", "--wait", "--node-label", "zone=b", "--", "sh", "-c", "exit 3", code=3)
        script = f"echo begun; while ! test -e {go}; do sleep 0.05; done; seq 50000; exit 5"
        live = (
            await daemon.ask("submit", "--timeout", "600s", "--max-timeout", "1h", "--", "sh", "-c", script)
        ).strip()
        unicorn = (await daemon.ask("submit", "--resource", "unicorn=1", "--", "true")).strip()
        follower = asyncio.create_task(daemon.ask("logs", "-f", live))
        await until_logged(daemon, live, "begun")
        await daemon.ask("extend", live, "60s")
        waiting = await daemon.report(unicorn)
        assert (waiting["state"], "1 unicorn" in waiting["reason"]) == ("queued", True), waiting
        hosts = json.loads(await daemon.ask("hosts", "--json"))
        assert (hosts["engine"], len(hosts["hosts"])) == ("ray", 2)
        assert [live] == [run_id for host in hosts["hosts"] for run_id in host["runs"]]
        refused = await daemon.ask("submit", "--no-wait", "--resource", "unicorn=1", "--", "true", code=125)
        assert "1 unicorn" in refused, refused
        await daemon.end(signal.SIGKILL)
        for _ in range(2):  # readers of the state directory do not finish a live run
            report = await daemon.report(live)
            assert (report["state"], report["status"], report["guard"]) == ("running", None, "elsewhere"), report
            await daemon.ask("doctor", code=None)
        touch(go)  # the run ends while there is no daemon
        await daemon.start()
        await daemon.ask("wait", live, code=5)
        report = await daemon.report(live)
        assert (report["status"], report["exit_code"], report["output"]["complete"]) == ("failed", 5, True)
        whole = "begun\n" + "".join(f"{number}\n" for number in range(1, 50001))
        assert await daemon.ask("logs", live) == whole
        assert await follower == whole
        assert "extended" in [fact["fact"] for fact in report["evidence"]]
        ended = json.loads(await daemon.ask("ps", "--all", "--json"))
        assert {run["run_id"]: run["state"] for run in ended}[unicorn] == "queued"
        await daemon.ask("cancel", unicorn)
        left = os.listdir(os.path.join(daemon.state_dir, "elsewhere"))
        assert not left, "the note goes with the end of the copy, which the node may send at once or later"
    finally:
        await daemon.end(signal.SIGTERM)


async def until_logged(daemon: RayDaemon, run_id: str, text: str) -> None:
    """Wait for output. The command line has no event for a run that was not started yet."""
    while True:
        if text in await daemon.ask("logs", run_id, code=None):
            return
        await asyncio.sleep(0.1)


async def the_command_line_ends_and_signals_runs_of_other_hosts(rig: Rig) -> None:
    daemon = RayDaemon(rig, "asked")
    await daemon.start()
    try:
        script = "trap 'echo usr1' USR1; echo begun; while :; do sleep 0.05; done"
        one = (await daemon.ask("submit", "--session", "s", "--grace", "200ms", "--", "sh", "-c", script)).strip()
        two = (await daemon.ask("submit", "--session", "s", "--grace", "200ms", "--", "sh", "-c", script)).strip()
        for run_id in (one, two):
            await until_logged(daemon, run_id, "begun")
        assert "another host" in await daemon.ask("attach", one, code=125)
        await daemon.ask("signal", one, "USR1")
        await until_logged(daemon, one, "usr1")
        await daemon.ask("cancel", one)  # its exit code says that every process is confirmed gone
        assert "1 confirmed gone" in await daemon.ask("reap", "--session", "s")
        assert [(await daemon.report(run_id))["cause"] for run_id in (one, two)] == ["user", "session"]
        await daemon.ask("submit", "--wait", "--cwd", "/not/there", "--", "true", code=125)
    finally:
        await daemon.end(signal.SIGTERM)


_PARTITIONS = (
    a_partition_that_heals_in_time_changes_nothing,
    a_node_that_was_cut_off_for_too_long_keeps_none_of_its_runs_and_all_of_the_next,
)
_WITHOUT_A_STORE = (a_store_that_does_not_answer_decides_nothing,)
_WITH_A_DAEMON = (
    a_killed_daemon_loses_no_run_no_verdict_and_no_output,
    the_command_line_ends_and_signals_runs_of_other_hosts,
)
SCENARIOS: dict[str, Callable[[Rig], Awaitable[None]]] = {
    **{CONTRACT + promise.__name__: _on_ray(promise) for promise in PROMISES},
    **{scenario.__name__: scenario for scenario in (*_PARTITIONS, *_WITHOUT_A_STORE, *_WITH_A_DAEMON)},
}
