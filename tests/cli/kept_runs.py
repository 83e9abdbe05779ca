"""Runs in a state directory, started and queried through the command line only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..support.processes import kill_both, sentinel_of
from .console import holdfast, read_until, start

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


class Runs:
    """Detached runs of one test."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.ids: list[str] = []

    def start(self, *command: str, options: tuple[str, ...] = ()) -> str:
        """Start a detached run and return its id."""
        done = holdfast("run", "--detach", *options, "--", *command)
        assert (done.returncode, done.stderr) == (0, b""), done
        (run_id,) = done.stdout.decode().split()
        self.ids.append(run_id)
        return run_id

    def sleeper(self, *options: str, say: str = "ready") -> str:
        """A run that prints a line and then lives until it is ended; returns when the line is in its journal."""
        run_id = self.start("sh", "-c", f"echo {say}; exec sleep 600", options=options)
        self.until(run_id, say.encode())
        return run_id

    def ended(self, *command: str, options: tuple[str, ...] = ()) -> str:
        """A run that is over."""
        run_id = self.start(*command, options=options)
        holdfast("wait", run_id)
        return run_id

    def until(self, run_id: str, text: bytes) -> None:
        """Wait until the run has written this, by following it."""
        with start("logs", "-f", run_id) as follower:
            assert follower.stdout is not None
            read_until(follower.stdout.fileno(), text)
            follower.kill()

    def report(self, run_id: str) -> dict[str, Any]:
        """Its report, as `show --json` gives it."""
        report: dict[str, Any] = as_json(holdfast("show", "--json", run_id))
        return report

    def kill_guard(self, run_id: str) -> None:
        """SIGKILL the guard and its sentinel at once, which leaves the record without an end."""
        guard = next(fact["guard_pid"] for fact in self.report(run_id)["evidence"] if fact["fact"] == "started")
        kill_both(sentinel_of(guard), guard)

    def journal(self, run_id: str) -> Path:
        """Its journal file."""
        return self.state / "runs" / run_id / "journal"

    def end_all(self) -> None:
        """End the remaining runs."""
        if self.ids and self.state.exists():
            holdfast("cancel", "--now", *self.ids)


def as_json(done: subprocess.CompletedProcess[bytes]) -> Any:
    """The output of a command as JSON; it must be one document."""
    return json.loads(done.stdout)


def one_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line of a failure: exit code 125, nothing on stdout."""
    assert (done.returncode, done.stdout) == (125, b""), done
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("holdfast: ")
    return line
