"""The chat completions interface of OpenAI, which OpenCode speaks to a compatible provider."""

from __future__ import annotations

import json
from typing import Any

from .wire import Call, Turn, events, text_of


class ChatCompletions:
    """`POST /v1/chat/completions` as server-sent events."""

    def is_turn(self, path: str) -> bool:
        """Whether the path is that of a completion."""
        return path.endswith("/chat/completions")

    def tools(self, request: Any) -> list[str]:
        """The names of the offered functions."""
        return [str(tool["function"]["name"]) for tool in request.get("tools") or ()]

    def results(self, request: Any) -> list[str]:
        """The messages of tools in the conversation."""
        return [text_of(message.get("content")) for message in request["messages"] if message["role"] == "tool"]

    def stream(self, turn: Turn, number: int) -> bytes:
        """One choice in two chunks, and the mark of the end."""
        delta: dict[str, Any] = {"role": "assistant"}
        if isinstance(turn, Call):
            function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
            delta["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
        else:
            delta["content"] = turn.text
        reason = "tool_calls" if isinstance(turn, Call) else "stop"
        about = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        chunks = (
            {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        )
        return events(chunks) + b"data: [DONE]\n\n"
