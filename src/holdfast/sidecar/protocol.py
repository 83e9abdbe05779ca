"""JSON-RPC 2.0 as lines of text: parses a line into calls, encodes answers and notifications."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ..values.errors import HoldfastError, RequestError, RunNotFoundError, SpecError

if TYPE_CHECKING:
    from ..projections.json_rpc import JsonRpcAnswer

PROTOCOLS = (1,)
MOST_IN_BATCH = 1000

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANNOT = -32000
UNKNOWN_RUN = -32001
NOT_INITIALIZED = -32002
NO_COMMON_PROTOCOL = -32003
BUSY = -32004
REFUSED = -32010

Id = str | int | float | None


class RpcCall(NamedTuple):
    """One request; it is a notification when `wants_answer` is False."""

    method: str
    params: dict[str, Any]
    id: Id
    wants_answer: bool


class InvalidCall(NamedTuple):
    """A malformed request, with the error that answers it."""

    id: Id
    error: dict[str, Any]


class RpcMessage(NamedTuple):
    """The calls of one line; the answers to a batch go back together."""

    calls: list[RpcCall | InvalidCall]
    is_batch: bool


class CallError(Exception):
    """A call failed: the error object of its answer."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.error = error(code, message, data)


def error(code: int, message: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    """The error object of an answer."""
    return {"code": code, "message": message} | ({"data": data} if data else {})


def parse(line: bytes) -> RpcMessage:
    """Parse a line into calls. Malformed bytes become calls that are answered with an error, never an exception."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as problem:  # not JSON, not UTF-8, a number of a million digits, or too deep
        return _refused(PARSE_ERROR, f"this line is not JSON: {str(problem)[:200]}")
    if not isinstance(value, list):
        return RpcMessage([_call(value)], is_batch=False)
    if not value or len(value) > MOST_IN_BATCH:
        return _refused(INVALID_REQUEST, f"a batch has 1 to {MOST_IN_BATCH} requests")
    return RpcMessage([_call(item) for item in value], is_batch=True)


def too_long(longest: int) -> RpcMessage:
    """The error for a line that was too long to be kept."""
    return _refused(INVALID_REQUEST, f"the line is longer than {longest} bytes: send large input in pieces")


def _refused(code: int, message: str) -> RpcMessage:
    return RpcMessage([InvalidCall(None, error(code, message))], is_batch=False)


def _call(value: Any) -> RpcCall | InvalidCall:
    if not isinstance(value, dict):
        return InvalidCall(None, error(INVALID_REQUEST, "a request is an object"))
    number = value.get("id")
    known = number if isinstance(number, (str, int, float)) and not isinstance(number, bool) else None
    if "id" in value and known is None and number is not None:
        return InvalidCall(None, error(INVALID_REQUEST, "an id is text or a number"))
    method, params = value.get("method"), value.get("params", {})
    if value.get("jsonrpc") != "2.0" or not isinstance(method, str):
        return InvalidCall(known, error(INVALID_REQUEST, 'a request has "jsonrpc": "2.0" and a method'))
    if not isinstance(params, dict):
        return InvalidCall(known, error(INVALID_PARAMS, "params are given by name, as an object"))
    return RpcCall(method, params, known, wants_answer="id" in value)


def result(number: Id, value: Any) -> dict[str, Any]:
    """The answer to a call that succeeded."""
    return {"jsonrpc": "2.0", "id": number, "result": value}


def failure(number: Id, what: dict[str, Any]) -> dict[str, Any]:
    """The answer to a call that failed."""
    return {"jsonrpc": "2.0", "id": number, "error": what}


def notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A message that the client did not ask for."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def encode(message: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    """Encode a message as one line. In ASCII: file names and arguments that are not UTF-8 survive as escapes."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def outcome_answer(answer: JsonRpcAnswer) -> dict[str, Any]:
    """The result in a JSON-RPC projection of an outcome; CallError when the projection is an error."""
    if answer.error is not None:
        raise CallError(answer.error["code"], answer.error["message"], answer.error["data"])
    return answer.result or {}


def of_holdfast(problem: HoldfastError) -> dict[str, Any]:
    """A library error as the error object of an answer."""
    code = next((code for kind, code in _KINDS if isinstance(problem, kind)), CANNOT)
    data = {"error": type(problem).__name__, "run_id": problem.run_id, "remedy": problem.remedy}
    data["field"] = getattr(problem, "field", None)
    return error(code, str(problem), {name: value for name, value in data.items() if value is not None})


_KINDS = ((SpecError, INVALID_PARAMS), (RunNotFoundError, UNKNOWN_RUN), (RequestError, REFUSED))
