"""One outcome on every surface: a late exit 0, a cancel and a lost guard, asked in several orders.

Three ways to end, times four starters, are twelve live runs in one state directory. Everybody is asked about each:
while it goes on, while its tree unwinds, when it is settled, without a daemon, and by the next daemon.
"""

from __future__ import annotations

import os
import select
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from holdfast import otel
from holdfast.projections.report import report
from holdfast.values.run_id import new_run_id

from .projections import table
from .support.askers import GRACE_S, LABELS, MCP_SESSION, SESSION, Surfaces, surfaces
from .support.daemons import BOUND_S, daemon
from .support.hooks import Hook
from .support.processes import kill_both, sentinel_of
from .support.surfaces import Said, Watched, agreed, disagreements, reported, spanned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from holdfast.runs.supervisor import Run

    from .support.askers import Ask
    from .support.daemons import EventStream

# The lines of the reviewed table: there is no other expectation.
LATE, CANCELLED, LOST = LINES = ("deadline, exit 0 late", "stopped: user", "lost: guard")
EVERYWHERE = {
    *("HTTP report", "HTTP wait", "HTTP list", "run.verdict", "run.settled", "replayed event", "webhook"),
    *("holdfast show", "holdfast why", "holdfast wait", "Python client", "sidecar wait", "sidecar report"),
    *("library", "library's own run", "library result", "OpenTelemetry", "ACP terminal", "MCP wait", "MCP task"),
    *("TypeScript run", "TypeScript result", "TypeScript daemon", "TypeScript sidecar"),
}
STARTERS = ("daemon", "library", "ACP", "TypeScript")
TIMEOUT_S = 5.0  # long enough for a shell to set its trap
# At SIGTERM the command waits at the gate ($0), so that there is time to ask before it is over.
COMMANDS = {
    LATE: "trap 'read -r _ <\"$0\"; echo late; exit 0' TERM",
    CANCELLED: "trap 'read -r _ <\"$0\"; trap - TERM; kill -TERM $$' TERM",
    LOST: ":",
}


@pytest.fixture
def anyio_backend() -> str:
    """ACP's connections and MCP's client are asyncio's."""
    return "asyncio"


class Fifos:
    """The signals between a command and the test: that it is ready, and that it may end."""

    def __init__(self, directory: Path, name: str) -> None:
        self._paths = [directory / f"{name}-{end}" for end in ("gate", "ready")]
        for path in self._paths:
            os.mkfifo(path)
        # Both ends, so that neither side waits for the other to open.
        self._gate, self._ready = (os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in self._paths)

    def argv(self, line: str) -> list[str]:
        script = f'{COMMANDS[line]}; echo >"$1"; while :; do sleep 600; done'
        return ["sh", "-c", script, *map(str, self._paths)]

    def wait_ready(self) -> None:
        assert select.select([self._ready], [], [], BOUND_S)[0], "the command did not begin"

    def open(self) -> None:
        os.write(self._gate, b"go\n")

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._ready)


class Spans(SpanExporter):
    """Keeps spans in memory, and can wait for one."""

    def __init__(self) -> None:
        self.ended: SimpleQueue[ReadableSpan] = SimpleQueue()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            self.ended.put(span)
        return SpanExportResult.SUCCESS


class Started(NamedTuple):
    """A live run: the surfaces are asked about it, and the test ends it."""

    run: Watched
    fifos: Fifos


