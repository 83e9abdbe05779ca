"""Answers of agents: what each rule takes out of the output, and that a rule that does not fit loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.daemon.agents.answer import Answer, answer_by, text_of

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
        ("text", " a\nb\n", Answer(" a\nb\n")),
        ("last_line", "a\n b \n\n", Answer("b")),
        ("last_line", "\n", Answer("")),
        ("json:result", '{"result": "x"}', Answer("x")),
        ("json:result", 'noise\n{"result": "x"}\n', Answer("x")),
        ("json:items.-1.text", '{"items": [1, {"text": "last"}]}', Answer("last")),
        ("json:n", '{"n": {"a": [1, null]}}', Answer('{"a":[1,null]}')),
        ("json:0", '["first"]', Answer("first")),
        ("json:5", '["first"]', Answer('["first"]', "the output has no 5")),
        ("json:a.b", '{"a": "text"}', Answer('{"a": "text"}', "the output has no a.b")),
        ("json:a", "nothing", Answer("nothing", "the output is not JSON")),
        ("json:a", "", Answer("", "the output is not JSON")),
    ],
)
def test_the_rules(rule: str, written: str, answer: Answer) -> None:
    assert answer_by(rule, written) == answer


@pytest.mark.anyio
async def test_characters_are_not_cut_by_the_pieces_they_come_in() -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        for byte in "aé€".encode() + b"\xff\xe2":
            yield bytes([byte])

    assert [text async for text in text_of(pieces())] == ["a", "é", "€", "\ufffd", "\ufffd"]
