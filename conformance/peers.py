"""The columns: each is a way to run a process, how it is used at its best, and what it has no notion of."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.guard.binary import guard_path

from .places import ADAPTERS, GO_PEER, INTERPRETER, NODE_PACKAGES, PYTHON_PACKAGES, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

# The needs that a row may have, and the words for a peer that does not meet one.
REASONS = {
    "input": "gives the command no input",
    "idle": "no idle timeout",
    "cancel": "no cancel beside its timeout",
    "loop": "no event loop that could be blocked",
    "memory": "no memory budget",
    "processes": "no process budget",
    "output": "no output budget",
    "cpu": "no budget of CPU time",
    "pty": "gives the command no terminal",
    "grace": "kills at once, without a grace",
    "cwd": "starts it where it is itself",
    "thread": "waits in the thread that starts",
    "signals": "passes no signal on to the command",
    "reader": "keeps no output for a slow reader: the command writes to the reader, or the peer is the reader itself",
    "freezer": "no version 1 freezer on this machine",
    "threadless": "needs threads, and nothing that starts its children in another PID namespace can have any",
    "root": "only for root",
    "fuse": "only for root, with /dev/fuse",
    "leaf": "no cgroups on this machine",
    "sandbox": "the program that uses it here, or its daemon, enters no sandbox",
}
_NO_BUDGETS = frozenset({"idle", "memory", "processes", "output", "cpu", "pty", "reader"})


class Peer(NamedTuple):
    """One way to run a process. `find` gives its version, or raises LookupError with the reason for its absence."""

    name: str
    group: str
    best: str
    module: str  # the adapter: a Python module, a JavaScript file, or the Go program
    lacks: frozenset[str]
    find: Callable[[], str]

    @property
    def ours(self) -> bool:
        """Whether it is Holdfast."""
        return self.group == "Holdfast"

    def command(self) -> list[str]:
        """The adapter's argv, without the task."""
        if self.module == "go":
            return [str(GO_PEER)]
        if self.module.endswith(".mjs"):
            return [_which("node"), str(ADAPTERS / self.module)]
        return [str(INTERPRETER), "-m", f"conformance.adapters.{self.module}"]


def environment() -> dict[str, str]:
    """The environment in which adapters find their packages."""
    places = {"PYTHONPATH": f"{ROOT}:{PYTHON_PACKAGES}", "CONFORMANCE_NODE": str(NODE_PACKAGES)}
    return {**os.environ, **places, "PYTHONWARNINGS": "ignore"}


def apart() -> frozenset[str]:
    """Programs that belong to a peer and not to a command, as /proc names them."""
    tools = [shutil.which(name) for name in ("node", "bwrap", "timeout", "systemd-run")]
    paths = [str(INTERPRETER), str(GO_PEER), guard_path(), *filter(None, tools)]
    return frozenset(os.path.realpath(path) for path in paths)


def _which(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LookupError(f"{name} is not installed")
    return found


def _package(name: str) -> Callable[[], str]:
    def find() -> str:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            raise LookupError(f"{name} is not installed") from None

    return find


def _python() -> str:
    return f"Python {sys.version.split()[0]}"


def _tool(name: str, *arguments: str) -> Callable[[], str]:
    def find() -> str:
        text = subprocess.run([_which(name), *arguments], capture_output=True, text=True, check=False).stdout
        number = re.search(r"\d+(\.\d+)+", text)
        return f"{name} {number.group() if number else ''}".strip()

    return find


def _node_package(name: str) -> Callable[[], str]:
    def find() -> str:
        node = _tool("node", "--version")()
        try:
            text = (NODE_PACKAGES / "node_modules" / name / "package.json").read_text()
        except FileNotFoundError:
            raise LookupError(f"{name} is not installed") from None
        return f"{name} {json.loads(text)['version']}, {node}"

    return find


def _supervisor() -> str:
    for metadata in PYTHON_PACKAGES.glob("supervisor-*.dist-info"):
        return metadata.name.removesuffix(".dist-info").replace("-", " ")
    raise LookupError("supervisor is not installed")


def _go() -> str:
    if not GO_PEER.exists():
        raise LookupError("no Go toolchain is installed")
    text = Path(PYTHON_PACKAGES, "go", "VERSION").read_text()
    return text.splitlines()[0].replace("go", "Go ")


def _bubblewrap() -> str:
    found = _tool("bwrap", "--version")()
    trial = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "/bin/true"]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        raise LookupError("bwrap may make no namespace here")
    return found.replace("bwrap", "bubblewrap")


