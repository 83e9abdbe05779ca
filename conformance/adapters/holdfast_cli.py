"""`holdfast run`: the command line, with its report."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.adapters.serving import serve
from conformance.adapters.tool import Tool
from conformance.task import Answer

if TYPE_CHECKING:
    from conformance.task import Task


def run(task: Task, argv: list[str], place: str) -> Answer:
    """Run one command with the tool; its report has the outcome."""
    report = Path(f"{place}.report")
    options = {
        "--timeout": task.timeout_s, "--grace": task.grace_s, "--drain": task.drain_s, "--kill-wait": task.kill_wait_s,
        "--idle-timeout": task.idle_timeout_s, "--idle-counts": task.idle_counts, "--memory": task.memory_bytes,
        "--pids": task.processes, "--max-output": task.output_bytes, "--cpu-time": task.cpu_s,
        "--cwd": task.cwd, "--report": report, "--state-dir": os.path.join(task.directory, "state"),
    }  # fmt: skip
    command = [os.path.join(os.path.dirname(sys.executable), "holdfast"), "run", "--quiet"]
    command += [word for name, value in options.items() if value is not None for word in (name, str(value))]
    command += ["--pty" if task.pty else "--no-pty"]
    tool = Tool(task, [*command, "--", *argv], place, own_cwd=True)
    code = tool.wait()
    found = json.loads(report.read_text()) if report.exists() else {}
    cause, exit_code, signal = (found.get(name) for name in ("cause", "exit_code", "signal"))
    detail = {"tree": found.get("tree"), "note": f"exit code {code}", **tool.output()}
    return Answer(found.get("status", "error"), cause, exit_code, signal, **detail)


if __name__ == "__main__":
    serve(run, supervises=False)
