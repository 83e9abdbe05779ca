"""Real turns that end in the ways of the table: an editor prompts scripted agents through `holdfast acp`.

A scene is played in both versions of the protocol, and the detail that the editor gets must have the line's verdict.
That is the turn's verdict: a turn over its time is `timed_out`, however its agent ends after it. The proxy answers at
the verdict. So the editor of an agent that needs a SIGKILL is told before the SIGKILL, and the scene looks into the
record whether it was needed. Three lines of the daemon's doors cannot occur here (`table.NOT_IN_ACP`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any, NamedTuple

from acp.exceptions import RequestError

from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord
from holdfast.state.sessions import close

from ..acp.editors import AGENT, AGENT_2, Session, Wire, proxied, wired
from ..support.processes import guards_below
from .table import ACP_V1_STOP, ACP_V2_STOP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_IN_TIME = ("--prompt-timeout", "1s", "--grace", "20s")
_OVER_TIME = ("--prompt-timeout", "1s", "--grace", "300ms")
_SESSION = "closing"
_IDLE = ("--idle-timeout", "1s", "--grace", "300ms")


class AcpScene(NamedTuple):
    """How a line is brought about: the prompt, the options of `holdfast acp`, and what is done during the turn."""

    prompt: str = "end"
    options: tuple[str, ...] = ()
    act: str = "wait"
    agent: list[str] | None = None  # None: the scripted one of the version


def _acp_scenes(directory: Path) -> dict[str, AcpScene]:
    """The scenes by the names of their lines. The two programs are those of the daemon's scenes."""
    return {
        "exit 0": AcpScene(),
        "exit 3": AcpScene("exit 3"),
        "exit 124, its own": AcpScene("exit 124"),
        "signal 15, nobody of us": AcpScene("crash 15"),
        "deadline, exit 0 late": AcpScene("listen end_turn", _IN_TIME),
        "deadline, ended by SIGTERM": AcpScene("listen", ("--timeout", "5s")),
        "deadline, not ended yet": AcpScene("deaf", _OVER_TIME),
        "idle, ended by SIGTERM": AcpScene("deaf", _IDLE),
        "deadline, SIGKILL needed": AcpScene("ignore", ("--timeout", "5s", "--grace", "300ms"), "see the kill"),
        "stopped: session": AcpScene("listen", ("--session", _SESSION), "close the session"),
        "limit: processes": AcpScene("fork 20", ("--pids", "15")),
        "limit: cpu": AcpScene("spin", ("--cpu-time", "4s")),
        "stopped: user": AcpScene("deaf", ("--grace", "300ms"), "cancel"),
        "stopped: shutdown": AcpScene("listen", act="terminate"),
        "not spawned: chdir": AcpScene(options=("--cwd", "/nowhere")),
        "not spawned: exec": AcpScene(agent=[str(directory / "not-executable")]),
        "not spawned: interpreter": AcpScene(agent=[str(directory / "no-interpreter")]),
        "not spawned: no such program": AcpScene(agent=["/nowhere/program"]),
        "lost: guard": AcpScene("listen", act="kill the guard"),
    }


class _Told(NamedTuple):
    """What the editor is told: the cell, the detail of the outcome, and the proxy's exit code after its answer."""

    cell: str
    detail: Any
    exit_code: int | None = None

    def verdict(self) -> str:
        """The verdict in the detail. The agent's own answer has none; then the exit code is the agent's."""
        if self.detail:
            return f"{self.detail['status']}/{self.detail['cause']}"
        return "succeeded/exit" if self.exit_code == 0 else f"exit code {self.exit_code}"


async def _version_1(state: Path, scene: AcpScene) -> _Told:
    async with proxied(state, *scene.options, agent=scene.agent or AGENT) as session:
        prompt = asyncio.create_task(session.prompt(scene.prompt))
        if scene.act != "wait":
            await session.editor.hears("listening|pid=")
        if scene.act == "cancel":
            await session.connection.cancel(session.session_id)
        await _act(session, state, scene.act)
        try:
            answer = await prompt
        finally:
            await _see(session, state, scene.act)
    return _Told(answer.stop_reason, answer.field_meta, session.process.returncode)


async def _version_2(state: Path, scene: AcpScene) -> _Told:
    async with wired(state, *scene.options, agent=scene.agent or AGENT_2) as wire:
        await wire.begin(scene.prompt)
        if scene.act == "cancel":
            wire.send("session/cancel", sessionId="s")
        await _act(wire, state, scene.act)
        update = await wire.end()
        await _see(wire, state, scene.act)
    return _Told(update["stopReason"], update.get("_meta"), wire.process.returncode)


async def _act(editor: Session | Wire, state: Path, act: str) -> None:
    if act == "terminate":
        editor.process.terminate()
    elif act == "close the session":
        opened = StateDirectory.open(str(state))
        closing = await asyncio.to_thread(close, opened, _SESSION)
        assert [run.how for run in closing.runs] == ["confirmed"]
    elif act == "kill the guard":
        (guard,) = guards_below(editor.process.pid)
        os.kill(guard, signal.SIGKILL)


async def _see(editor: Session | Wire, state: Path, act: str) -> None:
    """See in the record that the agent needed a SIGKILL, which came after the editor was told."""
    if act != "see the kill":
        return
    await editor.process.wait()
    opened = StateDirectory.open(str(state))
    (run_id,) = opened.all_ids()
    with RunRecord(opened, run_id) as record:
        assert record.read().report()["escalated"]


ACP_COLUMNS: dict[str, Callable[[Path, AcpScene], Awaitable[_Told]]] = {
    ACP_V1_STOP: _version_1,
    ACP_V2_STOP: _version_2,
}


async def seen_by_editors(directory: Path, verdicts: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The cells of the columns, by line. `verdicts` are what the daemon's doors told."""

    async def cell(number: int, column: str, line: str, scene: AcpScene) -> str:
        try:
            told = await ACP_COLUMNS[column](directory / f"{column}-{number}", scene)
        except RequestError as error:
            told = _Told("RPC error", error.data)
        assert told.verdict() == verdicts[line], (line, column)
        return told.cell

    return {
        line: tuple(await asyncio.gather(*(cell(number, column, line, scene) for column in ACP_COLUMNS)))
        for number, (line, scene) in enumerate(_acp_scenes(directory).items())
    }
