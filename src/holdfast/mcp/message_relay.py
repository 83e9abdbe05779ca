"""Message relay between a client and the server: it knows which tool calls have no answer yet.

The `mcp` library forgets a request before its answer is on the wire, and drops unsent answers when its input ends. So
before we end the input ourselves, we wait until the relay has sent every answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.shared._stream_protocols import ReadStream, WriteStream

    Incoming = SessionMessage | Exception


class MessageRelay:
    """Passes one client's messages to the server and back, and remembers open calls."""

    def __init__(self) -> None:
        self._calls: set[str] = set()
        self._is_answered = anyio.Event()

    async def serve(
        self, server: Server, incoming: ReadStream[Incoming], outgoing: WriteStream[SessionMessage]
    ) -> None:
        """Relay messages until the input ends."""
        to_server, from_client = anyio.create_memory_object_stream["Incoming"](0)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)

        async def ask() -> None:
            async with to_server:
                async for message in incoming:
                    if isinstance(message, SessionMessage):
                        self._see_incoming(message)
                    await to_server.send(message)

        async def answer() -> None:
            async with outgoing:
                async for message in from_server:
                    await outgoing.send(message)
                    self._see_outgoing(message)

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(answer)
            await server.run(from_client, to_client, server.create_initialization_options())

    async def wait_answered(self) -> None:
        """Wait until every call has its answer."""
        while self._calls:
            self._is_answered = anyio.Event()
            await self._is_answered.wait()

    def _see_incoming(self, message: SessionMessage) -> None:
        match message.message:
            case JSONRPCRequest(id=asked, method="tools/call"):
                self._calls.add(str(asked))
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": given_up}):
                self._forget(given_up)  # a cancelled call gets no answer

    def _see_outgoing(self, message: SessionMessage) -> None:
        match message.message:
            case JSONRPCResponse(id=answered) | JSONRPCError(id=answered):
                self._forget(answered)

    def _forget(self, request_id: object) -> None:
        self._calls.discard(str(request_id))
        self._is_answered.set()
