"""A shell tool for an agent: one JSON request on each line of stdin, one JSON answer for each.

echo '{"command": "ls | wc -l", "timeout": 5}' | python examples/agent_shell.py
"""

from __future__ import annotations

import json
import sys
from typing import Any

import holdfast


def answer(request: dict[str, Any]) -> dict[str, Any]:
    result = holdfast.run(
        request["command"],
        shell=True,
        text=True,
        merge=True,
        timeout=request.get("timeout", 30),
        grace=1,
        max_output="64K",
        on_max_output="roll",
    )
    told = {"status": result.status, "exit_code": result.exit_code, "output": result.stdout}
    return told if result.ok else {**told, "reason": result.reason}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
