"""Requests of A2A: the JSON-RPC call, and the parameters of the methods that the door has."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .errors import CONTENT_TYPE, INVALID_PARAMS, A2aError


class A2aCall(msgspec.Struct):
    """A JSON-RPC call."""

    jsonrpc: Literal["2.0"]
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | int | None = None


class Part(msgspec.Struct):
    """A piece of a message. Agents take text and nothing else."""

    text: str | None = None


class SentMessage(msgspec.Struct, rename="camel", kw_only=True):
    """The message of a client."""

    message_id: str
    role: Literal["ROLE_USER"]
    parts: list[Part]
    context_id: str | None = None
    task_id: str | None = None

    @property
    def text(self) -> str:
        """The text of all parts. A2aError: one of them is no text."""
        found = [part.text for part in self.parts if part.text is not None]
        if len(found) < len(self.parts):
            raise A2aError(CONTENT_TYPE, "agents take parts with text and nothing else")
        return "\n\n".join(found)


class PushTarget(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Where to post the verdict. Deliveries are signed, so the door sends neither a token nor credentials."""

    url: str
    id: str | None = None
    task_id: str | None = None
    tenant: str | None = None


class SendConfiguration(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """How a client wants its answer."""

    accepted_output_modes: list[str] = []
    task_push_notification_config: PushTarget | None = None
    history_length: int | None = None
    return_immediately: bool = False


class SendMessage(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The parameters of SendMessage and SendStreamingMessage."""

    message: SentMessage
    configuration: SendConfiguration = msgspec.field(default_factory=SendConfiguration)
    tenant: str | None = None
    metadata: dict[str, Any] | None = None


class OneTask(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The parameters of GetTask, CancelTask and SubscribeToTask."""

    id: str
    tenant: str | None = None
    history_length: int | None = None
    metadata: dict[str, Any] | None = None


def params_of(call: A2aCall, wanted: type[Any]) -> Any:
    """The parameters of the call. A2aError: they are not of this type."""
    try:
        return msgspec.json.decode(call.params, type=wanted)
    except msgspec.MsgspecError as error:
        raise A2aError(INVALID_PARAMS, str(error)) from None
