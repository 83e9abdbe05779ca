"""Errors of the Responses API: every refusal in the words that clients of that API know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from ....values.errors import HoldfastError
from ....web.problems import PREFIX, ProblemError, problem_of
from ....web.request_body import JSON
from ...agents.agent_runs import UnknownAgentError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_PARAMS = {"prompt": "input", "argv": "input", "labels": "metadata"}
_UNKNOWN_FIELD = "Object contains unknown field `"


def respond_in_words(error: ProblemError | HoldfastError) -> Response:
    """The answer that carries this error."""
    if isinstance(error, UnknownAgentError):
        return _answer(404, error.message, param="model", code="model_not_found")
    if isinstance(error, HoldfastError):
        error = problem_of(error)
    problem = error.problem
    status = 400 if problem.status == 422 else problem.status  # the SDK has no class of its own for 422
    detail = problem.detail or problem.title
    code, param = problem.type.removeprefix(PREFIX), problem.field
    if detail.startswith(_UNKNOWN_FIELD):
        param, code = detail.removeprefix(_UNKNOWN_FIELD).rstrip("`"), "unknown_parameter"
        detail = f"this door has no parameter {param!r}"
    elif problem.remedy is not None:
        detail = f"{detail}: {problem.remedy}"
    return _answer(status, detail, param=_PARAMS.get(param or "", param), code=code, headers=error.headers)


def _answer(
    status: int, message: str, *, param: str | None, code: str, headers: Mapping[str, str] | None = None
) -> Response:
    type_ = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    body = {"error": {"message": message, "type": type_, "param": param, "code": code}}
    return Response(msgspec.json.encode(body), status, {"Cache-Control": "no-store", **(headers or {})}, JSON)