class Scene:
    """Start the twelve runs and end them, each in the words of its starter."""

    def __init__(self, asked: Surfaces, hook: Hook) -> None:
        self.asked = asked
        self.hook = hook
        self.spans = Spans()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.owned: dict[str, Run] = {}
        self.started: list[Started] = []

    @property
    def runs(self) -> list[Watched]:
        return [started.run for started in self.started]

    async def start(self, directory: Path) -> None:
        for line in LINES:
            for starter in STARTERS:
                fifos = Fifos(directory, f"{LINES.index(line)}-{starter}")
                run_id = await self._start(starter, fifos.argv(line), TIMEOUT_S if line == LATE else None)
                self.started.append(Started(Watched(run_id, starter, line), fifos))
        for started in self.started:
            await anyio.to_thread.run_sync(started.fifos.wait_ready)

    async def _start(self, starter: str, argv: list[str], timeout_s: float | None) -> str:
        found: dict[str, Any] = {"labels": LABELS, "session": MCP_SESSION}
        match starter:
            case "daemon":
                options: dict[str, Any] = {"timeout_s": timeout_s, "grace_s": GRACE_S, **found}
                submit = partial(self.asked.daemon.submit, argv, on_verdict={"url": self.hook.url}, **options)
                return str((await anyio.to_thread.run_sync(submit))["run_id"])
            case "library":
                tracer = self.provider.get_tracer("tests")
                run = await otel.start(
                    self.asked.library, argv, tracer=tracer, timeout=timeout_s, grace=GRACE_S, **found
                )
                self.owned[run.run_id] = run
                return run.run_id
            case "ACP":
                asked: dict[str, Any] = {} if timeout_s is None else {"holdfast": {"timeout_s": timeout_s}}
                made = await self.asked.agent.create_terminal(
                    session_id=SESSION, command=argv[0], args=argv[1:], **asked
                )
                return str(made.terminal_id)
            case _:
                run_id = new_run_id()
                times = {"forceKillAfterDelay": GRACE_S * 1000}
                times |= {} if timeout_s is None else {"timeout": timeout_s * 1000}
                self.asked.node("start", run_id=run_id, argv=argv, options={**times, **found})
                return run_id

    async def end(self) -> None:
        """Cancel the runs that are to be cancelled, each as its starter does, and kill the guards of the lost ones."""
        for run in self.runs:
            if run.line == CANCELLED:
                await self._cancel(run)
            elif run.line == LOST:
                evidence = self.asked.daemon.report(run.run_id)["evidence"]
                (guard,) = (fact["guard_pid"] for fact in evidence if fact["fact"] == "started")
                kill_both(sentinel_of(guard), guard)  # the sentinel alone would end the run

    async def _cancel(self, run: Watched) -> None:
        match run.starter:
            case "daemon":
                await anyio.to_thread.run_sync(self.asked.daemon.cancel, run.run_id)
            case "library":
                await self.owned[run.run_id].cancel()
            case "ACP":
                await self.asked.agent.kill_terminal(session_id=SESSION, terminal_id=run.run_id)
            case _:
                self.asked.node("cancel", run_id=run.run_id)

    def let_go(self) -> None:
        """Let the runs end that wait at their gates."""
        for started in self.started:
            started.fifos.open()

    def close(self) -> None:
        self.provider.shutdown()
        for run in self.owned.values():
            run.close()
        for started in self.started:
            started.fifos.close()

    # The answers that the starters themselves get.

    def own(self) -> list[Said]:
        """The library's own runs."""
        return [
            Said(run, "library's own run", reported(self.owned[run.run_id].report))
            for run in self.runs
            if run.starter == "library"
        ]

    async def final(self) -> list[Said]:
        """The results for starters that wait for the whole end, and the spans."""
        by_id = {run.run_id: run for run in self.runs}
        said = []
        for run_id, owned in self.owned.items():
            result = await owned.result()
            assert (result.status, result.cause) == (result.report["status"], result.report["cause"])
            said.append(Said(by_id[run_id], "library result", reported(result.report)))
            span = await anyio.to_thread.run_sync(partial(self.spans.ended.get, timeout=BOUND_S))
            cells = spanned(span)
            said.append(Said(by_id[cells["run_id"]], "OpenTelemetry", cells))
        for run in self.runs:
            if run.starter == "TypeScript":
                told = await anyio.to_thread.run_sync(partial(self.asked.node, "result", run_id=run.run_id))
                assert (told["exitCode"], told["timedOut"], told["isCanceled"]) == (
                    None,
                    run.line == LATE,
                    run.line == CANCELLED,
                )
                said.append(Said(run, "TypeScript result", reported(told["report"])))
        return said


