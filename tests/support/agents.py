"""Agents for tests: a configuration with commands that answer, fail, take too long, or wait until they are told."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from .daemons import daemon
from .web import port_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .daemons import Daemon

# At SIGTERM it exits with 0: a timeout must not look like a success.
_LATE = "trap 'exit 0' TERM; echo begun; while :; do sleep 600 & wait $!; done"
COMMANDS = {
    "echo": 'command = ["sh", "-c", "printf %s \\"you said: $1\\"", "echo"]',
    "reader": 'command = ["cat"]\nprompt = "stdin"\ndescription = "reads its prompt"',
    "failing": 'command = ["sh", "-c", "echo some; exit 3", "failing"]',
    "missing": 'command = ["/nowhere/agent"]',
    "late": f'command = ["sh", "-c", {json.dumps(_LATE)}, "late"]\ntimeout = "1s"\ngrace = "20s"',
    "verbose": 'command = ["sh", "-c", "echo thinking; echo \\"$1\\"", "verbose"]\nanswer = "last_line"',
    "typed": 'command = ["printf", "%s", "{prompt}"]\nanswer = "json:result.0.text"',
}


def write_agents(state_dir: Path, **more: str) -> None:
    """Write the configuration of these agents, and of `more` by name."""
    state_dir.mkdir(mode=0o700, exist_ok=True)
    tables = (f"[agents.{name}]\n{text}\n" for name, text in {**COMMANDS, **more}.items())
    (state_dir / "config.toml").write_text("\n".join(tables))


def listening(state_dir: Path, *options: str) -> AbstractContextManager[Daemon]:
    """A daemon that listens on TCP, with the agents of its configuration."""
    return daemon(state_dir, "--listen", "127.0.0.1:0", *options)


def url_of(running: Daemon, path: str) -> str:
    """The address of a door."""
    return f"http://127.0.0.1:{port_of(running)}{path}"


def token_of(running: Daemon) -> str:
    """The daemon's token."""
    return (running.state_dir / "token").read_text().strip()


class TurnedAgent:
    """An agent that writes what it is given, piece by piece, and ends when it is told to."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self._path = directory / "turned"
        os.mkfifo(self._path)
        script = 'while read -r word; do [ "$word" = end ] && exit; printf "%s " "$word"; done'
        command = json.dumps(["sh", "-c", f"{script} <>{self._path}", "turned"])
        self.table = "\n".join((f"command = {command}", *settings))
        # Both ends, so that a word is never lost and nobody waits.
        self._fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)

    def say(self, word: str) -> None:
        """Have it write this word; `end` ends it."""
        os.write(self._fd, f"{word}\n".encode())

    def close(self) -> None:
        """Close our end."""
        os.close(self._fd)


def turned(directory: Path, *settings: str) -> Iterator[TurnedAgent]:
    """The body of a fixture."""
    agent = TurnedAgent(directory, *settings)
    yield agent
    agent.close()
