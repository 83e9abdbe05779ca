"""JSON-RPC messages of ACP: parses one line, and makes the lines that the proxy writes itself."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class AcpMessage(NamedTuple):
    """One message. A request has a method and a key, a notification only a method, an answer only a key."""

    body: dict[str, Any]
    method: str | None
    key: str | None  # its id as JSON text, so that 1 and "1" stay two ids

    @property
    def params(self) -> dict[str, Any]:
        """The parameters; empty when they are no object."""
        params = self.body.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def result(self) -> dict[str, Any] | None:
        """The result of an answer, empty when it is no object; None when the answer is an error."""
        if "error" in self.body:
            return None
        result = self.body.get("result")
        return result if isinstance(result, dict) else {}

    @property
    def session_id(self) -> str | None:
        """The session that the message names; None when it names none."""
        session_id = self.params.get("sessionId")
        return session_id if isinstance(session_id, str) else None


def parse(line: bytes) -> AcpMessage | None:
    """Parse a line. None when it is not a JSON object: the proxy passes such a line on as it is."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    method = body.get("method")
    key = json.dumps(body["id"]) if "id" in body else None
    return AcpMessage(body, method if isinstance(method, str) else None, key)


def encode(body: dict[str, Any]) -> bytes:
    """A message as a line."""
    return json.dumps({"jsonrpc": "2.0", **body}, separators=(",", ":")).encode() + b"\n"


def answer(key: str, *, result: Any = None, error: dict[str, Any] | None = None) -> bytes:
    """The answer to the request of this key."""
    return encode({"id": json.loads(key), **({"result": result} if error is None else {"error": error})})


def notification(method: str, params: dict[str, Any]) -> bytes:
    """A notification."""
    return encode({"method": method, "params": params})
