"""coreutils `timeout -k`: one exit code, and the caller's clock to tell its meanings apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.adapters.serving import serve
from conformance.adapters.tool import Tool
from conformance.task import Answer, ended, stopped

if TYPE_CHECKING:
    from conformance.task import Task

_TIMED_OUT, _KILLED = 124, 137


def run(task: Task, argv: list[str], place: str) -> Answer:
    """Run one command with the tool."""
    tool = Tool(task, ["timeout", "-k", str(task.grace_s), str(task.timeout_s), *argv], place, start_new_session=True)
    code = tool.wait()
    more = tool.output()
    if code in (_TIMED_OUT, _KILLED, -9) and tool.seconds >= task.timeout_s:
        return stopped("timed_out", None, **more)
    if code in (125, 126, 127):
        return Answer("failed", "spawn", note=f"exit code {code}", **more)
    return ended(code, **more)


if __name__ == "__main__":
    serve(run, supervises=False)
