"""An MCP server with one tool, `echo`, that ignores the end of its stdin. A trial starts it with any Python 3."""

import json
import signal
import sys

_TOOL = {
    "name": "echo",
    "description": "Says the text again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(request: dict) -> dict:  # type: ignore[type-arg]
    """The result of a request."""
    method, parameters = request["method"], request.get("params") or {}
    if method == "initialize":
        about = {"name": "trial", "version": "1"}
        return {"protocolVersion": parameters["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [_TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "echo-" + parameters["arguments"]["text"]}]}
    return {}


def main() -> None:
    """Serve until the end of the input, and stay."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}), flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
