"""A client of event streams on a bare socket, and a server for them in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn
from starlette.applications import Starlette

from holdfast.access.caller import CALLER, Caller
from holdfast.access.roles import Role
from holdfast.web.connection import Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

PATIENCE_S = 60.0


class Told(NamedTuple):
    """One event as a client sees it. A comment has the type None."""

    id: int | None
    type: str | None
    data: dict[str, Any]


class Stream:
    """An open event stream. Only `next` reads from the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._text = b""
        self.status = 0

    @classmethod
    async def open(cls, path: Path, query: str = "", headers: Mapping[str, str] | None = None) -> Self:
        """Ask for the stream; returns when the daemon has begun it, or refused."""
        reader, writer = await asyncio.open_unix_connection(str(path), limit=1 << 16)
        stream = cls(reader, writer)
        extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        writer.write(f"GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        stream.status = int(head.split()[1])
        return stream

    async def begun(self) -> Self:
        """Wait for the first bytes of the stream: from now on nothing is missed."""
        while b"\n\n" not in self._text:
            await self._more()
        return self

    async def next(self, *, comments: bool = False) -> Told:
        """The next event. EOFError: the daemon ended the stream. ConnectionError: it cut the connection."""
        while True:
            while b"\n\n" not in self._text:
                await self._more()
            block, _, self._text = self._text.partition(b"\n\n")
            told = _told(block.decode())
            if told.type is not None or comments:
                return told

    async def until(self, type_: str) -> list[Told]:
        """All events up to the first of this type, which is the last one here."""
        found = [await self.next()]
        while found[-1].type != type_:
            found.append(await self.next())
        return found

    async def rest(self) -> list[Told]:
        """All events until the stream is ended or cut."""
        found = []
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                found.append(await self.next())
        return found

    async def _more(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            chunk = await self._reader.readexactly(size + 2)
        if size == 0:
            raise EOFError
        self._text += chunk[:-2]

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _told(block: str) -> Told:
    fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
    number = fields.get("id")
    return Told(None if number is None else int(number), fields.get("event"), json.loads(fields.get("data", "{}")))


class Serving(NamedTuple):
    """A running server."""

    path: Path
    server: uvicorn.Server
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """Stop as the daemon does; returns when every connection is gone."""
        self.server.should_exit = True
        await self.task


@contextlib.asynccontextmanager
async def serving(path: Path, routes: Sequence[BaseRoute]) -> AsyncIterator[Serving]:
    """Serve these routes on a Unix socket, with the connection class of Holdfast."""
    config = uvicorn.Config(
        _as_owner(Starlette(routes=routes)),
        uds=str(path),
        http=Connection,
        log_config=None,
        access_log=False,
        lifespan="off",
    )
    server = _Quiet(config)
    task = asyncio.create_task(server.serve())
    await server.up.wait()
    up = Serving(path, server, task)
    try:
        yield up
    finally:
        await up.stop()


def _as_owner(app: ASGIApp) -> ASGIApp:
    """The application behind access checks that let everybody do everything."""

    async def pass_on(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[CALLER] = Caller("socket", Role.ADMIN)
        await app(scope, receive, send)

    return pass_on


class _Quiet(uvicorn.Server):
    """A server that leaves signals alone and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    async def startup(self, *arguments: Any, **options: Any) -> None:
        await super().startup(*arguments, **options)
        self.up.set()
