"""What must hold on a Ray cluster. Each scenario is a coroutine function of `Rig`; `cluster_program` runs them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import ray

import holdfast
from holdfast.ray import RemoteRun, Supervisor, bindings
from holdfast.ray.messages import NodeSettings, OutputPlace, StartRequest
from holdfast.ray.node_actor import NodeActor
from holdfast.values.spec import make_spec

LEASE_S = 12.0  # the tests share their host, which may stand still for seconds
BOUND_S = 60.0


class Rig(NamedTuple):
    """The cluster of a scenario: a head, and a second node with the label zone=b and one `thing`."""

    address: str
    second_id: str
    state_dir: str
    cluster: Any
    second: Any

    def supervisor(self) -> Supervisor:
        return Supervisor(state_dir=self.state_dir, output_dir=f"{self.state_dir}/output", lease=LEASE_S)

    def actor(self, node_id: str) -> Any:
        return bindings.node_actor(NodeActor, NodeSettings(node_id, os.path.join(self.state_dir, node_id), LEASE_S))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def reached(over: list[int], count: int) -> bool:
    return len(over) >= count


def touch(path: str) -> None:
    Path(path).touch()


async def until(condition: Any, within_s: float = BOUND_S) -> None:
    """Wait for something outside of this program, which has no event to wait for."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not come"
        await asyncio.sleep(0.02)


async def ready_line(run: RemoteRun) -> bytes:
    async for chunk in run.output():
        return chunk.data
    raise AssertionError(f"no output: {run.report}")


async def collect(run: RemoteRun) -> bytes:
    return b"".join([chunk.data async for chunk in run.output()])


TREE = "setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000"


# The interface.


async def a_run_has_output_input_and_a_host(rig: Rig) -> None:
    async with rig.supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", "echo ready; read x; echo got $x; exit 3"], stdin="pipe")
        assert await ready_line(run) == b"ready\n"
        assert await run.write_stdin(b"this\n")
        await run.close_stdin()
        outcome = await run.wait()
        report = await run.settled()
        assert (outcome.status, outcome.cause, report["exit_code"]) == ("failed", "exit", 3)
        assert report["host"] == run.host != ""
        assert (report["state"], report["tree"], report["output"]["complete"]) == ("settled", "gone", True)
        assert await collect(run) == b"ready\ngot this\n"
        assert supervisor.runs == ()


async def a_run_takes_signals_extensions_and_a_cancel(rig: Rig) -> None:
    script = "trap 'echo usr1' USR1; echo ready; while :; do sleep 0.05; done"
    async with rig.supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", script], timeout=60, max_timeout=120)
        assert await ready_line(run) == b"ready\n"
        await run.signal("USR1")
        output = run.output()
        seen = b""
        while b"usr1" not in seen:
            seen += (await anext(output)).data
        await run.extend(30)
        with pytest.raises(holdfast.RequestError, match="longest timeout"):
            await run.extend(300)
        await run.cancel("not needed", grace=0.2)
        assert (await run.wait())[:2] == ("cancelled", "user")
        assert "not needed" in (await run.settled())["reason"]
        await run.cancel()  # over: nothing happens
        with pytest.raises(holdfast.RequestError):
            await run.signal("USR1")


