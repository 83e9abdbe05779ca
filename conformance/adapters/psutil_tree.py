"""psutil's way to end a tree: list the descendants, SIGTERM to all, wait, SIGKILL to the remaining ones."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

from conformance.adapters.serving import serve
from conformance.task import Answer, ended, not_started, stopped

if TYPE_CHECKING:
    from conformance.task import Task


def run(task: Task, argv: list[str], place: str) -> Answer:
    """Popen and communicate; at the timeout end the tree, then read the output that is in the pipes."""
    with open(f"{place}.streamed", "wb") as file:
        out = file if task.stream else subprocess.PIPE
        given = subprocess.PIPE if task.input_bytes else subprocess.DEVNULL
        try:
            process = psutil.Popen(argv, stdin=given, stdout=out, stderr=subprocess.PIPE, cwd=task.cwd)
        except OSError as error:
            return not_started(error)
        data = bytes(task.input_bytes) if task.input_bytes else None
        try:
            stdout, stderr = process.communicate(data, timeout=task.timeout_s)
        except subprocess.TimeoutExpired:
            end_tree(process, task.grace_s)
            stdout, stderr = process.communicate()
            return stopped("timed_out", process.returncode, stdout=stdout or b"", stderr=stderr)
        count = file.seek(0, 2) if task.stream else None
    return ended(process.returncode, stdout=stdout or b"", stderr=stderr, stdout_bytes=count)


def end_tree(process: psutil.Popen, grace_s: float) -> None:
    """End the process and everything below it: SIGTERM first, SIGKILL after the grace."""
    try:
        members = [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return
    _each(members, "terminate")
    _, alive = psutil.wait_procs(members, timeout=grace_s)
    _each(alive, "kill")
    psutil.wait_procs(alive, timeout=grace_s)


def _each(members: list[psutil.Process], act: str) -> None:
    for member in members:
        try:
            getattr(member, act)()
        except psutil.NoSuchProcess:
            continue


if __name__ == "__main__":
    serve(run)
