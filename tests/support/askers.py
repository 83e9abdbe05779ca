"""The live surfaces of one state directory, each asked about many runs: a real daemon, real clients, real processes."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from acp.exceptions import RequestError

import holdfast
import holdfast.acp

from ..acp.conftest import connected
from ..cli.console import holdfast as command
from ..mcp.serving import over_stdio
from ..mcp.tasking import TasksClient, about
from .daemons import BOUND_S
from .sidecars import Host, RpcError
from .surfaces import Cells, Said, Watched, answered, carried, reported
from .typescript import Harness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from acp.agent.connection import AgentSideConnection

    from ..mcp.serving import Caller
    from .daemons import Daemon

    Runs = list[Watched]
    Ask = Callable[[Runs], Awaitable[list[Said]]]

T = TypeVar("T")
SESSION = "editor"
LABELS = {"via": "mcp"}  # an MCP server answers for such runs of its session only
MCP_SESSION = "asked"
GRACE_S = 600.0  # every surface is asked while the trees unwind, however long that takes: the gates end it


class Surfaces:
    """The surfaces; every method returns what its surface says about each of the runs."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.daemon: Daemon
        self.sidecar: Host
        self.mcp: Caller
        self.library: holdfast.Supervisor
        self.terminals: holdfast.acp.Terminals
        self.agent: AgentSideConnection
        self.node: Harness
        self._limiter = anyio.CapacityLimiter(100)  # many wait at once

    # The daemon.

    async def http_report(self, runs: Runs) -> list[Said]:
        return await self._each(runs, "HTTP report", self._report)

    async def http_wait(self, runs: Runs) -> list[Said]:
        return await self._each(runs, "HTTP wait", partial(self._report, suffix="/wait?until=verdict&timeout_s=60"))

    def _report(self, run: Watched, suffix: str = "") -> Cells:
        answer = self.daemon.request("GET", f"/v1/runs/{run.run_id}{suffix}")
        headers = {
            "HTTP": f"{answer.status} {answer.headers['holdfast-status']}",
            "exit code": answer.headers["holdfast-exit-code"],
        }
        return {**reported(answer.body), **headers}

    async def http_list(self, runs: Runs) -> list[Said]:
        answer = await self._in_thread(self.daemon.request, "GET", "/v1/runs?limit=100")
        found = {report["run_id"]: report for report in answer.body["runs"]}
        return [Said(run, "HTTP list", carried(found[run.run_id])) for run in runs]

    async def python_client(self, runs: Runs) -> list[Said]:
        def ask(run: Watched) -> Cells:
            with holdfast.Client(state_dir=str(self.state)) as client:
                waited = client.wait(run.run_id)
                assert client.get(run.run_id)["status"] == waited["status"]
                return reported(waited)

        return await self._each(runs, "Python client", ask)

    async def replayed(self, runs: Runs) -> list[Said]:
        """The event stream from its beginning: the reports at the verdict."""
        return await self._in_thread(self._replay, [run for run in runs if run.starter == "daemon"])

    def _replay(self, runs: Runs) -> list[Said]:
        said: list[Said] = []
        by_id = {run.run_id: run for run in runs}
        stream = self.daemon.events(after=0)
        try:
            while len(said) < len(by_id):
                report = stream.until("run.verdict")["report"]
                if report["run_id"] in by_id:  # as it was then: without the exit
                    verdict = f"{report['status']}/{report['cause']}"
                    said.append(Said(by_id[report["run_id"]], "replayed event", {"verdict": verdict}))
        finally:
            stream.close()
        return said

    # The command line, with a daemon and without.

    async def cli_show(self, runs: Runs) -> list[Said]:
        return await self._each(runs, "holdfast show", lambda run: reported(self._shown("show", run)))

    async def cli_why(self, runs: Runs) -> list[Said]:
        def ask(run: Watched) -> Cells:
            told = self._shown("why", run)
            (decided,) = (event["fact"] for event in told["timeline"] if event["mark"] == "decided")
            return {"verdict": f"{told['status']}/{told['cause']}", "decided by": decided}

        return await self._each(runs, "holdfast why", ask)

    async def cli_wait(self, runs: Runs) -> list[Said]:
        def ask(run: Watched) -> Cells:
            done = command("wait", "--until", "verdict", run.run_id, "--state-dir", str(self.state))
            return {"exit code": str(done.returncode)}

        return await self._each(runs, "holdfast wait", ask)

    def _shown(self, word: str, run: Watched) -> Any:
        return json.loads(command(word, "--json", run.run_id, "--state-dir", str(self.state)).stdout)

    # Other programs.

    async def sidecar_wait(self, runs: Runs) -> list[Said]:
        return await self._in_thread(self._sidecar_wait, runs)

    def _sidecar_wait(self, runs: Runs) -> list[Said]:
        host, said = self.sidecar, []
        for run in runs:
            host.call("adopt", run_id=run.run_id)
        for run, number in [(run, host.send("wait", run_id=run.run_id)) for run in runs]:
            try:
                answer = {"result": host.answer(number)}
            except RpcError as error:
                answer = {"error": {"code": error.code, "message": str(error), "data": error.data}}
            said.append(Said(run, "sidecar wait", answered(answer)))
        return said + [Said(run, "sidecar report", reported(host.call("report", run_id=run.run_id))) for run in runs]

    async def mcp_wait(self, runs: Runs) -> list[Said]:
        async def ask(run: Watched) -> Cells:
            answer = await self.mcp("wait", run_id=run.run_id)
            return {"MCP result": "isError" if answer.is_error else "ok", **carried(answer.data)}

        return await self._together(runs, "MCP wait", ask)

    async def mcp_task(self, runs: Runs) -> list[Said]:
        async def ask(run: Watched) -> Cells:
            task = (await about(self.mcp.client.session, "tasks/get", run.run_id)).model_dump(by_alias=True)
            cells = {"MCP task 2026": task["status"], **carried(task["_meta"]["holdfast"])}
            if "result" in task:
                assert carried(task["result"]["structuredContent"]) == carried(task["_meta"]["holdfast"])
                cells["MCP result"] = "isError" if task["result"]["isError"] else "ok"
            return cells

        return await self._together(runs, "MCP task", ask)

    async def adopted(self, runs: Runs) -> list[Said]:
        """The library, with runs of other owners."""

        async def ask(run: Watched) -> Cells:
            found = await self.library.adopt(run.run_id)
            outcome = await found.wait()
            cells = reported(found.report)
            assert cells["verdict"] == f"{outcome.status}/{outcome.cause}"
            if found.state == "settled":  # the others end with the supervisor
                found.close()
            return cells

        return await self._together(runs, "library", ask)

    async def acp_terminal(self, runs: Runs) -> list[Said]:
        async def ask(run: Watched) -> Cells:
            try:
                ended = await self.agent.wait_for_terminal_exit(session_id=SESSION, terminal_id=run.run_id)
                shown = await self.agent.terminal_output(session_id=SESSION, terminal_id=run.run_id)
            except RequestError as error:
                return {"ACP v1 terminal": "RPC error", **carried(error.data or {})}
            assert shown.exit_status is not None
            assert (shown.exit_status.exit_code, shown.exit_status.signal) == (ended.exit_code, ended.signal)
            status = f"null+{ended.signal}" if ended.exit_code is None else f"code {ended.exit_code}"
            return {"ACP v1 terminal": status, **carried(ended.field_meta or {})}

        return await self._together([run for run in runs if run.starter == "ACP"], "ACP terminal", ask)

    async def typescript(self, runs: Runs) -> list[Said]:
        def ask() -> list[Said]:
            said = []
            for run in runs:
                said.append(Said(run, "TypeScript daemon", reported(self.node("report", run_id=run.run_id))))
                said.append(Said(run, "TypeScript sidecar", answered(self.node("wait", run_id=run.run_id))))
                if run.starter == "TypeScript":
                    decided = self.node("verdict", run_id=run.run_id)  # as it was then: without the exit
                    said.append(Said(run, "TypeScript run", {"verdict": f"{decided['status']}/{decided['cause']}"}))
            return said

        return await self._in_thread(ask)

    # The ways to ask them.

    async def _each(self, runs: Runs, surface: str, ask: Callable[[Watched], Cells]) -> list[Said]:
        async def in_thread(run: Watched) -> Cells:
            return await self._in_thread(ask, run)

        return await self._together(runs, surface, in_thread)

    async def _together(self, runs: Runs, surface: str, ask: Callable[[Watched], Awaitable[Cells]]) -> list[Said]:
        said: list[Said] = []

        async def one(run: Watched) -> None:
            try:
                said.append(Said(run, surface, await ask(run)))
            except Exception as error:  # noqa: BLE001 - an answer like any other, and not the one that was agreed to
                said.append(Said(run, surface, {"error": repr(error)}))

        with anyio.fail_after(BOUND_S):
            async with anyio.create_task_group() as group:
                for run in runs:
                    group.start_soon(one, run)
        return said

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._limiter)


@asynccontextmanager
async def surfaces(state: Path) -> AsyncIterator[Surfaces]:
    """All surfaces but the daemon, which comes and goes; they end with their runs."""
    asked = Surfaces(state)
    async with AsyncExitStack() as stack:
        asked.node = stack.enter_context(Harness(state))
        asked.sidecar = stack.enter_context(Host("--state-dir", str(state)))
        asked.mcp = await stack.enter_async_context(
            over_stdio(state, "--session", MCP_SESSION, extensions=[TasksClient()])
        )
        asked.library = await stack.enter_async_context(holdfast.Supervisor(state_dir=state))
        asked.terminals = await stack.enter_async_context(
            holdfast.acp.Terminals(state_dir=state, grace=GRACE_S, labels=LABELS, session=MCP_SESSION)
        )
        asked.agent = await stack.enter_async_context(connected(asked.terminals))
        yield asked
