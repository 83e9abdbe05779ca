"""The outcome as the answer to a JSON-RPC call that stands for the run, such as the sidecar's `wait`.

A command that ran and ended is a result, whatever its exit code: the call did what it was asked. An error says that
there is no result: the client cancelled the run (-32800), something else cancelled it (-32802), or the command never
started or its end is unknown (-32603). The codes are those of the Language Server Protocol, which clients know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .verdict_detail import detail, line_of, sentence

if TYPE_CHECKING:
    from typing import Any

    from ..outcome import Outcome

REQUEST_CANCELLED = -32800
SERVER_CANCELLED = -32802
INTERNAL_ERROR = -32603

_CODES: dict[tuple[str, str | None], int | None] = {
    ("succeeded", None): None,
    ("failed", None): None,
    ("failed", "spawn"): INTERNAL_ERROR,
    ("timed_out", None): None,
    ("cancelled", None): SERVER_CANCELLED,
    ("cancelled", "user"): REQUEST_CANCELLED,
    ("lost", None): INTERNAL_ERROR,
}


class JsonRpcAnswer(NamedTuple):
    """Either a result or an error."""

    result: dict[str, Any] | None
    error: dict[str, Any] | None


def json_rpc(outcome: Outcome, run_id: str) -> JsonRpcAnswer:
    """Result or error, with the same detail in `result` and in `error.data`. ValueError before the verdict."""
    code = line_of(_CODES, outcome)
    data = {**detail(outcome, run_id), "reason": outcome.reason}
    if code is None:
        return JsonRpcAnswer(data, None)
    return JsonRpcAnswer(None, {"code": code, "message": sentence(outcome), "data": data})