async def output_is_read_from_any_place(rig: Rig) -> None:
    size = 5 << 20
    async with rig.supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", f"yes 0123456 | head -c {size}"], host=rig.second_id)
        await run.settled()
        first = await ray_call(rig.actor(rig.second_id), "read_output", run.run_id, OutputPlace(), 1.0)
        read = b"".join(chunk.data for chunk in first.chunks)
        assert 0 < len(read) < 2 << 20, len(read)  # bounded, however much there is
        rest = b"".join([chunk.data async for chunk in run.output(start=first.place)])
        assert read + rest == (b"0123456\n" * (size // 8))


async def ray_call(actor: Any, method: str, *arguments: object) -> Any:
    return await bindings.call(actor, method, *arguments, within_s=BOUND_S)


async def output_that_the_head_keeps_is_whole(rig: Rig) -> None:
    size = 3 << 20
    async with rig.supervisor() as supervisor:
        script = f"echo begun >&2; yes 0123456 | head -c {size}"
        run = await supervisor.start(["sh", "-c", script], host=rig.second_id, keep_output="head")
        following = asyncio.create_task(collect(run))  # while it is copied
        await run.settled()
        chunks = [chunk async for chunk in run.output()]
        whole = b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout")
        assert whole == b"0123456\n" * (size // 8)
        assert [chunk.data for chunk in chunks if chunk.stream == "stderr"] == [b"begun\n"]
        assert await following == b"".join(chunk.data for chunk in chunks)
        middle = chunks[len(chunks) // 2].offset
        rest = [chunk async for chunk in run.output(start=OutputPlace(middle))]
        assert rest == [chunk for chunk in chunks if chunk.offset >= middle]
        with_refusal(await refusal(supervisor, keep_output="moon"), "keep_output is 'moon'")
    assert await collect(run) == b"".join(chunk.data for chunk in chunks)  # the copy stays


# Placement.


async def ray_places_by_resources_labels_and_host(rig: Rig) -> None:
    head_id = next(node.node_id for node in bindings.live_nodes() if node.node_id != rig.second_id)
    async with rig.supervisor() as supervisor:
        labelled = await supervisor.start(["true"], node_labels={"zone": "b"})
        there = await supervisor.start(["true"], host=head_id)
        holder = await supervisor.start(["sleep", "1000"], resources={"thing": 1}, cpus=1, memory="64M")
        assert (labelled.node_id, there.node_id, holder.node_id) == (rig.second_id, head_id, rig.second_id)
        await until(lambda: ray.available_resources().get("thing", 0.0) == 0.0)
        with_refusal(await refusal(supervisor, resources={"thing": 1}), "in use")
        waiting = asyncio.create_task(supervisor.start(["true"], resources={"thing": 1}))
        await holder.cancel(now=True)
        second = await waiting  # it gets the resource when the first run gives it back
        assert (await second.wait()).status == "succeeded"
        await second.settled()
        await until(lambda: ray.available_resources().get("thing", 0.0) == 1.0)


async def a_gang_starts_whole_and_ends_together(rig: Rig) -> None:
    script = "echo $HOLDFAST_GANG_RANK of $HOLDFAST_GANG_SIZE; exec sleep 1000"
    async with rig.supervisor() as supervisor:
        await until(lambda: ray.available_resources().get("CPU", 0.0) == 4.0)
        gang = await supervisor.start_gang(["sh", "-c", script], 3, grace=0.2)
        lines = [await ready_line(run) for run in gang.runs]
        assert lines == [b"0 of 3\n", b"1 of 3\n", b"2 of 3\n"]
        assert {run.report["labels"]["gang"] for run in gang.runs} == {gang.gang_id}
        assert len({run.node_id for run in gang.runs}) == 2  # a node has two CPUs
        with pytest.raises(holdfast.ResourceError, match="in use"):
            await supervisor.start_gang(["true"], 2, wait=False)
        assert len(supervisor.runs) == 3  # none of the second gang
        await gang.runs[1].cancel()
        reports = await gang.settled()
        assert [(report["status"], report["cause"]) for report in reports] == [
            ("cancelled", "session"), ("cancelled", "user"), ("cancelled", "session")
        ]  # fmt: skip
        assert "gang" in reports[0]["reason"], reports[0]
        await until(lambda: ray.available_resources().get("CPU", 0.0) == 4.0)
        spread = await supervisor.start_gang(["true"], 2, strategy="STRICT_SPREAD")
        assert [outcome.status for outcome in await spread.wait()] == ["succeeded", "succeeded"]
        assert len({run.node_id for run in spread.runs}) == 2
        for size, strategy, cpus in ((0, "PACK", 1.0), (2, "PILE", 1.0), (2, "PACK", 0.0)):
            with pytest.raises(holdfast.SpecError):
                await supervisor.start_gang(["true"], size, strategy=strategy, cpus=cpus)
    await until(lambda: ray.available_resources().get("CPU", 0.0) == 4.0)


async def a_node_without_a_slot_leaves_runs_in_line(rig: Rig) -> None:
    await end_actor(rig)
    async with Supervisor(state_dir=rig.state_dir, lease=LEASE_S, slots=2) as supervisor:
        there = rig.second_id
        first = [await supervisor.start(["sleep", "1000"], grace=0.2, host=there) for _ in range(2)]
        with_refusal(await refusal(supervisor, host=there), "has all its 2 slots in use")
        in_line = [asyncio.create_task(supervisor.start(["true"], host=there)) for _ in range(6)]
        await asyncio.wait(in_line, timeout=1.5)
        assert not any(task.done() for task in in_line)
        await first[0].cancel(now=True)
        for task in in_line:  # one slot is enough for all of them, one after the other
            assert (await (await task).wait()).status == "succeeded"
        host = next(host for host in await supervisor.hosts() if host.node_id == rig.second_id)
        assert (host.slots, first[1].status) == (2, None)
    await end_actor(rig)


async def end_actor(rig: Rig) -> None:
    """End the actor of the second node for good: the next supervisor makes one with its own settings."""
    ray.kill(rig.actor(rig.second_id))

    def is_gone() -> bool:
        try:
            ray.get_actor(f"node-{rig.second_id}", namespace=bindings.NAMESPACE)
        except ValueError:
            return True
        return False

    await until(is_gone)


async def a_wrong_wish_is_refused_in_one_sentence(rig: Rig) -> None:
    async with rig.supervisor() as supervisor:
        with_refusal(await refusal(supervisor, resources={"unicorn": 1}), "no live node", "1 unicorn")
        with_refusal(await refusal(supervisor, host="nowhere"), "no live node", "'nowhere'")
        with_refusal(await refusal(supervisor, node_labels={"zone": "z"}), "no live node", "zone=z")
        with_refusal(await refusal(supervisor, cpus=-1), "cpus is -1")
        with_refusal(await refusal(supervisor, stdin="inherit"), "stdin")
        missing = await supervisor.start(["true"], cwd="/not/there")
        report = await missing.settled()
        assert (report["status"], report["cause"]) == ("failed", "spawn")
        assert "/not/there" in report["reason"], report


async def refusal(supervisor: Supervisor, **options: Any) -> str:
    try:
        await supervisor.start(["true"], wait=False, **options)
    except holdfast.HoldfastError as error:
        return str(error)
    raise AssertionError(f"not refused: {options}")


def with_refusal(text: str, *parts: str) -> None:
    assert "\n" not in text, text
    assert all(part in text for part in parts), text


# Identity, epochs, owners.


async def a_run_id_starts_once(rig: Rig) -> None:
    async with rig.supervisor() as supervisor:
        run = await supervisor.start(["true"], run_id="only-once", host=rig.second_id)
        await run.settled()
        for host in (None, rig.second_id):  # any node
            with pytest.raises(holdfast.RunExistsError, match="only-once"):
                await supervisor.start(["true"], run_id="only-once", host=host)


async def a_node_that_was_declared_lost_ends_its_runs_and_refuses_old_requests(rig: Rig) -> None:
    actor = rig.actor(rig.second_id)
    async with rig.supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", TREE], host=rig.second_id, grace=0.2)
        pid = int(await ready_line(run))
        old = (await ray_call(actor, "hello")).epoch
        bindings.raise_epoch(rig.second_id, old)
        report = await run.settled()
        assert (report["status"], report["cause"]) == ("cancelled", "owner")
        assert not is_alive(pid)
        while (hello := await ray_call(actor, "hello")).epoch == old:
            await ray_call(actor, "watch", "a head", 1, {}, [], 0.1)
        late = StartRequest(old, make_spec(["true"], run_id="late-request"), "a head", None)
        (refused,), _ = await ray_call(actor, "start_all", "a head", 1, [late])
        assert isinstance(refused, holdfast.StateError), refused
        assert "epoch" in str(refused)
        with pytest.raises(holdfast.RunNotFoundError):
            await ray_call(actor, "adopt", "late-request")
        again = await supervisor.start(["true"], host=rig.second_id)  # the supervisor learns the new epoch
        assert (await again.wait()).status == "succeeded"
        assert hello.epoch > old


async def runs_end_with_their_supervisor_unless_they_are_detached(rig: Rig) -> None:
    async with rig.supervisor() as supervisor:
        owned = await supervisor.start(["sh", "-c", TREE], grace=0.2)
        detached = await supervisor.start(
            ["sh", "-c", "echo begun; while ! test -e $0; do sleep 0.05; done; echo over", f"{rig.state_dir}/go"],
            lifetime="detached",
        )
        pid = int(await ready_line(owned))
        assert await ready_line(detached) == b"begun\n"
    assert (owned.status, owned.cause) == ("cancelled", "shutdown")
    assert not is_alive(pid)
    assert detached.status is None
    async with rig.supervisor() as another:
        adopted = await another.adopt(detached.run_id)
        touch(f"{rig.state_dir}/go")
        assert (await adopted.wait()).status == "succeeded"
        assert await collect(adopted) == b"begun\nover\n"
        assert (await adopted.settled())["host"] == detached.host
        with pytest.raises(holdfast.RunNotFoundError):
            await another.adopt("no-such-run")


async def runs_of_a_killed_supervisor_end_with_its_silence(rig: Rig) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.ray.owner_program", rig.address, rig.state_dir, str(LEASE_S)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert owner.stdout is not None
    pid, run_id = (await owner.stdout.readline()).decode().split()
    assert is_alive(int(pid))
    owner.kill()
    await owner.wait()
    await until(lambda: not is_alive(int(pid)))
    async with rig.supervisor() as supervisor:
        report = await (await supervisor.adopt(run_id)).settled()
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "owner", "gone")


# Deaths.


async def a_killed_actor_comes_back_and_adopts(rig: Rig) -> None:
    actor = rig.actor(rig.second_id)
    async with rig.supervisor() as supervisor:
        script = "echo begun; while ! test -e $0; do sleep 0.05; done; echo over; exit 7"
        go = f"{rig.state_dir}/go-after-actor"
        run = await supervisor.start(["sh", "-c", script, go], resources={"thing": 1})
        assert await ready_line(run) == b"begun\n"
        first = (await ray_call(actor, "hello")).pid
        os.kill(first, signal.SIGKILL)
        second = first
        while second == first:
            with contextlib.suppress(holdfast.HoldfastError):
                second = (await ray_call(actor, "hello")).pid
        assert run.status is None
        touch(go)
        report = await run.settled()
        assert (report["status"], report["exit_code"], report["tree"]) == ("failed", 7, "gone")
        assert await collect(run) == b"begun\nover\n"
    await until(lambda: ray.available_resources().get("thing", 0.0) == 1.0)  # the new actor gave it back


async def many_runs_and_an_actor_that_dies_again_and_again(rig: Rig) -> None:
    count, started = 60, Path(rig.state_dir) / "started"
    script = 'echo "$0" >>"$1"; echo "$0"; sleep 0.2; yes "$0" | head -c 4096'
    actor = rig.actor(rig.second_id)
    async with rig.supervisor() as supervisor:
        over: list[int] = []

        async def one(number: int) -> None:
            run = await supervisor.start(["sh", "-c", script, str(number), str(started)])
            report = await run.settled()
            assert (report["status"], report["tree"]) == ("succeeded", "gone"), report
            expected = f"{number}\n".encode()
            assert await collect(run) == (expected * (1 + 4096))[: len(expected) + 4096]
            over.append(number)

        async def kill() -> None:
            for share in (10, 30):
                await until(functools.partial(reached, over, share))
                os.kill((await ray_call(actor, "hello")).pid, signal.SIGKILL)

        room = asyncio.Semaphore(12)

        async def in_turn(number: int) -> None:
            async with room:
                await one(number)

        await asyncio.gather(kill(), *map(in_turn, range(count)))
    assert sorted(map(int, started.read_text().split())) == list(range(count))  # each was started once


async def a_killed_raylet_makes_its_runs_lost(rig: Rig) -> None:
    async with rig.supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", TREE], host=rig.second_id, grace=0.2, kill_wait=1, drain=0.5)
        other = await supervisor.start(["sh", "-c", "echo other; sleep 1000"], node_labels={}, host=None, grace=0.2)
        kept = await supervisor.start(
            ["sh", "-c", "echo kept; sleep 1000"], host=rig.second_id, keep_output="head", grace=0.2
        )
        over = await supervisor.start(["echo", "over"], host=rig.second_id, keep_output="head")
        await over.settled()
        assert await ready_line(kept) == b"kept\n"
        pid = int(await ready_line(run))
        begun = time.monotonic()
        rig.second.kill_raylet()
        report = await run.settled()
        assert time.monotonic() - begun < BOUND_S  # 10 s is promised: the rig measures it on a quiet machine
        assert (report["status"], report["cause"], report["state"]) == ("lost", "host", "settled")
        assert (report["host"], report["tree"], report["output"]["complete"]) == (run.host, "unknown", False)
        assert any(entry["fact"] == "started" for entry in report["evidence"])  # what is known stays known
        await run.gone()
        assert not is_alive(pid), "it outlived the lease"
        assert over.status == "succeeded"
        assert await collect(over) == b"over\n"  # the head has it
        assert await collect(kept) == b"kept\n"
        assert (await kept.settled())["output"]["complete"] is False
        if other.node_id != rig.second_id:
            assert other.status is None
        again = await supervisor.start(["true"])  # the other node goes on
        assert (await again.wait()).status == "succeeded"
        with pytest.raises(holdfast.RequestError):
            await run.signal("TERM")


async def without_the_cluster_every_run_ends_with_the_lease(rig: Rig) -> None:
    """The last scenario: it kills the cluster's store (GCS), and after that the actor that owns the guard."""
    supervisor = await rig.supervisor().__aenter__()
    run = await supervisor.start(["sh", "-c", TREE], grace=0.2)
    pid = int(await ready_line(run))
    actor_pid = (await supervisor.hosts())[0].pid
    rig.cluster.head_node.kill_gcs_server()
    os.kill(actor_pid, signal.SIGKILL)
    begun = time.monotonic()
    await until(lambda: not is_alive(pid), LEASE_S + BOUND_S)
    assert time.monotonic() - begun < LEASE_S + BOUND_S


QUICK = [
    a_run_has_output_input_and_a_host,
    a_run_takes_signals_extensions_and_a_cancel,
    output_is_read_from_any_place,
    output_that_the_head_keeps_is_whole,
    ray_places_by_resources_labels_and_host,
    a_gang_starts_whole_and_ends_together,
    a_wrong_wish_is_refused_in_one_sentence,
    a_run_id_starts_once,
    a_node_that_was_declared_lost_ends_its_runs_and_refuses_old_requests,
    runs_end_with_their_supervisor_unless_they_are_detached,
    runs_of_a_killed_supervisor_end_with_its_silence,
    a_killed_actor_comes_back_and_adopts,
    many_runs_and_an_actor_that_dies_again_and_again,
    a_node_without_a_slot_leaves_runs_in_line,
    a_killed_raylet_makes_its_runs_lost,
    without_the_cluster_every_run_ends_with_the_lease,
]
