"""OpenTelemetry tracing: a span for each run, with `otel.run` and `otel.start`. Needs the extra `otel`.

Use `otel.run` for `holdfast.run` and `otel.start` for `Supervisor.start`. The span begins before the run is started, is
a child of the caller's current span, and ends with the outcome when the run is settled. The command gets the trace
context in its environment (TRACEPARENT, TRACESTATE, and the other variables of the propagators in use), so that its own
spans belong to the same trace. Arguments are not recorded: traces leave the machine, and arguments may be secret.

No other module of Holdfast imports this one, so tracing costs nothing where it is not used.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

import anyio
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from .projections.otel import otel
from .runs import blocking
from .values.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Unpack

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from .journal.reader import Chunk
    from .outcome import Outcome
    from .runs.result import Result
    from .runs.supervisor import Run, Supervisor
    from .values.fields import Text
    from .values.options import SpecOptions


def run(
    argv: Sequence[Text],
    *,
    tracer: Tracer | None = None,
    context: Context | None = None,
    input: bytes | None = None,  # noqa: A002 - as in holdfast.run
    on_output: Callable[[Chunk], object] | None = None,
    **options: Unpack[SpecOptions],
) -> Result:
    """Like `holdfast.run`, in a span whose parent is `context`, or else the current context."""
    span = _begin(argv, options, tracer, context)
    try:
        result = blocking.run(argv, input=input, on_output=on_output, **options)
    except BaseException as error:
        _end_with_error(span, error)
        raise
    _end(span, result.outcome, result.report)
    return result


async def start(
    supervisor: Supervisor,
    argv: Sequence[Text],
    *,
    tracer: Tracer | None = None,
    context: Context | None = None,
    keep_output: bool = True,
    window_size: tuple[int, int] | None = None,
    **options: Unpack[SpecOptions],
) -> Run:
    """Like `supervisor.start`, in a span that ends with the run, or when the supervisor leaves the run to itself."""
    span = _begin(argv, options, tracer, context)
    try:
        run = await supervisor.start(argv, keep_output=keep_output, window_size=window_size, **options)
    except BaseException as error:
        _end_with_error(span, error)
        raise
    run.start_task(_watch, run, span, name=f"holdfast span {run.run_id}")
    return run


async def _watch(run: Run, span: Span) -> None:
    # Shielded: a cancelled supervisor first ends its runs, and the span must get their outcome.
    with anyio.CancelScope(shield=True):
        try:
            report = await run.settled()
            _end(span, run.outcome, report)
        except HoldfastError as error:
            _let_go(span, run, error)
        finally:
            if span.is_recording():
                span.end()


def _begin(argv: Sequence[Text], options: SpecOptions, tracer: Tracer | None, context: Context | None) -> Span:
    """Start the span and put its context into the environment of the run."""
    if not trace.get_current_span(context).get_span_context().is_valid:
        # This process has no current trace; its parent process may have passed one in the environment.
        context = propagate.extract({name.lower(): value for name, value in os.environ.items()}, context)
    name = os.path.basename(os.fsdecode(argv[0])) if argv and not isinstance(argv, str) else "?"
    used = tracer or trace.get_tracer("holdfast")
    span = used.start_span(options.get("name") or name, context, SpanKind.CLIENT, {"process.executable.name": name})
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span, context))
    if carrier:
        options["env"] = {**{_variable(key): value for key, value in carrier.items()}, **(options.get("env") or {})}
    return span


def _variable(key: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in key.upper())


def _end(span: Span, outcome: Outcome, report: Mapping[str, Any]) -> None:
    ended = otel(outcome, report["run_id"])
    span.set_attributes(ended.attributes)
    span.set_attribute("cicd.pipeline.task.run.id", report["run_id"])
    if report["name"] is not None:
        span.set_attribute("cicd.pipeline.task.name", report["name"])
    if report["pid"] is not None:
        span.set_attribute("process.pid", report["pid"])
    if ended.is_error:
        span.set_status(Status(StatusCode.ERROR, ended.description))
    # The times of the report, not the current time: the event loop may have been blocked for a while.
    if report["verdict_at"] is not None:
        span.add_event("verdict", timestamp=_ns(report["verdict_at"]))
    begun_ns = getattr(span, "start_time", None) or 0
    span.end(None if report["settled_at"] is None else max(begun_ns, _ns(report["settled_at"])))


def _let_go(span: Span, run: Run, error: HoldfastError) -> None:
    """End the span with what is known, because the run goes on without us or its record cannot be read."""
    if run.status is not None:
        span.set_attributes(otel(run.outcome, run.run_id).attributes)
        return
    span.set_attributes({"holdfast.run_id": run.run_id, "holdfast.state": run.state})
    span.add_event("unobserved", {"reason": str(error)})


def _end_with_error(span: Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, type(error).__name__))
    span.set_attribute("error.type", type(error).__qualname__)
    span.end()


def _ns(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
