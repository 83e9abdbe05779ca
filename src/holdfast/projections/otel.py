"""The outcome as attributes and status of an OpenTelemetry span, without importing OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .verdict_detail import detail, line_of, sentence

if TYPE_CHECKING:
    from ..outcome import Outcome

RESULT = "cicd.pipeline.task.run.result"

_RESULTS: dict[tuple[str, str | None], str] = {
    ("succeeded", None): "success",
    ("failed", None): "failure",
    ("failed", "spawn"): "error",
    ("failed", "oom"): "error",
    ("failed", "limit"): "error",
    ("timed_out", None): "timeout",
    ("cancelled", None): "cancellation",
    ("lost", None): "error",
}


class SpanEnd(NamedTuple):
    """The attributes and the status of the span of a run that has a verdict."""

    attributes: dict[str, str | int | bool]
    is_error: bool
    description: str | None


def otel(outcome: Outcome, run_id: str) -> SpanEnd:
    """The end of a run's span. A cancelled run is no error. ValueError before the verdict."""
    result = line_of(_RESULTS, outcome)
    is_error = outcome.status not in ("succeeded", "cancelled")
    attributes: dict[str, str | int | bool] = {RESULT: result}
    for name, value in detail(outcome, run_id).items():
        if value is not None:
            attributes[_NAMES[name]] = value
    if is_error:
        attributes["error.type"] = f"{outcome.status}/{outcome.cause}"
    return SpanEnd(attributes, is_error, sentence(outcome) if is_error else None)


_NAMES = {
    "run_id": "holdfast.run_id",
    "status": "holdfast.status",
    "cause": "holdfast.cause",
    "exit_code": "process.exit.code",
    "signal": "holdfast.signal",
    "escalated": "holdfast.escalated",
}
