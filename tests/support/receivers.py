"""A receiver of webhooks: a small HTTP server that gives prepared answers, and keeps the requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
BROKEN = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
SILENCE = b""  # takes the request and never answers
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n" + b"x"  # and a body that never ends


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Give the next of its answers to each request, and the last one for ever after."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers) or [OK]
        self._arrivals: asyncio.Queue[Received] = asyncio.Queue()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.received: list[Received] = []
        self.url = ""

    async def next(self) -> Received:
        """The next request."""
        async with asyncio.timeout(60):
            return await self._arrivals.get()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *fields = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
            body = await reader.readexactly(int(headers["content-length"]))
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            self.received.append(Received(line.split()[1], headers, body))
            self._arrivals.put_nowait(self.received[-1])
            writer.write(answer)
            while answer == ENDLESS:
                writer.write(b"x" * 65536)
                await writer.drain()
            if answer == SILENCE:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            del self._connections[task]
            writer.close()

    async def close(self) -> None:
        served = dict(self._connections)
        for writer in served.values():
            writer.transport.abort()
        if served:
            await asyncio.wait(served)


@contextlib.asynccontextmanager
async def receiver(*answers: bytes) -> AsyncIterator[Receiver]:
    """A receiver that listens."""
    one = Receiver(*answers)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?token=very-secret"
    try:
        yield one
    finally:
        server.close()
        await one.close()
        await server.wait_closed()
