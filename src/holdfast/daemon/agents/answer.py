"""Answer of an agent: made from the command's stdout before the verdict, by the rule of the configuration.

The rule changes the text and never the outcome. When the rule does not fit what was written, the answer is the whole
text, and `problem` says why.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ...config.agents import JSON_ANSWER, LAST_LINE, TEXT_ANSWER

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LARGEST = 16 << 20  # bytes of stdout that an answer is made of
_Utf8Decoder = getincrementaldecoder("utf-8")


class AgentAnswer(NamedTuple):
    """The text of an answer. `problem` says why the text does not follow the rule; None when it does."""

    text: str
    problem: str | None = None


def answer_by(rule: str, written: str) -> AgentAnswer:
    """The answer that the rule makes from the command's output."""
    if rule == LAST_LINE:
        lines = [line for line in written.splitlines() if line.strip()]
        return AgentAnswer(lines[-1].strip() if lines else "")
    if rule.startswith(JSON_ANSWER):
        return _json_answer(rule.removeprefix(JSON_ANSWER), written)
    return AgentAnswer(written)


def is_streamed(rule: str) -> bool:
    """Whether the answer can be given while the command writes it."""
    return rule == TEXT_ANSWER


def _json_answer(path: str, written: str) -> AgentAnswer:
    """The value at the path in the JSON output, or in the JSON of its last line.

    Without such a value, the answer is the whole output with a `problem`.
    """
    try:
        found = _document(written)
    except (msgspec.DecodeError, RecursionError):
        return AgentAnswer(written, "the output is not JSON")
    for word in path.split("."):
        if isinstance(found, dict) and word in found:
            found = found[word]
        elif isinstance(found, list) and _is_index(word) and -len(found) <= int(word) < len(found):
            found = found[int(word)]
        else:
            return AgentAnswer(written, f"the output has no {path[:200]}")
    return AgentAnswer(found if isinstance(found, str) else msgspec.json.encode(found).decode())


def _is_index(word: str) -> bool:
    """Whether the word is a number. Labels come from clients: other digits, two signs and huge numbers are refused."""
    digits = word.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 16


def _document(written: str) -> Any:
    try:
        return msgspec.json.decode(written)
    except msgspec.DecodeError:
        return msgspec.json.decode(answer_by(LAST_LINE, written).text)


async def text_of(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[str]:
    """Decode output as text, one piece for each chunk; the same output always gives the same pieces.

    Bytes that are not UTF-8 are replaced, and the text ends after LARGEST bytes.
    """
    decoder, size = _Utf8Decoder("replace"), 0
    async with aclosing(chunks):
        async for chunk in chunks:
            if text := decoder.decode(chunk[: LARGEST - size]):
                yield text
            size += len(chunk)
            if size >= LARGEST:
                break
    if rest := decoder.decode(b"", final=True):
        yield rest
