"""The scripted model on each wire: it plays its turns, names tools in full, and keeps what it was told."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from trials.model import Model
from trials.wires.anthropic import Messages
from trials.wires.chat import ChatCompletions
from trials.wires.gemini import GenerateContent
from trials.wires.responses import Responses
from trials.wires.wire import Call, Say

if TYPE_CHECKING:
    from trials.wires.wire import Wire

CALL = Call("echo", {"text": "hello"})
FUNCTION = {"name": "mcp__trial__echo"}
# For each wire: the path, a request with a tool, and the same request after a call, with its result.
ASKED: dict[str, tuple[Wire, str, Any, Any]] = {
    "messages": (
        Messages(),
        "/v1/messages",
        {"tools": [FUNCTION], "messages": [{"role": "user", "content": "go"}]},
        {"tools": [FUNCTION], "messages": [{"role": "user", "content": [
            {"type": "tool_result", "content": [{"type": "text", "text": "it "}, {"type": "text", "text": "said"}]},
        ]}]},
    ),
    "responses": (
        Responses(),
        "/v1/responses",
        {"tools": [{"type": "function", **FUNCTION}], "input": []},
        {"tools": [{"type": "function", **FUNCTION}], "input": [{"type": "function_call_output", "output": "it said"}]},
    ),
    "gemini": (
        GenerateContent(),
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {"tools": [{"functionDeclarations": [FUNCTION]}], "contents": []},
        {"tools": [{"functionDeclarations": [FUNCTION]}], "contents": [
            {"role": "user", "parts": [{"functionResponse": {"response": {"output": "it said"}}}]},
        ]},
    ),
    "chat": (
        ChatCompletions(),
        "/v1/chat/completions",
        {"tools": [{"function": FUNCTION}], "messages": []},
        {"tools": [{"function": FUNCTION}], "messages": [{"role": "tool", "content": "it said"}]},
    ),
}  # fmt: skip


def post(model: Model, path: str, body: Any) -> str:
    """What the model answers."""
    request = urllib.request.Request(model.url + path, json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("name", ASKED)
def test_a_script_is_played_turn_by_turn(name: str) -> None:
    wire, path, first, second = ASKED[name]
    with Model(wire) as model:
        model.play([CALL])
        called = post(model, path, first)
        ended = post(model, path, second)
    assert "mcp__trial__echo" in called
    assert "hello" in called
    assert "mcp__trial__echo" not in ended
    assert "done" in ended
    assert [request.results for request in model.requests] == [[], ["it said"]]
    assert [request.answer for request in model.requests] == [Call("mcp__trial__echo", CALL.arguments), Say("done")]
    assert model.unknown == []


@pytest.mark.parametrize("name", ASKED)
def test_a_side_request_without_tools_leaves_the_script_alone(name: str) -> None:
    wire, path, first, _ = ASKED[name]
    with Model(wire) as model:
        model.play([CALL])
        assert "done" in post(model, path, {**first, "tools": []})
        assert "hello" in post(model, path, first)
        assert post(model, "/v1/something/else", {}) == "{}"
    assert len(model.requests) == 1
    assert model.others == ["/v1/something/else"]


def test_a_tool_that_is_not_offered_is_noticed() -> None:
    wire, path, first, _ = ASKED["messages"]
    with Model(wire) as model:
        model.play([Call("Bash", {"command": "true"})])
        assert "done" in post(model, path, first)
    assert model.unknown == ["Bash is not among mcp__trial__echo"]


def test_every_event_is_json() -> None:
    for wire, _, _, _ in ASKED.values():
        for turn in (CALL, Say("a\nb")):
            lines = [line for line in wire.stream(turn, 1).decode().splitlines() if line.startswith("data: ")]
            for line in lines:
                assert line == "data: [DONE]" or isinstance(json.loads(line.removeprefix("data: ")), dict)


def test_a_tool_in_a_namespace_is_called_in_it() -> None:
    request = {"tools": [{"type": "namespace", "name": "mcp__trial", "tools": [{"name": "echo"}]}], "input": []}
    assert Responses().tools(request) == ["mcp__trial/echo"]
    called = Responses().stream(Call("mcp__trial/echo"), 1).decode()
    assert '"name": "echo"' in called
    assert '"namespace": "mcp__trial"' in called
