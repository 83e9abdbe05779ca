"""A wire: how one model interface writes a tool call and a text, and where it has the tools and their results."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Call:
    """The model asks for a tool, whose name ends like this, with these arguments."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Say:
    """The model says this, which ends its turn."""

    text: str


Turn = Call | Say


class Wire(Protocol):
    """One model interface. A request is the JSON that a harness posted."""

    def is_turn(self, path: str) -> bool:
        """Whether a request to this path wants an answer of the model."""
        ...

    def tools(self, request: Any) -> list[str]:
        """The names of the tools that the request offers; none for side requests, such as a title."""
        ...

    def results(self, request: Any) -> list[str]:
        """The results of tools in the conversation, oldest first, as the model reads them."""
        ...

    def stream(self, turn: Turn, number: int) -> bytes:
        """The answer as server-sent events. `number` makes its ids differ from those of other answers."""
        ...


def events(payloads: Iterable[Mapping[str, Any]], *, named: bool = False) -> bytes:
    """Server-sent events; `named` ones carry the payload's type as their event."""
    head = "event: {}\n" if named else ""
    return "".join(head.format(one.get("type")) + f"data: {json.dumps(one)}\n\n" for one in payloads).encode()


def text_of(content: Any) -> str:
    """The text in a content that is a string, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text_of(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else json.dumps(content, ensure_ascii=False)
