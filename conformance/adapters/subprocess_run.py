"""`subprocess.run` with a timeout: it kills the child, and offers nothing else."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from conformance.adapters.serving import serve
from conformance.task import Answer, ended, not_started, stopped

if TYPE_CHECKING:
    from conformance.task import Task


def run(task: Task, argv: list[str], place: str) -> Answer:
    """Run one command with one call. Large output goes to a file, the usual way to keep it out of memory here."""
    given: Any = {"input": bytes(task.input_bytes)} if task.input_bytes else {"stdin": subprocess.DEVNULL}
    with open(f"{place}.streamed", "wb") as file:
        out = file if task.stream else subprocess.PIPE
        try:
            done = subprocess.run(
                argv, stdout=out, stderr=subprocess.PIPE, timeout=task.timeout_s, cwd=task.cwd, check=False, **given
            )
        except subprocess.TimeoutExpired as late:
            return stopped("timed_out", -9, stdout=late.stdout or b"", stderr=late.stderr or b"")
        except OSError as error:
            return not_started(error)
        count = file.seek(0, 2) if task.stream else None
    return ended(done.returncode, stdout=done.stdout or b"", stderr=done.stderr, stdout_bytes=count)


if __name__ == "__main__":
    serve(run)
