"""Lines that end an open request or turn for the editor when the agent did not: projections of outcomes.

Version 1 answers the prompt; version 2 reports `idle` with a stop reason once the prompt was accepted. A turn that the
editor cancelled ends as `cancelled`, whatever became of the agent. An agent that ended by itself in the middle of a
turn is an error, also when it exited with 0: nobody has the end of that turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..projections.acp_v1 import acp_v1_stop
from ..projections.acp_v2 import acp_v2_stop
from ..projections.json_rpc import INTERNAL_ERROR, json_rpc
from ..projections.verdict_detail import detail, sentence
from . import messages

if TYPE_CHECKING:
    from ..outcome import Outcome
    from .turns import Turn

VERSION_2 = 2


def ended_turn(turn: Turn, outcome: Outcome, run_id: str, version: int) -> bytes:
    """The line that ends a turn which is ending, made from the outcome of the turn."""
    if turn.is_accepted:
        return idle_update(turn.session_id, acp_v2_stop(outcome, run_id))
    if version >= VERSION_2:
        return messages.answer(turn.key, error=rpc_error(outcome, run_id))
    stop = acp_v1_stop(outcome, run_id)
    return messages.answer(turn.key, result=stop.result, error=stop.error)


def abandoned_turn(turn: Turn, outcome: Outcome, run_id: str) -> bytes:
    """The line that ends a turn whose agent is gone, made from the outcome of the agent's run."""
    if turn.is_accepted:
        return idle_update(turn.session_id, {"stopReason": "error", "_meta": detail(outcome, run_id)})
    return messages.answer(turn.key, error=rpc_error(outcome, run_id))


def idle_update(session_id: str, stop: dict[str, Any], update: dict[str, Any] | None = None) -> bytes:
    """The `state_update` of version 2 that ends the turns of a session; `update` is the agent's own, if it sent one."""
    update = update or {"sessionUpdate": "state_update", "state": "idle"}
    meta = {**(update.get("_meta") or {}), **stop["_meta"]}
    params = {"sessionId": session_id, "update": {**update, "stopReason": stop["stopReason"], "_meta": meta}}
    return messages.notification("session/update", params)


def rpc_error(outcome: Outcome, run_id: str) -> dict[str, Any]:
    """The error that answers an open request, made from an outcome.

    An outcome that JSON-RPC shows as a result is an error here, because the request itself has no result.
    """
    told = json_rpc(outcome, run_id)
    return told.error or {"code": INTERNAL_ERROR, "message": sentence(outcome), "data": told.result}
