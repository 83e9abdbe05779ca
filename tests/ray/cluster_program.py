"""A Ray program for tests: a small cluster in this process's care, scenarios one after the other, and nothing left.

`python -m tests.ray.cluster_program NAME...` prints one line of JSON for each scenario: its name, and null or the
traceback. The last line is about what was left: this process is a subreaper, so whatever escapes becomes its child.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from . import engine_scenarios, scenarios

_STORE_BYTES = 100 << 20
_LEFT_S = 40.0


def main(names: list[str]) -> None:
    """Run the scenarios on one cluster of two nodes."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    place = Path(tempfile.mkdtemp(prefix="hf-ray-"))  # short: Ray puts sockets there
    os.environ["RAY_TMPDIR"] = str(place)  # otherwise Ray also writes to /tmp/ray, and does not make it
    (place / "ray").mkdir()
    try:
        use_cluster(names, place)
        tell("nothing is left", left(_LEFT_S))
    finally:
        shutil.rmtree(place)


def use_cluster(names: list[str], place: Path) -> None:
    """Start a cluster, run the scenarios, and end the cluster."""
    node = {"num_cpus": 2, "object_store_memory": _STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        second = cluster.add_node(**node, labels={"zone": "b"}, resources={"thing": 1})
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        rig = scenarios.Rig(cluster.address, second.node_id, str(place / "holdfast"), cluster, second)
        for name in names:
            tell(name, attempt(name, rig))
    finally:
        ray.shutdown()
        cluster.shutdown()


def attempt(name: str, rig: scenarios.Rig) -> str | None:
    """The traceback of a scenario; None if it holds."""

    async def bounded() -> None:
        async with asyncio.timeout(200):
            await (engine_scenarios.SCENARIOS.get(name) or getattr(scenarios, name))(rig)

    try:
        asyncio.run(bounded())
    except BaseException:  # noqa: BLE001 - the next scenario must run, too
        return traceback.format_exc()
    return None


def left(within_s: float) -> str | None:
    """What is left of the cluster and of its runs after a while; None if nothing is.

    Workers of Ray that lost both their raylet and the store wait for a minute; they are Ray's own, and are killed here.
    """
    end = time.monotonic() + within_s
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            commands = {pid: command_of(pid) for pid in children()}
            for pid, command in commands.items():
                if command.startswith("ray::"):
                    os.kill(pid, signal.SIGKILL)  # our child, and not yet reaped: the number is its own
            if time.monotonic() > end:
                return "\n".join(f"{pid}: {command}" for pid, command in commands.items())
            time.sleep(0.05)


def children() -> list[int]:
    """Our children of all threads."""
    tasks = Path("/proc/self/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]


def command_of(pid: int) -> str:
    """The command line of a process, in one line."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:300]


def tell(name: str, error: str | None) -> None:
    """Print the result of one scenario."""
    sys.stdout.write(json.dumps({"name": name, "error": error}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
