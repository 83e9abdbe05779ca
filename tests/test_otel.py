"""A span for each run, with the SDK's own exporter; the context reaches the command."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import holdfast
from holdfast import otel

from .support.documented import prints_what_it_says, programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.trace import Tracer

    from .support.children import Children

SHOW = ["sh", "-c", 'echo "$TRACEPARENT"']
RESULT = "cicd.pipeline.task.run.result"


class Spans:
    """The exported spans, and a tracer that exports to them."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer: Tracer = self.provider.get_tracer("tests")

    def only(self) -> ReadableSpan:
        (span,) = self.exporter.get_finished_spans()
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    monkeypatch.delenv("TRACEPARENT", raising=False)
    spans = Spans()
    yield spans
    spans.provider.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def traceparent(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_a_run_is_a_span_with_the_outcome(spans: Spans) -> None:
    result = otel.run(["sh", "-c", "exit 3"], tracer=spans.tracer, name="tests")
    span = spans.only()
    assert (span.name, span.kind, span.status.status_code) == ("tests", SpanKind.CLIENT, StatusCode.ERROR)
    assert span.parent is None
    assert attributes(span) == {
        RESULT: "failure",
        "cicd.pipeline.task.name": "tests",
        "cicd.pipeline.task.run.id": result.run_id,
        "process.executable.name": "sh",
        "process.pid": result.report["pid"],
        "process.exit.code": 3,
        "holdfast.run_id": result.run_id,
        "holdfast.status": "failed",
        "holdfast.cause": "exit",
        "holdfast.escalated": False,
        "error.type": "failed/exit",
    }
    assert [event.name for event in span.events] == ["verdict"]
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time <= span.events[0].timestamp <= span.end_time


def test_arguments_are_not_recorded(spans: Spans) -> None:
    otel.run(["sh", "-c", "true", "the-secret"], tracer=spans.tracer, env={"TOKEN": "another-secret"})
    assert "secret" not in spans.only().to_json()


def test_the_command_gets_the_context(spans: Spans) -> None:
    result = otel.run(SHOW, tracer=spans.tracer)
    assert result.stdout.decode().strip() == traceparent(spans.only())
    own = otel.run(SHOW, tracer=spans.tracer, env={"TRACEPARENT": "mine"})  # the caller's value counts
    assert own.stdout == b"mine\n"
    # The control: without a span the variable is not set.
    assert holdfast.run(SHOW).stdout == b"\n"


def test_the_parent_is_the_callers_span(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("caller") as caller:
        otel.run(["true"], tracer=spans.tracer)
    inner, outer = spans.exporter.get_finished_spans()
    assert inner.parent is not None
    assert inner.parent.span_id == caller.get_span_context().span_id
    assert outer.name == "caller"
    explicit = trace.set_span_in_context(caller)
    otel.run(["true"], tracer=spans.tracer, context=explicit)
    last = spans.exporter.get_finished_spans()[-1]
    assert last.parent is not None
    assert last.parent.span_id == caller.get_span_context().span_id


def test_a_process_that_was_started_within_a_trace_goes_on_with_it(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{7:032x}-{9:016x}-01")
    monkeypatch.setenv("TRACESTATE", "vendor=value")
    result = otel.run(["sh", "-c", 'echo "$TRACEPARENT $TRACESTATE"'], tracer=spans.tracer)
    span = spans.only()
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (7, 9)
    assert result.stdout.decode() == f"{traceparent(span)} vendor=value\n"


def test_nothing_is_configured_and_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEPARENT", raising=False)
    assert otel.run(SHOW).stdout == b"\n"


def test_what_was_never_started(spans: Spans) -> None:
    with pytest.raises(holdfast.SpecError):
        otel.run([], tracer=spans.tracer)
    span = spans.only()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "SpecError"
    otel.run(["/no/such/program"], tracer=spans.tracer)
    assert attributes(spans.exporter.get_finished_spans()[-1])[RESULT] == "error"


@pytest.mark.anyio
async def test_a_timeout_stays_one_when_the_command_exits_with_0_late(spans: Spans, child: Children) -> None:
    async with holdfast.Supervisor() as supervisor:
        run = await otel.start(supervisor, child("exits_on_term", 0), tracer=spans.tracer, timeout=1)
        await run.settled()
    span = spans.only()
    found = attributes(span)
    assert (found[RESULT], found["holdfast.status"], found["process.exit.code"]) == ("timeout", "timed_out", 0)
    assert span.status.status_code is StatusCode.ERROR
    assert (span.status.description or "").startswith("timed_out (deadline)")


@pytest.mark.anyio
async def test_many_runs_each_with_its_own_context(spans: Spans) -> None:
    printed = {}
    async with holdfast.Supervisor() as supervisor:
        with spans.tracer.start_as_current_span("caller") as caller:
            runs = [await otel.start(supervisor, SHOW, tracer=spans.tracer) for _ in range(5)]
        for run in runs:
            printed[run.run_id] = (await run.result()).stdout.decode().strip()
    ended = [span for span in spans.exporter.get_finished_spans() if span.name == "sh"]
    assert printed == {str(attributes(span)["holdfast.run_id"]): traceparent(span) for span in ended}
    assert {span.parent.span_id for span in ended if span.parent} == {caller.get_span_context().span_id}
    assert len({*printed.values()}) == 5


@pytest.mark.anyio
async def test_runs_that_end_with_the_supervisor_have_their_spans(spans: Spans, child: Children) -> None:
    with anyio.CancelScope() as scope:
        async with holdfast.Supervisor() as supervisor:
            run = await otel.start(supervisor, child("exits_on_term", 0), tracer=spans.tracer)
            async for _ in run.output():
                break
            scope.cancel()
            await anyio.sleep_forever()
    found = attributes(spans.only())
    assert (found[RESULT], found["holdfast.cause"]) == ("cancellation", "shutdown")
    assert spans.only().status.status_code is StatusCode.UNSET  # a user changed their mind: no failure


@pytest.mark.anyio
async def test_a_run_that_goes_on_without_us(spans: Spans, child: Children, tmp_path: Path) -> None:
    async with holdfast.Supervisor(state_dir=tmp_path) as supervisor:
        run = await otel.start(supervisor, child("exits_on_term", 0), tracer=spans.tracer, lifetime="detached")
        async for _ in run.output():
            break
    span = spans.only()
    assert attributes(span)["holdfast.state"] == "running"
    assert RESULT not in attributes(span)
    assert [event.name for event in span.events] == ["unobserved"]
    async with holdfast.Supervisor(state_dir=tmp_path) as supervisor:
        adopted = await supervisor.adopt(run.run_id)
        await adopted.cancel()
        await adopted.settled()
        adopted.close()
    run.close()


def test_who_does_not_trace_does_not_pay() -> None:
    program = """
import sys, holdfast, anyio
async def main():
    async with holdfast.Supervisor() as supervisor:
        await (await supervisor.start(["true"])).settled()
holdfast.run(["true"])
anyio.run(main)
sys.exit("opentelemetry" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
    with_it = "import sys, holdfast.otel; sys.exit('opentelemetry' in sys.modules)"  # the control
    assert subprocess.run([sys.executable, "-c", with_it], check=False, timeout=60).returncode == 1


def test_the_example(tmp_path: Path) -> None:
    (program,) = programs("opentelemetry.md")
    prints_what_it_says(program, tmp_path)
