"""The generateContent interface of Gemini, which Gemini CLI speaks."""

from __future__ import annotations

from typing import Any

from .wire import Call, Turn, events, text_of


class GenerateContent:
    """`POST /v1beta/models/NAME:streamGenerateContent` as server-sent events."""

    def is_turn(self, path: str) -> bool:
        """Whether the path is that of a streamed answer; side requests do not stream."""
        return path.endswith(":streamGenerateContent")

    def tools(self, request: Any) -> list[str]:
        """The names of the declared functions."""
        declared = [one for tool in request.get("tools") or () for one in tool.get("functionDeclarations", ())]
        return [str(one["name"]) for one in declared]

    def results(self, request: Any) -> list[str]:
        """The responses of functions in the conversation."""
        parts = [part for content in request["contents"] for part in content.get("parts", ())]
        found = [part["functionResponse"].get("response", {}) for part in parts if "functionResponse" in part]
        return [text_of(one.get("output") or one.get("error") or one) for one in found]

    def stream(self, turn: Turn, number: int) -> bytes:
        """One candidate with one part."""
        part: dict[str, Any]
        if isinstance(turn, Call):
            part = {"functionCall": {"id": f"call_{number}", "name": turn.tool, "args": dict(turn.arguments)}}
        else:
            part = {"text": turn.text}
        candidate = {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [part]}}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return events([{"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}])
