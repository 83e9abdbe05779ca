"""Processes that carry the token of a run and have no guard, and processes that only look like a guard."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.support.readiness import read_ready

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

WAITS = "echo ready; read -r _"
# The command dies with its guard; its background child does not.
LEAVES_ONE = ["sh", "-c", "sleep 600 & echo ready leader=$$ pid=$!; wait"]


class Marked:
    """Start such processes; they are killed and reaped at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[bytes]] = []

    def __call__(self, run_id: str | None, **options: Any) -> int:
        env = {} if run_id is None else {"HOLDFAST_RUN_ID": run_id}
        return self._start(["sh", "-c", WAITS], env=env, **options)

    def as_guard(self, run_id: str) -> int:
        """A process with the name and the argument of a guard: a shell that takes the id for its script."""
        (self.directory / run_id).write_text(WAITS)
        return self._start(["holdfast-guard", run_id], executable="/bin/sh", cwd=self.directory, env={})

    def _start(self, argv: list[str], **options: Any) -> int:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self.started.append(process)
        assert process.stdout is not None
        read_ready(process.stdout.fileno())  # before that, /proc may not show its environment
        return process.pid

    def end(self) -> None:
        """End the remaining processes."""
        for process in self.started:
            process.kill()
            process.communicate()
        self.started.clear()
