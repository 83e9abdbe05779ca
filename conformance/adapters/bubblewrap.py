"""bubblewrap: a PID namespace that dies with its first process, and with the process that started it.

It keeps no time, so that is done here: SIGTERM to the command's process group, the grace, then SIGKILL to the first
process of the namespace, which takes everything in it along.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.adapters.groups import signal_group
from conformance.adapters.serving import serve
from conformance.adapters.tool import Tool
from conformance.task import Answer, ended, stopped

if TYPE_CHECKING:
    from conformance.task import Task

OPTIONS = ["--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--new-session"]


def run(task: Task, argv: list[str], place: str) -> Answer:
    """Run one command with the tool."""
    said, says = os.pipe()
    os.set_inheritable(says, True)
    place_options = ["--chdir", task.cwd] if task.cwd else []
    command = ["bwrap", *OPTIONS, *place_options, "--info-fd", str(says), "--", *argv]
    tool = Tool(task, command, place, own_cwd=True)
    os.close(says)
    with os.fdopen(said) as lines:
        text = lines.read()
    first = json.loads(text).get("child-pid") if text else None
    try:
        code = tool.process.wait(task.timeout_s)
    except subprocess.TimeoutExpired:
        _end(tool, first, task.grace_s)
        return stopped("timed_out", None, **tool.output())
    more = tool.output()
    return ended(code if code <= 128 else 128 - code, **more)  # the tool shows a signal as 128 and its number


def _end(tool: Tool, first: int | None, grace_s: float) -> None:
    for pid in _children(first):
        signal_group(pid, signal.SIGTERM)
    try:
        tool.process.wait(grace_s)
    except subprocess.TimeoutExpired:
        pass
    if first is not None and tool.process.poll() is None:
        os.kill(first, signal.SIGKILL)
    tool.wait()


def _children(pid: int | None) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


if __name__ == "__main__":
    serve(run, supervises=False)