class Events:
    """An event stream, and all its events so far."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.seen: dict[tuple[str, str], dict[str, Any]] = {}

    async def until(self, type_: str, runs: list[Watched]) -> list[Said]:
        wanted = {(type_, run.run_id) for run in runs}
        while not wanted <= self.seen.keys():
            found = await anyio.to_thread.run_sync(self.stream.next)
            assert found is not None, f"the stream ended without {type_}"
            self.seen[found[0], found[1].get("run_id", "")] = found[1]
        return [Said(run, type_, reported(self.seen[type_, run.run_id]["report"])) for run in runs]


async def ask_in_order(order: Sequence[Ask], runs: list[Watched]) -> list[Said]:
    said: list[Said] = []
    for ask in order:
        said += await ask(runs)
    return said


async def ask_at_once(asks: Sequence[Ask], runs: list[Watched], meanwhile: Any) -> list[Said]:
    said: list[Said] = []

    async def one(ask: Ask) -> None:
        said.extend(await ask(runs))

    async with anyio.create_task_group() as group:
        for ask in asks:
            group.start_soon(one, ask)
        await meanwhile()
    return said


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    with Hook() as hook:
        async with surfaces(tmp_path / "state") as asked:
            scene = Scene(asked, hook)
            yield scene
        scene.close()


@pytest.mark.timeout(600)  # a hundred interpreters: more than a minute on a busy machine
@pytest.mark.anyio
async def test_every_surface_says_the_same_in_whatever_order_they_are_asked(scene: Scene, tmp_path: Path) -> None:
    asked = scene.asked
    of_daemon = [asked.http_wait, asked.http_report, asked.http_list, asked.python_client, asked.replayed]
    on_disk = [asked.cli_show, asked.cli_why, asked.cli_wait]
    others = [asked.sidecar_wait, asked.adopted, asked.acp_terminal, asked.mcp_wait, asked.mcp_task]
    waits = [asked.http_wait, asked.python_client, asked.cli_wait, *others[:-1]]
    with daemon(asked.state) as asked.daemon, ExitStack() as at_failure:
        at_failure.callback(scene.let_go)  # in any case, nobody waits for their grace
        events = Events(asked.daemon.events())
        await scene.start(tmp_path)
        runs = scene.runs
        own = [run for run in runs if run.starter == "daemon"]
        # Callers that wait since before the verdict.
        unwinding = await ask_at_once(waits, runs, scene.end)
        unwinding += await events.until("run.verdict", own)
        by_id = {run.run_id: run for run in own}
        for _ in own:
            delivered = (await anyio.to_thread.run_sync(scene.hook.next))["data"]["report"]
            unwinding.append(Said(by_id[delivered["run_id"]], "webhook", reported(delivered)))
        # Callers that ask while the trees unwind, in one order.
        order = [*of_daemon, *on_disk, *others, asked.typescript]
        unwinding += await ask_in_order(order, runs) + scene.own()
        states = {run.line: asked.daemon.report(run.run_id)["state"] for run in runs}
        assert (states[LATE], states[CANCELLED]) == ("stopping", "stopping")
        assert disagreements(unwinding, settled=False) == []
        # And when all is over, in the other.
        scene.let_go()
        settled = await events.until("run.settled", own) + await scene.final()
        events.stream.close()
        settled += await ask_in_order(order[::-1], runs) + scene.own()
    settled += await ask_in_order(on_disk, runs)  # no daemon
    with daemon(asked.state) as asked.daemon:
        settled += await ask_in_order([*of_daemon, asked.typescript], runs)
    assert disagreements(settled, settled=True) == []
    # No surface was left out.
    for said in (unwinding, settled):
        heard = {(one.surface, one.run.line) for one in said}
        assert heard == {(surface, line) for surface, _ in heard for line in LINES}
    assert {one.surface for one in unwinding + settled} == EVERYWHERE


def test_control_an_exit_that_is_taken_for_the_outcome_is_noticed() -> None:
    header = {"run_id": "run-1", "boot_id": "b", "wall_ns": 1, "boottime_ns": 0}
    honest = report(header, {}, table.cases()[LATE])
    run = Watched("run-1", "nobody", LATE)
    assert disagreements([Said(run, "honest", reported(honest))], settled=True) == []
    by_exit = {**honest, "status": "succeeded", "cause": "exit"}
    without = {**honest, "evidence": [fact for fact in honest["evidence"] if fact["fact"] != "deadline"]}
    for forged in (by_exit, without):
        assert disagreements([Said(run, "forged", reported(forged))], settled=True) != []
        assert disagreements([Said(run, "forged", reported(forged))], settled=False) != []
    of_exit = agreed("exit 0")
    for name in table.SURFACES:
        assert (disagreements([Said(run, "forged", {name: of_exit[name]})], settled=True) == []) == (
            name == "JSON-RPC"  # a result in both: its fields have the outcome
        )
