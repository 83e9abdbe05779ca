"""`systemd-run --wait`: a transient unit, ended by its control group; the unit says how it ended."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from conformance.adapters.serving import serve
from conformance.adapters.tool import Tool
from conformance.task import Answer, ended, stopped

if TYPE_CHECKING:
    from conformance.task import Task


def run(task: Task, argv: list[str], place: str) -> Answer:
    """Run one command with the tool."""
    unit = f"conformance-{os.getpid()}-{os.path.basename(place)}.service"
    properties = {
        "RuntimeMaxSec": task.timeout_s, "TimeoutStopSec": task.grace_s, "KillMode": "control-group",
        "SendSIGKILL": "yes", "Type": "exec", "MemoryMax": task.memory_bytes or "infinity",
    }  # fmt: skip
    command = ["systemd-run", "--quiet", "--wait", "--pty" if task.pty else "--pipe", f"--unit={unit}"]
    command += [f"--property={name}={value}" for name, value in properties.items()]
    command += [f"--working-directory={task.cwd}"] if task.cwd else ["--same-dir"]
    tool = Tool(task, [*command, "--", *argv], place, own_cwd=True)
    code = tool.wait()
    result = _shown(unit, "Result")
    subprocess.run(["systemctl", "reset-failed", unit], capture_output=True, check=False)
    more = tool.output()
    if result == "timeout":
        return stopped("timed_out", None, **more)
    if result == "signal":
        return Answer("failed", "signal", **more)
    if result == "exec-condition" or code in (203, 200):  # EXIT_EXEC, EXIT_CHDIR
        return Answer("failed", "spawn", note=f"exit code {code}", **more)
    return ended(code, **more)


def _shown(unit: str, name: str) -> str:
    command = ["systemctl", "show", "--value", "-p", name, unit]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    serve(run, supervises=False)
