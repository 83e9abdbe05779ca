"""Real runs that end in the ways of the table: agents of a daemon, started through its doors and brought to their ends.

A scene is a line of the table with a command that ends so, or with somebody who ends it. A line without a scene needs
what an agent of a test's daemon does not have: a keyboard, an owner, a parent, a kernel that runs out of memory or
processes, a second host, a registered process.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import openai

from ..support.agents import listening, token_of, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..support.daemons import Daemon

_FULL = "full"  # a session with one place, which is taken
_CLOSING = "closing"
_LOOK = "look"  # at the verdict, before the end


class Scene(NamedTuple):
    """How a line is brought about: the command, its settings, and what is done to the run."""

    command: list[str]
    settings: str = ""
    act: str = "wait"

    def table(self) -> str:
        """The agent's table in the configuration."""
        return f"command = {json.dumps(self.command)}\n{self.settings}\n"


def _shell(script: str, settings: str = "", act: str = "wait") -> Scene:
    return Scene(["sh", "-c", script, "agent"], settings, act)


_FOREVER = "while :; do sleep 600 & wait $!; done"
_READY = "echo ready; " + _FOREVER


def scenes(directory: Path) -> dict[str, Scene]:
    """The scenes by the names of their lines."""
    plain, foreign = directory / "not-executable", directory / "no-interpreter"
    plain.write_text("")
    foreign.write_text("#!/nowhere/interpreter\n")
    foreign.chmod(0o700)
    return {
        "exit 0": _shell("exit 0"),
        "exit 3": _shell("exit 3"),
        "exit 124, its own": _shell("exit 124"),
        "signal 15, nobody of us": _shell("kill -TERM $$"),
        "deadline, exit 0 late": _shell(f"trap 'exit 0' TERM; {_READY}", 'timeout = "2s"'),
        "deadline, ended by SIGTERM": _shell("exec sleep 600", 'timeout = "1s"'),
        "deadline, SIGKILL needed": _shell(f"trap '' TERM; {_READY}", 'timeout = "2s"\ngrace = "200ms"'),
        "deadline, not ended yet": _shell(f"trap '' TERM; {_READY}", 'timeout = "2s"\ngrace = "1h"', _LOOK),
        "idle, ended by SIGTERM": _shell("exec sleep 600", 'idle_timeout = "1s"'),
        "queue, never started": _shell("exit 0", f'session = "{_FULL}"\nqueue_timeout = "100ms"'),
        "user before the start": _shell("exit 0", f'session = "{_FULL}"', "cancel"),
        "stopped: user": _shell(_READY, act="cancel when ready"),
        "stopped: session": _shell(_READY, f'session = "{_CLOSING}"', "close"),
        "stopped: shutdown": _shell(_READY, act="shut down"),
        "limit: output": _shell("while :; do echo much; done", 'max_output = "1K"'),
        "limit: processes": _shell("for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; wait", "pids = 4"),
        "limit: cpu": _shell("while :; do :; done", 'cpu_time = "200ms"'),
        "not spawned: chdir": Scene(["true"], 'cwd = "/nowhere"'),
        "not spawned: exec": Scene([str(plain)]),
        "not spawned: interpreter": Scene([str(foreign)]),
        "not spawned: no such program": Scene(["/nowhere/program"]),
        "lost: guard": _shell(_READY, act="kill the guard"),
    }


class Ended(NamedTuple):
    """A run that ended as its line says, and the agent that it is a run of."""

    agent: str
    run_id: str


@contextmanager
def brought_about(directory: Path) -> Iterator[tuple[Daemon, dict[str, Ended]]]:
    """A daemon and a run for every scene, by line. The daemon is not the one that started them."""
    state = directory / "state"
    state.mkdir(mode=0o700)
    played = scenes(directory)
    agents = {line: f"agent-{number}" for number, line in enumerate(played)}
    tables = [f"[agents.{agents[line]}]\n{scene.table()}" for line, scene in played.items()]
    holder = _shell(_READY, f'session = "{_FULL}"').table()
    limit = f'[limits.concurrency]\n"session:{_FULL}" = 1\n'
    (state / "config.toml").write_text("\n".join([*tables, f"[agents.holder]\n{holder}", limit]))
    runs: dict[str, str] = {}
    looked_at = {line for line, scene in played.items() if scene.act == _LOOK}
    with listening(state, "--on-shutdown", "cancel", "--max-runs", "100") as running:
        _play(running, {line: scene for line, scene in played.items() if line not in looked_at}, agents, runs)
        running.signal()
        assert running.exit_code() == 0
    with listening(state) as running:
        _play(running, {line: played[line] for line in looked_at}, agents, runs)  # a shutdown would wait for its end
        try:
            yield running, {line: Ended(agents[line], runs[line]) for line in played}
        finally:
            for line in looked_at:
                running.cancel(runs[line], now=True)
                running.wait(runs[line])


def _play(running: Daemon, played: dict[str, Scene], agents: dict[str, str], runs: dict[str, str]) -> None:
    """Start the runs of these scenes, and bring about their ends."""
    with openai.OpenAI(base_url=url_of(running, "/openai/v1"), api_key=token_of(running)) as client:

        def start(agent: str) -> str:
            made = client.responses.create(model=agent, input="go", background=True)
            return made.id.removeprefix("resp_")

        running.until_output(start("holder"))
        runs |= {line: start(agents[line]) for line in played}
        for line, scene in played.items():
            if scene.act != "shut down":
                _end(running, client, runs[line], scene.act)


def _end(running: Daemon, client: openai.OpenAI, run_id: str, act: str) -> None:
    if act in ("cancel when ready", "close", "kill the guard"):
        running.until_output(run_id)
    match act:
        case "cancel" | "cancel when ready":
            client.responses.cancel(f"resp_{run_id}")
        case "close":
            assert running.request("DELETE", f"/v1/sessions/{_CLOSING}").status == 200
        case "kill the guard":
            evidence = running.report(run_id)["evidence"]
            (guard,) = (fact["guard_pid"] for fact in evidence if fact["fact"] == "started")
            os.kill(guard, signal.SIGKILL)
        case _ if act == _LOOK:
            assert running.wait(run_id, "verdict")["state"] == "stopping"
            return
    running.wait(run_id)
