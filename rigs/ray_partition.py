"""Partitions of a real Ray cluster: three `ray start` nodes, two in network namespaces, and a cable that is pulled.

`make rig-ray` (as root) prints what held. A partition that heals before the node is declared lost must change nothing.
A partition that outlasts the lease must end the run on its own node before the same work starts on another one.
Everything that the rig makes is gone at its end: namespaces, bridge, Ray, runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.ray import Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEASE_S = 10.0
_BRIDGE = "hfray0"
_NODES = (2, 3)
_ADDRESS = "10.99.7.{}"
_PORT = 6399
_RAY = str(Path(sys.executable).with_name("ray"))
_START = ("--num-cpus=2", f"--object-store-memory={100 << 20}", "--block", "--disable-usage-stats")


def ip(*words: object) -> None:
    """Change the network."""
    subprocess.run(["ip", *map(str, words)], check=True)


@contextlib.contextmanager
def network() -> Iterator[None]:
    """A bridge on this host, and two namespaces with one cable each."""
    ip("link", "add", _BRIDGE, "type", "bridge")
    try:
        ip("addr", "add", f"{_ADDRESS.format(1)}/24", "dev", _BRIDGE)
        ip("link", "set", _BRIDGE, "up")
        for number in _NODES:
            space = f"hfray{number}"
            ip("netns", "add", space)
            ip("link", "add", f"hfcable{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", f"hfcable{number}", "master", _BRIDGE, "up")
            ip("-n", space, "addr", "add", f"{_ADDRESS.format(number)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")
        yield
    finally:
        for number in _NODES:
            subprocess.run(["ip", "netns", "del", f"hfray{number}"], check=False)
            subprocess.run(["ip", "link", "del", f"hfcable{number}"], check=False, stderr=subprocess.DEVNULL)
        ip("link", "del", _BRIDGE)


@contextlib.contextmanager
def cluster(place: Path) -> Iterator[None]:
    """A head on this host, and a node in each namespace."""
    head = [f"--node-ip-address={_ADDRESS.format(1)}", f"--port={_PORT}", f"--temp-dir={place}"]
    commands = [[_RAY, "start", "--head", *head, "--include-dashboard=false", *_START]]
    for number in _NODES:
        inside = ["nsenter", f"--net=/var/run/netns/hfray{number}", "--"]
        at = [f"--address={_ADDRESS.format(1)}:{_PORT}", f"--node-ip-address={_ADDRESS.format(number)}"]
        commands.append([*inside, _RAY, "start", *at, *_START])
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            started.append(process)
            assert process.stdout is not None
            if not any(b"--block" in line for line in process.stdout):  # its last line before it waits
                raise SystemExit(f"this node did not start: {command}")
        yield
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.communicate(timeout=90)  # Ray drains for 30 s


def cable(number: int, state: str) -> None:
    """Pull or plug in the cable of a node."""
    ip("link", "set", f"hfcable{number}", state)


def is_alive(pid: int) -> bool:
    """Whether a process runs; the namespaces are of the network only, so its number is known here."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def say(what: str, *, held: bool) -> None:
    """Print one result."""
    print(f"{'held  ' if held else 'BROKEN'}  {what}", flush=True)
    if not held:
        raise SystemExit(1)


async def heals_before(supervisor: Supervisor) -> None:
    """A short partition: the run goes on, and nothing is missing."""
    script = "i=0; while test $i -lt 60; do echo $i; i=$((i+1)); sleep 0.2; done"
    run = await supervisor.start(["sh", "-c", script], host=_ADDRESS.format(2))
    await anext(run.output())
    cable(2, "down")
    await asyncio.sleep(2.5)
    cable(2, "up")
    report = await run.settled()
    text = b"".join([chunk.data async for chunk in run.output()]).decode().split()
    say(f"a partition of 2.5 s: {report['status']}/{report['cause']}", held=report["status"] == "succeeded")
    say("every line arrived", held=text == [str(number) for number in range(60)])


async def heals_after(supervisor: Supervisor) -> None:
    """A partition longer than the lease: lost, gone, and only then started elsewhere. The verdict stays."""
    tree = "setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000"
    run = await supervisor.start(["sh", "-c", tree], host=_ADDRESS.format(2), grace=0.5, kill_wait=1, drain=0.5)
    pid = int((await anext(run.output())).data)
    cable(2, "down")
    begun = time.monotonic()
    report = await run.settled()
    lost_s = time.monotonic() - begun
    say(f"lost/host after {lost_s:.1f} s", held=(report["status"], report["cause"]) == ("lost", "host") and lost_s < 10)
    ended: list[float] = []

    async def watch() -> None:
        while is_alive(pid):  # noqa: ASYNC110 - the process of another host has no event here
            await asyncio.sleep(0.02)
        ended.append(time.monotonic() - begun)

    watching = asyncio.create_task(watch())
    await run.gone()
    gone_s = time.monotonic() - begun
    say("the run is gone when `gone` returns", held=bool(ended))
    watching.cancel()
    say(f"its own node ended it {ended[0]:.1f} s after the cut, `gone` returned after {gone_s:.1f} s", held=True)
    again = await supervisor.start(["sh", "-c", "echo again"])
    say(
        f"the work started again on {again.report['host']}: {(await again.wait()).status}",
        held=again.status is not None,
    )
    cable(2, "up")
    await asyncio.sleep(5)
    say("healed: the verdict stays lost/host", held=(run.status, run.cause) == ("lost", "host"))


async def rig(place: Path) -> None:
    """Both partitions, one after the other."""
    state = str(place / "holdfast")
    async with Supervisor(address=f"{_ADDRESS.format(1)}:{_PORT}", state_dir=state, lease=_LEASE_S) as supervisor:
        end = time.monotonic() + 90
        while len(hosts := await supervisor.hosts()) < 3 and time.monotonic() < end:  # noqa: ASYNC110 - nor has a node
            await asyncio.sleep(0.2)
        say(f"{len(hosts)} nodes", held=len(hosts) == 3)
        await heals_before(supervisor)
        await heals_after(supervisor)


def end_children() -> None:
    """End Ray's processes that outlived their parents: they are our children now. A lease keeper ends by itself."""
    end = time.monotonic() + 2 * _LEASE_S
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if time.monotonic() > end:
                for task in Path("/proc/self/task").iterdir():
                    for child in (task / "children").read_text().split():
                        os.kill(int(child), signal.SIGKILL)
            time.sleep(0.05)


def main() -> None:
    """Run the rig."""
    if os.geteuid() != 0:
        raise SystemExit("the rig makes network namespaces: run it as root")
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    place = Path(tempfile.mkdtemp(prefix="hf-rig-"))
    try:
        with network():
            try:
                with cluster(place):
                    asyncio.run(rig(place))
            finally:
                end_children()
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
