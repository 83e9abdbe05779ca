"""Request of the Responses API: the fields that mean something for an agent, and the prompt they make."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Role = Literal["user", "assistant", "system", "developer"]


class TextPart(msgspec.Struct):
    """A piece of a message. Agents take text and nothing else."""

    type: Literal["input_text", "output_text"]
    text: str


class Message(msgspec.Struct):
    """One message of the input."""

    role: Role
    content: str | list[TextPart]
    type: Literal["message"] = "message"

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class CreateResponse(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is posted to create a response."""

    model: str
    input: Annotated[str, Meta(min_length=1)] | Annotated[list[Message], Meta(min_length=1)]
    instructions: str | None = None
    background: bool | None = None
    stream: bool | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None

    @property
    def prompt(self) -> str:
        """The prompt: the instructions, then the input. Messages carry their roles when there are several."""
        return "\n\n".join(part for part in (self.instructions, self._input()) if part)

    def _input(self) -> str:
        if isinstance(self.input, str):
            return self.input
        if len(self.input) == 1:
            return self.input[0].text
        return "\n\n".join(f"{message.role}: {message.text}" for message in self.input)
