"""The outcome as a stop reason of ACP v2, which has `error`; `cancelled` is only for the client's own cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .verdict_detail import detail, line_of

if TYPE_CHECKING:
    from typing import Any

    from ..outcome import Outcome

_STOPS: dict[tuple[str, str | None], str] = {
    ("succeeded", None): "end_turn",
    ("failed", None): "error",
    ("timed_out", None): "error",
    ("cancelled", None): "error",
    ("cancelled", "user"): "cancelled",
    ("lost", None): "error",
}


def acp_v2_stop(outcome: Outcome, run_id: str) -> dict[str, Any]:
    """The `stopReason` and `_meta` of a turn. ValueError before the verdict."""
    return {"stopReason": line_of(_STOPS, outcome), "_meta": detail(outcome, run_id)}
