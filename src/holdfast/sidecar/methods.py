"""The methods of the sidecar's protocol. The server checks their parameters against the schema first."""

from __future__ import annotations

import os
from base64 import b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any

from ..projections.json_rpc import json_rpc
from ..runs.ephemeral import WINDOW_BYTES
from ..streams.lines import LONGEST_LINE
from ..values.errors import RunExistsError, SpecError
from ..values.options import SIDECAR, options_from_json
from .protocol import NO_COMMON_PROTOCOL, PROTOCOLS, CallError, outcome_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..runs.supervisor import Supervisor
    from ..values.options import SpecOptions
    from .runs import SidecarRuns

Params = dict[str, Any]


def spec_options(params: Params) -> SpecOptions:
    """The options of `make_spec` for these parameters, whose names carry units. SpecError: stdin is inherited."""
    if params.get("stdin") == "inherit":
        raise SpecError("stdin carries the protocol", field="stdin", remedy="use null, pipe or a path")
    return options_from_json(params, SIDECAR)


class SidecarMethods:
    """The methods by name. `kept` opens the supervisor of kept runs; `ephemeral` is the supervisor of the others."""

    def __init__(
        self, runs: SidecarRuns, ephemeral: Supervisor, kept: Callable[[], Awaitable[Supervisor]], state_dir: str | None
    ) -> None:
        self._runs = runs
        self._ephemeral = ephemeral
        self._kept = kept
        self._state_dir = state_dir
        # These calls are done one after the other, in order: the next call may already name the run.
        self.in_order: dict[str, Callable[[Params], Awaitable[Params]]] = {
            "initialize": self.initialize,
            "start": self.start,
            "adopt": self.adopt,
            "output": self.output,
            "credit": self.credit,
        }
        # Each of these calls has a task of its own: it may have to wait.
        self.at_once: dict[str, Callable[[Params], Awaitable[Params]]] = {
            "wait": self.wait,
            "settled": self.settled,
            "report": self.report,
            "cancel": self.cancel,
            "extend": self.extend,
            "input": self.input,
            "signal": self.signal,
            "resize": self.resize,
            "list": self.list,
            "release": self.release,
            "session.close": self.close_session,
        }

    async def initialize(self, params: Params) -> Params:
        common = set(PROTOCOLS).intersection(params["protocols"])
        if not common:
            message = f"there is no common protocol: this sidecar speaks {', '.join(map(str, PROTOCOLS))}"
            raise CallError(NO_COMMON_PROTOCOL, message, {"protocols": list(PROTOCOLS)})
        from importlib.metadata import version

        return {
            "protocol": max(common),
            "version": version("holdfast"),
            "pid": os.getpid(),
            "line_bytes": LONGEST_LINE,
            "window_bytes": WINDOW_BYTES,
        }

    async def start(self, params: Params) -> Params:
        options = spec_options(params)
        if (given := options.get("run_id")) is not None and given in self._runs:
            raise RunExistsError("a run with this id exists already", run_id=given, remedy="use another id")
        lives_on = options.get("lifetime", "owner") != "owner"
        kept = lives_on or options.get("session") is not None or params.get("keep", False)
        supervisor = await self._kept() if kept else self._ephemeral
        size = params.get("window_size")
        window_size = None if size is None else (size["rows"], size["columns"])
        run = await supervisor.start(params["argv"], keep_output=False, window_size=window_size, **options)
        known = self._runs.add(run)
        wanted = params.get("output")
        if wanted == "discard":
            self._runs.discard(known)
        elif wanted is not None:
            self._runs.subscribe(known, wanted["credit_bytes"], late=wanted.get("late", False))
        return {"run_id": run.run_id}

    async def adopt(self, params: Params) -> Params:
        run_id = params["run_id"]
        if run_id not in self._runs:
            supervisor = await self._kept()
            self._runs.add(await supervisor.adopt(run_id))
        return {"run_id": run_id, "state": self._runs[run_id].run.state}

    async def output(self, params: Params) -> Params:
        known = self._runs[params["run_id"]]
        self._runs.subscribe(known, params.get("credit_bytes", 0), late=params.get("late", False))
        return {}

    async def credit(self, params: Params) -> Params:
        self._runs[params["run_id"]].give_credit(params["bytes"])
        return {}

    async def wait(self, params: Params) -> Params:
        run = self._runs[params["run_id"]].run
        return outcome_answer(json_rpc(await run.wait(), run.run_id))

    async def settled(self, params: Params) -> Params:
        return {**await self._runs[params["run_id"]].run.settled()}

    async def report(self, params: Params) -> Params:
        run = self._runs[params["run_id"]].run
        return {**run.report, "ports": run.ports}

    async def cancel(self, params: Params) -> Params:
        run = self._runs[params["run_id"]].run
        cause, now = params.get("cause", "user"), params.get("now", False)
        await run.cancel(params.get("reason", ""), cause=cause, now=now, grace=params.get("grace_s"))
        return {}

    async def extend(self, params: Params) -> Params:
        await self._runs[params["run_id"]].run.extend(params["seconds"])
        return {}

    async def input(self, params: Params) -> Params:
        run = self._runs[params["run_id"]].run
        try:
            data = b64decode(params.get("data", ""), validate=True)
        except (Base64Error, ValueError):
            raise SpecError("data is not base64", field="data", remedy="encode the bytes as base64") from None
        accepted = await run.write_stdin(data)
        if params.get("eof", False):
            await run.close_stdin()
        return {"accepted": accepted}

    async def signal(self, params: Params) -> Params:
        await self._runs[params["run_id"]].run.signal(params["signal"], tree=params.get("tree", False))
        return {}

    async def resize(self, params: Params) -> Params:
        await self._runs[params["run_id"]].run.resize(params["rows"], params["columns"])
        return {}

    async def list(self, params: Params) -> Params:
        wanted = [known.run for known in self._runs if params.get("settled", False) or not known.is_over]
        reports = [run.report for run in wanted]
        return {"runs": [{name: value for name, value in it.items() if name != "evidence"} for it in reports]}

    async def release(self, params: Params) -> Params:
        self._runs.release(self._runs[params["run_id"]])
        return {}

    async def close_session(self, params: Params) -> Params:
        import anyio

        from ..state.directory import StateDirectory
        from ..state.sessions import close

        def work() -> Params:
            state = StateDirectory.open(self._state_dir, create=True)
            reason, now = params.get("reason", ""), params.get("now", False)
            closing = close(state, params["session"], reason=reason, now=now, grace_s=params.get("grace_s"))
            runs = [{"run_id": run.run_id, "how": run.how} for run in closing.runs]
            return {"session": closing.session, "runs": runs, "problems": list(closing.problems)}

        return await anyio.to_thread.run_sync(work)
