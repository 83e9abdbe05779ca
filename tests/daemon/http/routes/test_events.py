"""GET /v1/events over a real socket, read by clients that behave and by clients that do not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
from starlette.requests import Request

from holdfast.client.sse import EventParser
from holdfast.daemon.events.event import EventFilter
from holdfast.daemon.events.event_log import EventLog, EventLogBounds
from holdfast.daemon.http.routes import events
from holdfast.daemon.store.store import Store
from holdfast.values.errors import SpecError
from tests.support.publishing import published

from ....support.streams import PATIENCE_S, Serving, Stream, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from holdfast.daemon.events.subscription import Subscription
    from holdfast.daemon.service.service import Service

pytestmark = pytest.mark.anyio
KIB = "x" * 1024


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Up(NamedTuple):
    log: EventLog
    serving: Serving
    path: Path


class WatchedLog(EventLog):
    """A log that says when a subscriber has left."""

    def __init__(self, store: Store, bounds: EventLogBounds) -> None:
        super().__init__(store, bounds)
        self.left: asyncio.Queue[Subscription] = asyncio.Queue()

    def forget(self, subscription: Subscription) -> None:
        super().forget(subscription)
        self.left.put_nowait(subscription)


@asynccontextmanager
async def up(directory: Path, bounds: EventLogBounds = EventLogBounds()) -> AsyncIterator[Up]:  # noqa: B008
    store = Store.open(str(directory / "daemon.sqlite"))
    log = WatchedLog(store, bounds)
    await log.start()
    routes = events.routes(cast("Service", SimpleNamespace(subscribe=log.subscribe)))
    try:
        async with serving(directory / "sock", routes) as server:
            yield Up(log, server, directory / "sock")
            await log.stop()
    finally:
        store.close()


async def publish(log: EventLog, first: int, last: int, **data: Any) -> None:
    for number in range(first, last + 1):
        assert await published(log, "run.queued", f"run-{number}", data) == number


async def test_events_have_ids_types_and_json(tmp_path: Path) -> None:
    async with up(tmp_path) as daemon, await Stream.open(daemon.path) as stream:
        await stream.begun()
        await published(daemon.log, "run.verdict", "a", {"report": {"status": "timed_out"}})
        await published(daemon.log, "service.shutdown", None, {"budget_s": 60, "busy": ["a"]})
        first, second = await stream.next(), await stream.next()
        assert (first.id, first.type, first.data["run_id"]) == (1, "run.verdict", "a")
        assert first.data["report"] == {"status": "timed_out"}
        assert (second.id, second.type, second.data["busy"]) == (2, "service.shutdown", ["a"])


@pytest.mark.parametrize(
    ("query", "headers", "first"),
    [
        ("?after=0", {}, 1),
        ("?after=3", {}, 4),
        ("", {"Last-Event-ID": "4"}, 5),
        ("?after=0", {"Last-Event-ID": "4"}, 5),
        ("?after=0&run_id=run-5", {}, 5),
        ("?after=0&types=run.queued,run.verdict&run_id=run-2&run_id=run-3", {}, 2),
    ],
)
async def test_a_client_goes_on_where_it_was(tmp_path: Path, query: str, headers: dict[str, str], first: int) -> None:
    async with up(tmp_path) as daemon:
        await publish(daemon.log, 1, 5)
        async with await Stream.open(daemon.path, query, headers) as stream:
            assert (await stream.next()).id == first


@pytest.mark.parametrize(("query", "known"), [("", "5"), ("?after=3&run_id=none", "3")])
async def test_a_stream_that_breaks_before_its_first_event_has_an_id_to_come_back_with(
    tmp_path: Path, query: str, known: str
) -> None:
    async with up(tmp_path) as daemon:
        await publish(daemon.log, 1, 5)
        reader, writer = await asyncio.open_unix_connection(daemon.path)
        writer.write(f"GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        hello = await reader.readuntil(b": events\n") + await reader.readuntil(b"\n\n")
        writer.close()
        parser = EventParser()
        assert parser.feed(hello[hello.index(b"retry:") :]) == []
        assert parser.last_id == known


async def test_a_reconnect_misses_nothing_while_events_come(tmp_path: Path) -> None:
    async with up(tmp_path) as daemon:
        publishing = asyncio.create_task(publish(daemon.log, 1, 300))
        seen: list[int | None] = []
        while len(seen) < 300:
            headers = {"Last-Event-ID": str(seen[-1] if seen else 0)}
            async with await Stream.open(daemon.path, "", headers) as stream:
                for _ in range(min(30, 300 - len(seen))):
                    seen.append((await stream.next()).id)  # noqa: PERF401
        assert seen == list(range(1, 301))
        await publishing


async def test_a_stalled_client_slows_nobody_and_finds_everything_when_it_comes_back(tmp_path: Path) -> None:
    """More is published than fits into all buffers on the way to a client that does not read its socket."""
    async with up(tmp_path, EventLogBounds(heartbeat_s=0.5)) as daemon:
        stalled, healthy = await Stream.open(daemon.path), await Stream.open(daemon.path)
        await stalled.begun()
        await healthy.begun()
        pause_reading(stalled)
        total = 1500

        async def read_all() -> list[int | None]:
            return [(await healthy.next()).id for _ in range(total)]

        reading = asyncio.create_task(read_all())
        await publish(daemon.log, 1, total, text=KIB)
        assert await reading == list(range(1, total + 1))
        async with asyncio.timeout(PATIENCE_S):
            await cast("WatchedLog", daemon.log).left.get()  # the stalled client, though it has not read anything
        assert (daemon.log.dropped, daemon.log.subscribers) == (1, 1)
        resume_reading(stalled)
        seen = [told.id for told in await stalled.rest() if told.id is not None]
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) < total
        async with await Stream.open(daemon.path, "", {"Last-Event-ID": str(seen[-1])}) as back:
            assert [(await back.next()).id for _ in range(total - len(seen))] == list(range(seen[-1] + 1, total + 1))
        await stalled.close()
        await healthy.close()


async def test_a_client_that_only_paused_gets_everything_on_the_same_stream(tmp_path: Path) -> None:
    async with up(tmp_path) as daemon, await Stream.open(daemon.path) as slow:
        await slow.begun()
        pause_reading(slow)
        total = 2500
        await asyncio.gather(*[published(daemon.log, "run.queued", str(n), {"text": KIB}) for n in range(total)])
        resume_reading(slow)
        assert [(await slow.next()).id for _ in range(total)] == list(range(1, total + 1))
        assert daemon.log.dropped == 0


async def test_the_server_leaves_though_streams_are_open_and_one_is_stuck(tmp_path: Path) -> None:
    async with up(tmp_path) as daemon:
        stuck, open_one = await Stream.open(daemon.path), await Stream.open(daemon.path)
        await stuck.begun()
        await open_one.begun()
        pause_reading(stuck)
        read = asyncio.create_task(open_one.until("service.shutdown"))
        await publish(daemon.log, 1, 1000, text=KIB)
        await published(daemon.log, "service.shutdown", None, {})
        assert len(await read) == 1001
        began = asyncio.get_running_loop().time()
        await daemon.log.stop()
        await daemon.serving.stop()
        assert asyncio.get_running_loop().time() - began < 20
        assert await open_one.rest() == []
        for one in (stuck, open_one):
            await one.close()


async def test_a_client_that_leaves_is_noticed_though_nothing_happens(tmp_path: Path) -> None:
    async with up(tmp_path) as daemon:
        stream = await (await Stream.open(daemon.path)).begun()
        assert daemon.log.subscribers == 1
        await stream.close()
        async with asyncio.timeout(PATIENCE_S):
            await cast("WatchedLog", daemon.log).left.get()
        assert (daemon.log.subscribers, daemon.log.dropped) == (0, 0)


async def test_late_output_and_content_only_for_those_who_ask(tmp_path: Path) -> None:
    async with up(tmp_path) as daemon:
        plain = await (await Stream.open(daemon.path)).begun()
        full = await (await Stream.open(daemon.path, "?output=1&late=1")).begun()
        daemon.log.output("a", None, "stdout", 0, b"on time")
        daemon.log.output("a", None, "stdout", 7, b"late", late=True)
        await published(daemon.log, "run.settled", "a", {})
        told = await plain.until("run.settled")
        assert [one.data for one in told[:-1]] == [
            {"run_id": "a", "stream": "stdout", "offset": 0, "length": 7, "late": False}
        ]
        told = await full.until("run.settled")
        assert [(one.id, one.data["data"], one.data["late"]) for one in told[:-1]] == [
            (None, "b24gdGltZQ==", False),
            (None, "bGF0ZQ==", True),
        ]
        await plain.close()
        await full.close()


async def test_a_quiet_stream_has_heartbeats(tmp_path: Path) -> None:
    async with up(tmp_path, EventLogBounds(heartbeat_s=0.02)) as daemon, await Stream.open(daemon.path) as stream:
        for _ in range(3):
            assert (await stream.next(comments=True)).type is None


async def test_head_is_answered_without_a_stream(tmp_path: Path) -> None:
    async with up(tmp_path) as daemon:
        reader, writer = await asyncio.open_unix_connection(str(daemon.path))
        writer.write(b"HEAD /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"text/event-stream" in answer
        assert daemon.log.subscribers == 0
        writer.close()
        await writer.wait_closed()


def ask(query: str, **headers: str) -> tuple[int | None, EventFilter]:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return events.read_query(Request({"type": "http", "query_string": query.encode(), "headers": given}))


def test_what_can_be_asked_for() -> None:
    assert ask("") == (None, EventFilter())
    assert ask("after=7&session=s&output=1&late=true") == (7, EventFilter(session="s", output=True, late=True))
    assert ask("after=7", last_event_id="9")[0] == 9
    assert ask("after=7", last_event_id="")[0] == 7


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=-1", "after"),
        ("after=1e3", "after"),
        ("after=" + "9" * 500, "after"),
        ("after=%D9%A1", "after"),
        ("types=run.verdict,run.exploded", "types"),
        ("output=maybe", "output"),
        ("late=2", "late"),
        ("type=run.verdict", "type"),
        ("run_id=" + ",".join(map(str, range(101))), "run_id"),
    ],
)
def test_what_cannot_be_asked_for(query: str, field: str) -> None:
    with pytest.raises(SpecError) as caught:
        ask(query)
    assert caught.value.field == field


def test_a_last_id_that_is_none() -> None:
    with pytest.raises(SpecError) as caught:
        ask("after=1", last_event_id="first")
    assert caught.value.field == "Last-Event-ID"


def pause_reading(stream: Stream) -> None:
    """Stop reading the socket, even in asyncio."""
    transport = cast("asyncio.Transport", stream._writer.transport)  # noqa: SLF001
    transport.pause_reading()
    raw = cast("socket.socket", transport.get_extra_info("socket"))
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


def resume_reading(stream: Stream) -> None:
    cast("asyncio.Transport", stream._writer.transport).resume_reading()  # noqa: SLF001
