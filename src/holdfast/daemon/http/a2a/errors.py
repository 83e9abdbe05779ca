"""Errors of A2A: every refusal as a JSON-RPC error with the code and the reason that clients of A2A know.

A mistake in the call is answered with the HTTP status 200, as JSON-RPC has it. A refusal that a proxy or a retry has to
see (no token, a full queue, a daemon that drains) keeps its HTTP status and its Retry-After.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from starlette.responses import Response

from ....values.errors import HoldfastError
from ....web.problems import PREFIX, ProblemError, problem_of
from ....web.request_body import JSON
from ...agents.agent_runs import UnknownAgentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class A2aErrorKind(NamedTuple):
    """One kind of error: its code and its reason."""

    code: int
    reason: str


PARSE = A2aErrorKind(-32700, "PARSE_ERROR")
INVALID_REQUEST = A2aErrorKind(-32600, "INVALID_REQUEST")
NO_METHOD = A2aErrorKind(-32601, "METHOD_NOT_FOUND")
INVALID_PARAMS = A2aErrorKind(-32602, "INVALID_PARAMS")
INTERNAL = A2aErrorKind(-32603, "INTERNAL_ERROR")
NO_TASK = A2aErrorKind(-32001, "TASK_NOT_FOUND")
NOT_CANCELABLE = A2aErrorKind(-32002, "TASK_NOT_CANCELABLE")
UNSUPPORTED = A2aErrorKind(-32004, "UNSUPPORTED_OPERATION")
CONTENT_TYPE = A2aErrorKind(-32005, "CONTENT_TYPE_NOT_SUPPORTED")
VERSION = A2aErrorKind(-32009, "VERSION_NOT_SUPPORTED")

_KINDS = {"malformed": PARSE, "invalid": INVALID_PARAMS, "run-not-found": NO_TASK}
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


class A2aError(Exception):
    """An error that only A2A has."""

    def __init__(self, kind: A2aErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def respond_in_words(error: ProblemError | HoldfastError | A2aError, call_id: str | int | None = None) -> Response:
    """The answer that carries this error."""
    if isinstance(error, A2aError):
        return _answer(200, error.kind, error.message, call_id)
    if isinstance(error, UnknownAgentError):
        return _answer(404, INVALID_REQUEST, error.message, call_id)
    if isinstance(error, HoldfastError):
        error = problem_of(error)
    problem = error.problem
    kind = _KINDS.get(problem.type.removeprefix(PREFIX))
    message = problem.detail or problem.title
    if problem.remedy is not None:
        message = f"{message}: {problem.remedy}"
    if kind is not None:
        return _answer(200, kind, message, call_id, error.headers)
    kind = INTERNAL if problem.status >= 500 else INVALID_REQUEST
    return _answer(problem.status, kind, message, call_id, error.headers)


def _answer(
    status: int,
    kind: A2aErrorKind,
    message: str,
    call_id: str | int | None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    info = {"@type": _INFO, "reason": kind.reason, "domain": "a2a-protocol.org"}
    error: dict[str, Any] = {"code": kind.code, "message": message, "data": [info]}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": call_id, "error": error})
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, JSON)
