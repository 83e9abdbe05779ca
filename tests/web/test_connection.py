"""One connection, with applications that show its input: complete requests, refusals, and notices of disconnects."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.web.connection import LONGEST_HEAD, Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BOUND_S = 60.0
GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"


class Client:
    """A connection to the served application."""

    def __init__(self) -> None:
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self.has_come, self.is_refused, self._is_lost = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def connect(self, path: Path) -> None:
        self.reader, self.writer = await asyncio.open_unix_connection(str(path))

    def watched(self, protocol: type[HttpToolsProtocol]) -> type[HttpToolsProtocol]:
        """The same connection class, with its observations known here."""
        one = self

        class Watched(protocol):  # type: ignore[valid-type, misc]
            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                one.has_come.set()

            def send_400_response(self, msg: str) -> None:
                super().send_400_response(msg)
                one.is_refused.set()

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                one._is_lost.set()

        return Watched

    async def ask(self, data: bytes) -> bytes:
        """All answers until the other side closes."""
        self.writer.write(data)
        return await self.reader.read()

    async def leave(self) -> None:
        """Close, and return when the server has seen it."""
        self.writer.close()
        await self._is_lost.wait()


@asynccontextmanager
async def client(app: ASGIApp, path: Path, protocol: type[HttpToolsProtocol] = Connection) -> AsyncIterator[Client]:
    config = uvicorn.Config(app, http=protocol, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    one = Client()
    watched = one.watched(protocol)
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: watched(config, state, {}), str(path / "socket"))
    async with asyncio.timeout(BOUND_S), server:
        await one.connect(path / "socket")
        try:
            yield one
        finally:
            await one.leave()
            for task in list(state.tasks):
                task.cancel()
            await asyncio.gather(*state.tasks, return_exceptions=True)


async def body_of(receive: Receive) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return body


async def answer(send: Send, body: bytes) -> None:
    start: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    names = b" ".join(name for name, _ in scope["headers"])
    await answer(send, scope["path"].encode() + b" [" + await body_of(receive) + b"] " + names + b"\n")


def asked(data: bytes, path: Path, app: ASGIApp = echo, protocol: type[HttpToolsProtocol] = Connection) -> bytes:
    async def main() -> bytes:
        async with client(app, path, protocol) as one:
            return await one.ask(data)

    return asyncio.run(main())


def test_requests_that_come_together_are_answered_in_their_order(tmp_path: Path) -> None:
    found = asked(GET % b"/1" + GET % b"/2" + LAST % b"/3", tmp_path)
    assert [line[:2] for line in found.split(b"\n") if line[:1] == b"/"] == [b"/1", b"/2", b"/3"]


OFFER = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc"
)


@pytest.mark.parametrize(
    ("protocol", "found"), [(Connection, b"/ [abc] "), pytest.param(HttpToolsProtocol, b"/ [] ", id="control")]
)
def test_an_offer_to_upgrade_takes_nothing_from_the_body(
    tmp_path: Path, protocol: type[HttpToolsProtocol], found: bytes
) -> None:
    assert found in asked(OFFER, tmp_path, protocol=protocol)


def test_an_offer_in_a_head_of_two_pieces_is_refused_and_no_body_is_lost_unsaid(tmp_path: Path) -> None:
    async def main() -> bytes:
        async with client(echo, tmp_path) as one:
            one.writer.write(OFFER[:30])
            await one.has_come.wait()
            return await one.ask(OFFER[30:])

    assert asyncio.run(main()).startswith(b"HTTP/1.1 400")


def test_what_is_no_http_takes_no_answer_from_the_request_before_it(tmp_path: Path) -> None:
    found = asked(GET % b"/1" + b"\x00 no HTTP\r\n\r\n" + LAST % b"/2", tmp_path)
    assert b"/1 [" in found
    assert b" 400 " not in found
    assert b"/2 [" not in found


@pytest.mark.parametrize(
    ("protocol", "is_taken"), [(Connection, False), pytest.param(HttpToolsProtocol, True, id="control")]
)
def test_a_trailer_is_not_taken_for_a_header(tmp_path: Path, protocol: type[HttpToolsProtocol], is_taken: bool) -> None:
    found = asked(CHUNKED + b"0\r\nIdempotency-Key: late\r\n\r\n", tmp_path, protocol=protocol)
    assert b"/ [abc]" in found
    assert (b"idempotency-key" in found) is is_taken


@pytest.mark.parametrize(
    ("request_", "is_taken"),
    [
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nConnection: close\r\nHost: a\r\nHost: a\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", True),  # it did not exist then
    ],
)
def test_a_request_has_one_host(tmp_path: Path, request_: bytes, is_taken: bool) -> None:
    found = asked(request_, tmp_path)
    assert found.startswith(b"HTTP/1.1 200" if is_taken else b"HTTP/1.1 400")
    assert is_taken or b"application/problem+json" in found


@pytest.mark.parametrize("begun", [b"GET /", b"GET / HTTP/1.1\r\nHost: ", b"GET / HTTP/1.1\r\nHost: a\r\nX-"])
def test_a_head_that_never_becomes_whole_is_refused(tmp_path: Path, begun: bytes) -> None:
    assert asked(begun + b"x" * (LONGEST_HEAD + 1), tmp_path).startswith(b"HTTP/1.1 400")


class Impatient(Connection):
    """A connection whose time is up as soon as something has come, or at once."""

    waits_for_something = True

    @property
    def _head_s(self) -> float:
        return 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.waits_for_something:
            self._disarm()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._asked:
            self._disarm()
            self._arm()


class AtOnce(Impatient):
    waits_for_something = False


@pytest.mark.parametrize("begun", [b"G", b"GET /", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_whose_time_is_up_is_told_so(tmp_path: Path, begun: bytes) -> None:
    head, _, body = asked(begun, tmp_path, protocol=Impatient).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"content-type: application/problem+json" in head
    said = json.loads(body)
    assert (said["type"], said["status"]) == ("urn:holdfast:problem:too-slow", 408)
    assert "the head of the request was not complete after 0 s" in said["detail"]


def test_a_whole_head_is_in_time_and_who_asks_nothing_is_told_nothing(tmp_path: Path) -> None:
    assert asked(LAST % b"/1", tmp_path, protocol=Impatient).startswith(b"HTTP/1.1 200")
    assert asked(b"", tmp_path, protocol=AtOnce) == b""


@pytest.mark.parametrize("begun", [b"3;", b"0\r\nX-"])
def test_neither_are_the_words_around_a_body_endless(tmp_path: Path, begun: bytes) -> None:
    has_body = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        has_body.set()
        await asyncio.Event().wait()

    async def main() -> bytes:
        async with client(app, tmp_path) as one:
            one.writer.write(CHUNKED)
            await has_body.wait()
            return await one.ask(begun + b"x" * (LONGEST_HEAD + 1))

    assert asyncio.run(main()).startswith(b"HTTP/1.1 400")


def test_small_pieces_of_a_body_are_no_endless_words(tmp_path: Path) -> None:
    pieces = LONGEST_HEAD  # each of them with five bytes around it
    found = asked(CHUNKED + b"1\r\nx\r\n" * pieces + b"0\r\n\r\n", tmp_path)
    assert b"/ [abc" + b"x" * pieces + b"]" in found


@pytest.mark.parametrize(
    ("protocol", "told"), [(Connection, ["/1"]), pytest.param(HttpToolsProtocol, [], id="control")]
)
def test_whoever_is_being_answered_is_told_that_the_client_went_away(
    tmp_path: Path, protocol: type[HttpToolsProtocol], told: list[str]
) -> None:
    begun, found = asyncio.Event(), []

    async def app(scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        begun.set()
        await receive()
        found.append(scope["path"])

    async def main() -> None:
        async with client(app, tmp_path, protocol) as one:
            one.writer.write(GET % b"/1" + GET % b"/2")  # the second request waits for its turn
            await begun.wait()
            await one.leave()
            for _ in range(10):
                await asyncio.sleep(0)
            assert found == told

    asyncio.run(main())


def test_a_refusal_is_never_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    is_refused = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        await is_refused.wait()
        await send({"type": "http.response.body", "body": b"rest"})

    async def main() -> bytes:
        async with client(app, tmp_path) as one:
            one.writer.write(GET % b"/1")
            await one.has_come.wait()
            one.writer.write(b"\x00 no HTTP\r\n\r\n")
            await one.is_refused.wait()
            is_refused.set()
            return await one.reader.read()

    assert asyncio.run(main()).endswith(b"\r\n\r\npartrest")
