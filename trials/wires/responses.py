"""The responses interface of OpenAI, which Codex speaks."""

from __future__ import annotations

import json
from typing import Any

from .wire import Call, Turn, events, text_of

_USAGE = {
    "input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None,
    "total_tokens": 2,
}  # fmt: skip


class Responses:
    """`POST /v1/responses` as server-sent events."""

    def is_turn(self, path: str) -> bool:
        """Whether the path is that of a response."""
        return path.endswith("/responses")

    def tools(self, request: Any) -> list[str]:
        """The names of the offered tools; a namespace stands before the names of its own tools."""
        names = []
        for tool in request.get("tools") or ():
            if tool.get("type") == "namespace":
                names += [f"{tool['name']}/{inner['name']}" for inner in tool.get("tools", ())]
            elif "name" in tool:
                names.append(str(tool["name"]))
        return names

    def results(self, request: Any) -> list[str]:
        """The outputs of calls in the conversation."""
        kinds = ("function_call_output", "custom_tool_call_output")
        return [text_of(item.get("output")) for item in request.get("input") or () if item.get("type") in kinds]

    def stream(self, turn: Turn, number: int) -> bytes:
        """One response with one item."""
        item: dict[str, Any]
        if isinstance(turn, Call):
            space, _, name = turn.tool.rpartition("/")
            item = {"type": "function_call", "call_id": f"call_{number}", "name": name}
            item["arguments"] = json.dumps(turn.arguments)
            item |= {"namespace": space} if space else {}
        else:
            text = {"type": "output_text", "text": turn.text}
            item = {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": [text]}
        return events(
            (
                {"type": "response.created", "response": {"id": f"resp_{number}"}},
                {"type": "response.output_item.done", "item": item},
                {"type": "response.completed", "response": {"id": f"resp_{number}", "usage": _USAGE}},
            ),
            named=True,
        )
