"""`holdfast.run`: the blocking library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import holdfast
from conformance.adapters.serving import serve
from conformance.task import Answer

if TYPE_CHECKING:
    from conformance.task import Task


def run(task: Task, argv: list[str], place: str) -> Answer:  # noqa: ARG001
    """Run one command with one call."""
    count = 0

    def counted(chunk: holdfast.Chunk) -> None:
        nonlocal count
        count += len(chunk.data) if chunk.stream == "stdout" else 0

    given: Any = {"input": bytes(task.input_bytes)} if task.input_bytes else {}
    result = holdfast.run(argv, on_output=counted if task.stream else None, **given, **options_of(task))
    return answer_of(result, count if task.stream else None)


def options_of(task: Task) -> Any:
    """The task as Holdfast's options."""
    options = {
        "timeout": task.timeout_s, "grace": task.grace_s, "drain": task.drain_s, "kill_wait": task.kill_wait_s,
        "idle_timeout": task.idle_timeout_s, "idle_counts": task.idle_counts, "cwd": task.cwd,
        "memory": task.memory_bytes, "pids": task.processes, "max_output": task.output_bytes, "cpu_time": task.cpu_s,
    }  # fmt: skip
    return {name: value for name, value in options.items() if value is not None} | ({"pty": True} if task.pty else {})


def answer_of(result: holdfast.Result, count: int | None = None) -> Answer:
    """A result as an answer, which uses the same words."""
    ending = (result.status, result.cause, result.exit_code, result.signal)
    return Answer(*ending, result.stdout, result.stderr, count, result.report["tree"], result.reason)


if __name__ == "__main__":
    serve(run)
