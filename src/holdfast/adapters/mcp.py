"""MCP client transport: a stdio server whose whole tree ends with the client. Needs the extra `mcp`.

```python
async with Client(stdio_client(StdioServerParameters(command="uvx", args=["server"]))) as client: ...
```
"""

from __future__ import annotations

import logging
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import mcp_types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from ..streams.lines import LONGEST_LINE
from .line_server import open_line_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import TextIO, Unpack

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client.stdio import StdioServerParameters

    from ..values.options import SpecOptions
    from .line_server import LineServer

    Incoming = SessionMessage | Exception
    Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]

_log = logging.getLogger("holdfast")


@asynccontextmanager
async def stdio_client(
    server: StdioServerParameters, errlog: TextIO = sys.stderr, **options: Unpack[SpecOptions]
) -> AsyncIterator[Streams]:
    """The streams of a stdio server, as `mcp.client.stdio.stdio_client` has them. The options are those of a run.

    The server gets the environment that `mcp` gives it: a few variables and its own. FileNotFoundError: no such server.
    """
    settings: SpecOptions = {
        "env": get_default_environment() | (server.env or {}),
        "env_drop": ["*"],
        "cwd": None if server.cwd is None else str(server.cwd),
        "stderr": errlog.fileno(),
        **options,
    }
    async with (
        open_line_server([server.command, *server.args], **settings) as lines,
        anyio.create_task_group() as group,
    ):
        to_client, from_server = anyio.create_memory_object_stream["Incoming"](0)
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        group.start_soon(_read, lines, to_client, server)
        group.start_soon(_write, lines, from_client, to_client, server)
        with from_server, to_server:
            yield from_server, to_server
        group.cancel_scope.cancel()


async def _read(lines: LineServer, client: MemoryObjectSendStream[Incoming], server: StdioServerParameters) -> None:
    async with client:
        async for line in lines.lines(LONGEST_LINE):
            try:
                await client.send(_message(line, server))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the session is gone


def _message(line: bytes | None, server: StdioServerParameters) -> Incoming:
    """The message of a line, or the error for the session: `mcp` passes both on the same stream."""
    try:
        if line is None:
            raise ValueError(f"a message is longer than {LONGEST_LINE} bytes")
        text = line.decode(server.encoding, server.encoding_error_handler)
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        _log.warning("MCP server %s: a line is not a message: %s", server.command, error)
        return error


async def _write(
    lines: LineServer,
    messages: MemoryObjectReceiveStream[SessionMessage],
    client: MemoryObjectSendStream[Incoming],
    server: StdioServerParameters,
) -> None:
    async with messages:
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            if not await lines.send(text.encode(server.encoding, server.encoding_error_handler)):
                await client.aclose()  # the server does not listen: the session sees the end, and no call hangs
                return
