"""Answers of agents: what each rule takes out of the output, and that a rule that does not fit loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.daemon.agents.answer import AgentAnswer, answer_by, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Takes the place of the check for processes and descriptors: this is about pure functions."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("rule", "written", "answer"),
    [
        ("text", " a\nb\n", AgentAnswer(" a\nb\n")),
        ("last_line", "a\n b \n\n", AgentAnswer("b")),
        ("last_line", "\n", AgentAnswer("")),
        ("json:result", '{"result": "x"}', AgentAnswer("x")),
        ("json:result", 'noise\n{"result": "x"}\n', AgentAnswer("x")),
        ("json:items.-1.text", '{"items": [1, {"text": "last"}]}', AgentAnswer("last")),
        ("json:n", '{"n": {"a": [1, null]}}', AgentAnswer('{"a":[1,null]}')),
        ("json:0", '["first"]', AgentAnswer("first")),
        ("json:5", '["first"]', AgentAnswer('["first"]', "the output has no 5")),
        ("json:--5", "[1, 2]", AgentAnswer("[1, 2]", "the output has no --5")),
        ("json:\u00b2", "[1, 2]", AgentAnswer("[1, 2]", "the output has no \u00b2")),
        (f"json:{'9' * 5000}", "[1]", AgentAnswer("[1]", f"the output has no {'9' * 200}")),
        ("json:a.b", '{"a": "text"}', AgentAnswer('{"a": "text"}', "the output has no a.b")),
        ("json:a", "nothing", AgentAnswer("nothing", "the output is not JSON")),
        ("json:a", "", AgentAnswer("", "the output is not JSON")),
    ],
)
def test_the_rules(rule: str, written: str, answer: AgentAnswer) -> None:
    assert answer_by(rule, written) == answer


@pytest.mark.anyio
async def test_characters_are_not_cut_by_the_pieces_they_come_in() -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        for byte in "aé€".encode() + b"\xff\xe2":
            yield bytes([byte])

    assert [text async for text in text_of(pieces())] == ["a", "é", "€", "\ufffd", "\ufffd"]
