"""What the doors said about real runs: `python -m tests.projections.seen` plays every scene and writes `seen.txt`.

docs/projections.md takes its cells from there, where there are some. A door is a column: a function from a daemon, an
agent and the id of one of its runs to the cell. The runs of the ACP door are not the daemon's: `acp_scenes.py` plays
them, and `seen_by_doors` adds its cells. A cell is empty where a door has no scene.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import openai
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, TaskState

from ..support.agents import token_of, url_of
from .acp_scenes import ACP_COLUMNS, seen_by_editors
from .scenes import brought_about
from .table import RESPONSES, SEEN, aligned

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.daemons import Daemon
    from .scenes import Ended


def _verdict(running: Daemon, run: Ended) -> str:
    report = running.report(run.run_id)
    return f"{report['status']}/{report['cause']}"


def _exit_code(running: Daemon, run: Ended) -> str:
    options = ["--until", "verdict", "--state-dir", str(running.state_dir)]
    command = [sys.executable, "-m", "holdfast.cli.main", "wait", run.run_id, *options]
    return str(subprocess.run(command, capture_output=True, timeout=60, check=False).returncode)


def _http(running: Daemon, run: Ended) -> str:
    answer = running.request("GET", f"/v1/runs/{run.run_id}")
    return f"{answer.status} {answer.headers['holdfast-status']}"


def _responses(running: Daemon, run: Ended) -> str:
    with openai.OpenAI(base_url=url_of(running, "/openai/v1"), api_key=token_of(running)) as client:
        return str(client.responses.retrieve(f"resp_{run.run_id}").status)


def _a2a(running: Daemon, run: Ended) -> str:
    async def ask() -> str:
        headers = {"Authorization": f"Bearer {token_of(running)}"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            card = await A2ACardResolver(http, url_of(running, f"/a2a/{run.agent}")).get_agent_card()
            client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
            task = await client.get_task(GetTaskRequest(id=run.run_id))
            return str(TaskState.Name(task.status.state)).removeprefix("TASK_STATE_")

    return asyncio.run(ask())


DOORS: dict[str, Callable[[Daemon, Ended], str]] = {
    "verdict": _verdict,
    "exit code": _exit_code,
    "HTTP": _http,
    "A2A": _a2a,
    RESPONSES: _responses,
}


def seen_by_doors(directory: Path) -> list[tuple[str, ...]]:
    """The header, then a row for every scene."""
    with brought_about(directory) as (running, runs):
        rows = [(line, *(door(running, run) for door in DOORS.values())) for line, run in runs.items()]
    editors = asyncio.run(seen_by_editors(directory, {line: verdict for line, verdict, *_ in rows}))
    none = ("",) * len(ACP_COLUMNS)
    return [("what happened", *DOORS, *ACP_COLUMNS), *((*row, *editors.get(row[0], none)) for row in rows)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        found = aligned(seen_by_doors(Path(made)))
    SEEN.write_text(f"# Written by `python -m tests.projections.seen` from real runs. Not changed by hand.\n{found}")
