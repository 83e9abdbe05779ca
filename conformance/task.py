"""The task of an adapter, as JSON in its one argument, and its answers, as lines of JSON on its stdout.

An adapter says `{"ready": true}` when it could start the command now, `{"supervisor": PID}` when the process that
supervises is not the adapter itself, and `{"answer": {...}}` for each command, one after the other. Then it stays until
its stdin ends, so that what the command left can be seen before anything of the adapter closes.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Task(NamedTuple):
    """Everything that a row can ask for; a row is not applicable if the peer has no notion of it."""

    runs: tuple[tuple[str, ...], ...]
    directory: str = ""  # the directory for the adapter's output and other files
    cwd: str | None = None
    timeout_s: float = 0.6
    grace_s: float = 0.4
    drain_s: float = 0.5
    kill_wait_s: float = 1.0
    idle_timeout_s: float | None = None
    idle_counts: str = "output"
    input_bytes: int = 0
    slow_reader: bool = False  # the reader of stdout takes a pipe full at a time, with pauses
    stream: bool = False  # count stdout and do not keep it
    cancel_after_s: float | None = None
    block_loop_s: float | None = None  # from a moment after the start on, whatever else the event loop has to do
    memory_bytes: int | None = None
    processes: int | None = None
    output_bytes: int | None = None
    cpu_s: float | None = None
    pty: bool = False
    thread: bool = False  # start it in a thread that ends at once
    sandboxed: bool = False  # the program enters a sandbox before it starts the command, and after an earlier command

    def encode(self) -> str:
        """The task as the argument of an adapter."""
        return json.dumps(self._asdict())


def decode(text: str) -> Task:
    """The task from the argument of an adapter."""
    fields = json.loads(text)
    fields["runs"] = tuple(tuple(argv) for argv in fields["runs"])
    return Task(**fields)


class Answer(NamedTuple):
    """The answer of a peer about one command, in the words of the contract; None for what it could not tell."""

    status: str
    cause: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int | None = None  # counted, when it was not kept
    tree: str | None = None
    note: str | None = None


def ended(returncode: int | None, **more: Any) -> Answer:
    """The answer for a command that ended by itself, from a returncode as Python gives it."""
    if returncode is None:
        return Answer("lost", **more)
    if returncode < 0:
        return Answer("failed", "signal", None, -returncode, **more)
    return Answer("succeeded" if returncode == 0 else "failed", "exit", returncode, **more)


def stopped(status: str, returncode: int | None, **more: Any) -> Answer:
    """The answer for a command that was ended: the status is known; the exit is detail."""
    cause = "deadline" if status == "timed_out" else "user"
    return ended(returncode, **more)._replace(status=status, cause=cause)  # without a returncode: not known


def not_started(error: OSError) -> Answer:
    """The answer for a command that never ran."""
    return Answer("failed", "spawn", note=str(error))
