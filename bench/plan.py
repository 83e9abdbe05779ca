"""The plan: every figure, the peers that take part in it, and how much work each of three scales asks for."""

from __future__ import annotations

from typing import Any, NamedTuple

BASELINE = "asyncio"
SUPERVISOR = "holdfast.Supervisor"
RUN = "holdfast.run"
LIMIT = "C, the limit"
DURABLE = "holdfast.Supervisor, state directory"
DAEMON = "holdfast serve, Unix socket"
PLACED = "holdfast.ray.Supervisor"
RAY_TASK = "Ray task, subprocess.run"
COMPAT_RUN = "holdfast.compat.subprocess.run"
COMPAT_ASYNCIO = "holdfast.compat.asyncio_subprocess"


class Peer(NamedTuple):
    """One way to do the work; the function is in `bench.MODULE` and its docstring describes it."""

    name: str
    module: str
    function: str


class Figure(NamedTuple):
    """Peers that do the same work and are measured in turns."""

    name: str
    section: str
    setting: str
    peers: tuple[Peer, ...]
    parameters: dict[str, Any]
    rounds: int


class Scale(NamedTuple):
    """How much work: enough for a result that repeats, or just enough to see that everything works."""

    name: str
    rounds: int
    spawn: dict[int, int]  # at once: how many runs
    size_mib: int
    endings: int
    deadlines: int
    due_together: int
    live: tuple[int, ...]
    starts: int
    submits: int
    placed: dict[int, int]  # on a Ray cluster; at once: how many runs


QUICK = Scale("quick", 1, {1: 20, 16: 48}, 32, 3, 3, 10, (5, 20), 2, 24, {16: 32})
STANDARD = Scale(
    "standard",
    7,
    {1: 400, 16: 480, 256: 1024},
    1024,
    10,
    20,
    200,
    (10, 100, 1000, 5000),
    10,
    480,
    {16: 1024, 256: 2048},
)

_SPAWN = (
    Peer(LIMIT, "spawning", "limit"),
    Peer("C, through a shim", "spawning", "shim"),
    Peer("subprocess.run", "spawning", "with_subprocess"),
    Peer(BASELINE, "spawning", "with_asyncio"),
    Peer("asyncio, pidfd watcher", "spawning", "with_asyncio_pidfd"),
    Peer("anyio", "spawning", "with_anyio"),
    Peer("trio", "spawning", "with_trio"),
    Peer(RUN, "spawning", "with_holdfast_run"),
    Peer(SUPERVISOR, "spawning", "with_supervisor"),
    Peer("holdfast.Supervisor, trio", "spawning", "with_supervisor_on_trio"),
)
_COMPAT = (
    Peer("subprocess.run", "spawning", "with_subprocess"),
    Peer(COMPAT_RUN, "spawning", "with_compat_subprocess"),
    Peer(BASELINE, "spawning", "with_asyncio"),
    Peer("asyncio, pidfd watcher", "spawning", "with_asyncio_pidfd"),
    Peer(COMPAT_ASYNCIO, "spawning", "with_compat_asyncio"),
)
_CAPTURE = (
    Peer(LIMIT, "transfer", "capture_limit"),
    Peer("subprocess.run", "transfer", "capture_subprocess"),
    Peer(BASELINE, "transfer", "capture_asyncio"),
    Peer(RUN, "transfer", "capture_holdfast"),
)
_STREAM = (
    Peer("subprocess.Popen", "transfer", "stream_subprocess"),
    Peer(BASELINE, "transfer", "stream_asyncio"),
    Peer("trio", "transfer", "stream_trio"),
    Peer(RUN, "transfer", "stream_holdfast_run"),
    Peer(SUPERVISOR, "transfer", "stream_supervisor"),
)
_ENDING = (
    Peer("subprocess.Popen, killpg", "ending", "with_subprocess"),
    Peer("asyncio, killpg", "ending", "with_asyncio"),
    Peer(SUPERVISOR, "ending", "with_supervisor"),
)
_IDLING = (Peer(BASELINE, "idling", "with_asyncio"), Peer(SUPERVISOR, "idling", "with_supervisor"))
_STARTUP = (
    Peer("python3 -c pass", "startup", "bare_python"),
    Peer("python3, subprocess.run", "startup", "python_subprocess"),
    Peer("timeout 60 true", "startup", "coreutils_timeout"),
    Peer("holdfast run -- true", "startup", "holdfast_run"),
    Peer("holdfast run -- true, uv's script", "startup", "holdfast_run_lean"),
)
_SUBMIT = (
    Peer(DURABLE, "submitting", "with_library"),
    Peer("holdfast.Supervisor, in memory", "submitting", "with_library_in_memory"),
    Peer(DAEMON, "submitting", "with_daemon"),
)
_PLACING = (Peer(RAY_TASK, "placing", "spawn_plain"), Peer(PLACED, "placing", "spawn_holdfast"))
_PLACING_OUTPUT = (Peer(RAY_TASK, "placing", "output_plain"), Peer(PLACED, "placing", "output_holdfast"))