def _systemd() -> str:
    found = _tool("systemd-run", "--version")
    if not Path("/run/systemd/system").is_dir():
        raise LookupError("systemd is not PID 1 here")
    return found()


def _lacks(*also: str) -> frozenset[str]:
    return _NO_BUDGETS | frozenset(also)


_BLOCKING = ("cancel", "loop", "thread", "signals")  # what a signal does is the program's own affair
PEERS: tuple[Peer, ...] = (
    Peer("holdfast run", "Holdfast", "the command line", "holdfast_cli", frozenset({"loop"}), _package("holdfast")),
    Peer("holdfast.run", "Holdfast", "the blocking library", "holdfast_run",
         frozenset({"reader", *_BLOCKING}) - {"signals"}, _package("holdfast")),
    Peer("Supervisor", "Holdfast", "the asynchronous library", "holdfast_async",
         frozenset({"reader", "signals", "thread"}), _package("holdfast")),
    Peer("subprocess.run", "Python", "timeout=", "subprocess_run", _lacks("grace", *_BLOCKING), _python),
    Peer("psutil", "Python", "its recipe to end a tree: SIGTERM to all that are listed, wait, SIGKILL", "psutil_tree",
         _lacks(*_BLOCKING), _package("psutil")),
    Peer("asyncio", "Python", "a session of its own, killpg with SIGTERM then SIGKILL, and at the end",
         "asyncio_group", _lacks("threadless", "signals", "thread"), _python),
    Peer("anyio", "Python", "a session of its own, scopes, killpg with SIGTERM then SIGKILL, and at the end",
         "anyio_group", _lacks("threadless", "signals", "thread"), _package("anyio")),
    Peer("trio", "Python", "run_process in a session of its own, deliver_cancel with killpg, and at the end",
         "trio_group", _lacks("threadless", "signals", "thread"), _package("trio")),
    Peer("timeout -k", "Shell", "output redirected to files; the caller's clock tells 124 from 124",
         "coreutils_timeout", _lacks("cancel", "cwd", "loop"), _tool("timeout", "--version")),
    Peer("bubblewrap", "Shell", "--unshare-pid --die-with-parent; SIGTERM to the group, SIGKILL to its init",
         "bubblewrap", _lacks("cancel", "loop", "signals"), _bubblewrap),
    Peer("child_process", "Node", "detached, kill(-pid) with SIGTERM then SIGKILL, streams destroyed, and at the end",
         "child_process.mjs", _lacks("sandbox", "threadless", "signals", "thread"), _tool("node", "--version")),
    Peer("execa", "Node", "timeout, forceKillAfterDelay, cancelSignal, cleanup", "execa.mjs",
         _lacks("sandbox", "threadless", "signals", "thread"), _node_package("execa")),
    Peer("Go os/exec", "Go", "context, Setpgid, Cancel with kill(-pid), WaitDelay, kill(-pid) at the end", "go",
         _lacks("sandbox", "threadless", "loop", "signals", "thread"), _go),
    Peer("supervisord", "Daemons", "stopasgroup, killasgroup, stopwaitsecs; the caller keeps the time", "supervisord",
         _lacks("sandbox", "input", *_BLOCKING), _supervisor),
    Peer("pm2", "Daemons",
         "treekill, kill_timeout; output from its bus: its log files lose the end; the caller keeps the time",
         "pm2.mjs",
         _lacks("sandbox", "threadless", "input", *_BLOCKING), _node_package("pm2")),
    Peer("systemd-run", "Daemons", "--wait --pipe, RuntimeMaxSec, KillMode=control-group, TimeoutStopSec",
         "systemd_run", frozenset({"cancel", "idle", "loop", "reader", "processes", "output", "cpu"}), _systemd),
)  # fmt: skip
