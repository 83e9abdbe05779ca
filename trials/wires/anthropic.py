"""The messages interface of Anthropic, which Claude Code speaks."""

from __future__ import annotations

import json
from typing import Any

from .wire import Call, Turn, events, text_of

_USAGE = {"input_tokens": 1, "output_tokens": 1}


class Messages:
    """`POST /v1/messages` as server-sent events."""

    def is_turn(self, path: str) -> bool:
        """Whether the path is that of a message; a count of tokens is none."""
        return path.endswith("/messages")

    def tools(self, request: Any) -> list[str]:
        """The names of the offered tools."""
        return [str(tool["name"]) for tool in request.get("tools") or () if "name" in tool]

    def results(self, request: Any) -> list[str]:
        """The `tool_result` blocks of the conversation."""
        parts = [part for message in request["messages"] for part in message["content"] if isinstance(part, dict)]
        return [text_of(part.get("content")) for part in parts if part.get("type") == "tool_result"]

    def stream(self, turn: Turn, number: int) -> bytes:
        """One message with one block."""
        if isinstance(turn, Call):
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": turn.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": turn.text}
        message: dict[str, Any] = {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted",
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": _USAGE,
        }  # fmt: skip
        reason = {"stop_reason": "tool_use" if isinstance(turn, Call) else "end_turn", "stop_sequence": None}
        return events(
            (
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": reason, "usage": _USAGE},
                {"type": "message_stop"},
            ),
            named=True,
        )
