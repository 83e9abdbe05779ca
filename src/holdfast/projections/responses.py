"""The outcome in OpenAI's Responses API: the status of a response that stands for the run.

A response has no status for a timeout, so the message and the metadata tell it. `server_error` is the only error code
of the API that fits a command; programs should read the metadata, whose values are text there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .verdict_detail import detail, line_of, sentence

if TYPE_CHECKING:
    from typing import Any

    from ..outcome import Outcome

_STATUSES: dict[tuple[str, str | None], str] = {
    ("succeeded", None): "completed",
    ("failed", None): "failed",
    ("timed_out", None): "failed",
    ("cancelled", None): "cancelled",
    ("lost", None): "failed",
}


def responses(outcome: Outcome, run_id: str) -> dict[str, Any]:
    """The `status`, `error` and `metadata` of a response; `queued` or `in_progress` before the verdict."""
    status = _status(outcome)
    error = {"code": "server_error", "message": sentence(outcome)} if status == "failed" else None
    metadata = {name: _text(value) for name, value in detail(outcome, run_id).items() if value is not None}
    return {"status": status, "error": error, "metadata": metadata}


def _status(outcome: Outcome) -> str:
    if outcome.status is not None:
        return line_of(_STATUSES, outcome)
    return "in_progress" if outcome.state == "running" else "queued"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
