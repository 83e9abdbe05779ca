"""Auditing of requests: everything that changes something, and everything that is refused, goes to the audit log.

A request is recorded when its answer begins. A request whose client went away before that is recorded without a status.
Reading is not recorded, unless it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ....access.audit_log import AuditRecord
from ....access.caller import ABOUT, ABOUT_RUN, CALLER, STRANGER, UNCHANGED
from ....access.refusal_bound import RefusalBound
from ....access.roles import Role
from ....access.tokens import PREFIX as PREFIX_OF_TOKENS
from ....web.problems import MEDIA_TYPE, PREFIX, Problem
from ....web.request_connection import PEER_PID, PEER_UID

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ....access.audit_log import AuditLog

_READING = ("GET", "HEAD", "OPTIONS")
_REFUSED = (401, 403, 429)
_RUN = b"holdfast-run"


class Auditing:
    """The middleware around the access checks."""

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self._app = app
        self._log = log
        self._bound = RefusalBound()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer: Message | None = None  # its head, until it is recorded
        is_recorded = False

        async def watch(message: Message) -> None:
            nonlocal answer, is_recorded
            if message["type"] == "http.response.start":
                answer = message
            elif not is_recorded:  # with the first bytes of the body: a problem says there what it is
                is_recorded = True
                self._look(scope, answer, message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if not is_recorded:
                self._look(scope, answer, b"")

    def _look(self, scope: Scope, answer: Message | None, body: bytes) -> None:
        status: int | None = None if answer is None else answer["status"]
        is_refused = status in _REFUSED
        if scope["method"] in _READING and not is_refused:
            return
        if scope.get("state", {}).get(UNCHANGED):
            return
        record = _record(scope, status, {} if answer is None else dict(answer["headers"]), body)
        # A stranger may be refused without end, and post codes to /v1/login without end. A login is always recorded.
        if is_refused or (record.by == STRANGER.by and status != 200):
            suppressed = self._bound.take(record.token or (record.address or "").rpartition(":")[0])
            if suppressed is None:
                return
            record = record._replace(suppressed=suppressed)
        self._log.record(record)


def _record(scope: Scope, status: int | None, headers: dict[bytes, bytes], body: bytes) -> AuditRecord:
    state, client = scope.get("state", {}), scope.get("client")
    caller = state.get(CALLER, STRANGER)
    run_id = headers.get(_RUN, b"").decode("ascii", "replace") or state.get(ABOUT_RUN) or _run_in(scope["path"])
    return AuditRecord(
        action=f"{scope['method']} {_without_secret(scope['path'])}",
        by=caller.by if caller.role is not Role.NONE else STRANGER.by,
        token=caller.token,
        user=state.get(PEER_UID),
        pid=state.get(PEER_PID),
        address=f"{client[0]}:{client[1]}" if client and client[1] else None,
        status=status,
        problem=_problem(headers, body),
        run_id=run_id,
        about=state.get(ABOUT),
    )


def _without_secret(path: str) -> str:
    """The path without a token that somebody has taken for the name of one."""
    head, found, _ = path.partition(PREFIX_OF_TOKENS)
    return f"{head}{found}..." if found else path


def _problem(headers: dict[bytes, bytes], body: bytes) -> str | None:
    if not headers.get(b"content-type", b"").startswith(MEDIA_TYPE.encode()):
        return None
    return msgspec.json.decode(body, type=Problem).type.removeprefix(PREFIX)


def _run_in(path: str) -> str | None:
    match path.split("/"):
        case ["", "v1", "runs", run_id, *_]:
            return run_id
    return None