# Figures that are newer than the published results: the next whole run publishes them, and empties this list.
UNPUBLISHED = ("placing-16", "placing-256", "placing-output")

# Names for several figures: what a change of guard, sentinel or owner must not make worse.
GROUPS = {"cost": ("spawn-1", "spawn-16", "memory-20", "memory-100")}


def figures(scale: Scale) -> list[Figure]:
    """All figures of a scale, in the order they are measured."""
    few = min(scale.rounds, 5)
    # Building the shim takes half a minute when zig has no musl in its cache yet.
    spawn = tuple(peer for peer in _SPAWN if scale is not QUICK or peer.function != "shim")
    # First: thousands of files made and removed slow down later creations of files on ext4 for minutes.
    plan = [Figure("startup", "startup", "command line", _STARTUP, {"count": scale.starts}, scale.rounds)]
    plan += [
        Figure(
            f"spawn-{at_once}", "spawn", _at_once(at_once), spawn, {"at_once": at_once, "count": count}, scale.rounds
        )
        for at_once, count in scale.spawn.items()
    ]
    size = {"size": scale.size_mib << 20}
    plan.append(Figure("capture", "output", "captured whole", _CAPTURE, size, few))
    plan.append(Figure("stream", "output", "streamed", _STREAM, size, few))
    for processes in (1, 20):
        parameters = {"processes": processes, "count": scale.endings}
        setting = "one process" if processes == 1 else f"a tree of {processes}"
        plan.append(Figure(f"cancel-{processes}", "cancel", setting, _ENDING, parameters, few))
    plan += [_deadline("idle", "idle event loop", scale.deadlines, few)]
    plan += [_deadline("blocked", "blocked event loop", scale.deadlines, few)]
    plan += [_deadline("together", f"{scale.due_together} due at once", scale.due_together, min(few, 3))]
    plan += [
        Figure(
            f"memory-{live}",
            "memory",
            f"{live:,} live runs",
            _IDLING,
            {"live": live},
            min(few, 3) if live < 1000 else 1,
        )
        for live in scale.live
    ]
    submit = {"at_once": 16, "count": scale.submits}
    plan.append(Figure("submit-16", "daemon", _at_once(16), _SUBMIT, submit, few))
    plan += [
        Figure(f"compat-{at_once}", "compat", _at_once(at_once), _COMPAT, {"at_once": at_once, "count": count}, few)
        for at_once, count in scale.spawn.items()
    ]
    clusters = min(few, 3)  # each measurement starts and ends a cluster
    plan += [
        Figure(
            f"placing-{at_once}", "placing", _at_once(at_once), _PLACING, {"at_once": at_once, "count": count}, clusters
        )
        for at_once, count in scale.placed.items()
    ]
    written = {"at_once": 16, "count": min(64, scale.submits), "size": 4 << 20}
    plan.append(Figure("placing-output", "placing", "16 at once, 4 MiB each", _PLACING_OUTPUT, written, clusters))
    return plan


def _deadline(kind: str, setting: str, count: int, rounds: int) -> Figure:
    peers = (Peer(BASELINE, "lateness", f"{kind}_asyncio"), Peer(SUPERVISOR, "lateness", f"{kind}_holdfast"))
    return Figure(f"deadline-{kind}", "deadline", setting, peers, {"count": count}, rounds)


def _at_once(count: int) -> str:
    return "one after the other" if count == 1 else f"{count} at once"
