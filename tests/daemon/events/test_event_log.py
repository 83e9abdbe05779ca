"""The event log: stored before published, no gap and no duplicate, and nobody waits for a slow reader."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from holdfast.daemon.events.event import EventFilter, LoggedEvent
from holdfast.daemon.events.event_log import EventLog, EventLogBounds
from holdfast.daemon.events.subscription import EventPage, Subscription
from holdfast.daemon.store.store import Store
from holdfast.values.errors import StateError
from tests.support.publishing import published

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def logging(directory: Path, bounds: EventLogBounds = EventLogBounds()) -> AsyncIterator[EventLog]:  # noqa: B008
    store = Store.open(str(directory / "daemon.sqlite"))
    log = EventLog(store, bounds)
    await log.start()
    try:
        yield log
    finally:
        await log.stop()
        store.close()


async def publish(log: EventLog, first: int, last: int, **data: Any) -> None:
    """Publish events with these ids."""
    answers = [
        published(log, "run.queued", f"run-{number}", {"report": {}, **data}) for number in range(first, last + 1)
    ]
    assert await asyncio.gather(*answers) == list(range(first, last + 1))
    given_out = log.subscribe(last - 1)  # a subscriber joins only when the last one is published
    await take(given_out, 1)
    given_out.close()


async def take(subscription: Subscription, number: int) -> list[LoggedEvent]:
    found: list[LoggedEvent] = []
    async with asyncio.timeout(60):
        while len(found) < number:
            found += await anext(subscription)
    return found


def ids(events: list[LoggedEvent]) -> list[int | None]:
    return [event.id for event in events]


def told(event: LoggedEvent) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(event.data)
    return data


async def test_an_event_is_on_disk_before_anybody_has_it(tmp_path: Path) -> None:
    async with logging(tmp_path) as log:
        subscription = log.subscribe()
        log.publish("run.queued", "a", {"report": {"session": "s"}})
        log.publish("service.shutdown", None, {"budget_s": 60})
        events = await take(subscription, 1)
        with sqlite3.connect(tmp_path / "daemon.sqlite") as other:
            assert other.execute("SELECT type, run_id, session FROM events WHERE id = 1").fetchall() == [
                ("run.queued", "a", "s")
            ]
        other.close()
        events += await take(subscription, 2 - len(events))
        assert ids(events) == [1, 2]
        assert events[0].frame == b"id: 1\nevent: run.queued\ndata: " + events[0].data + b"\n\n"
        assert told(events[1])["run_id"] is None
        assert told(events[1])["budget_s"] == 60
        subscription.close()


async def test_ids_follow_the_order_of_the_calls(tmp_path: Path) -> None:
    async with logging(tmp_path) as log:
        answers = [published(log, "run.queued", f"run-{number}", {}) for number in range(500)]
        assert await asyncio.gather(*answers) == list(range(1, 501))


async def test_what_was_published_before_a_crash_is_not_published_again(tmp_path: Path) -> None:
    async with logging(tmp_path) as log:
        assert await published(log, "run.verdict", "a", {"report": {"status": "timed_out"}}) == 1
    async with logging(tmp_path) as log:
        subscription = log.subscribe()
        assert await published(log, "run.verdict", "a", {"report": {"status": "succeeded"}}) == 1
        assert await published(log, "run.settled", "a", {}) == 2
        assert ids(await take(subscription, 1)) == [2]
        again = log.subscribe(0)
        assert told((await take(again, 1))[0])["report"] == {"status": "timed_out"}
        again.close()


async def test_stored_then_live_without_gap_or_duplicate(tmp_path: Path) -> None:
    """Many subscribers begin at many places while events are published all the time."""
    async with logging(tmp_path) as log:
        await publish(log, 1, 450)

        async def read(after: int) -> list[int | None]:
            subscription = log.subscribe(after)
            found = ids(await take(subscription, 900 - after))
            subscription.close()
            return found

        readers = [asyncio.create_task(read(after)) for after in range(0, 450, 15)]
        await publish(log, 451, 900)
        for after, reader in zip(range(0, 450, 15), readers, strict=True):
            assert await reader == list(range(after + 1, 901))
        assert log.subscribers == 0


async def read_while_publishing(log: EventLog, kind: type[Subscription]) -> list[int | None]:
    """The events that a subscriber gets when 10 are published between its reading 1 to 10 and its joining."""
    await publish(log, 1, 10)
    read = log.page

    async def page(*arguments: Any) -> EventPage:
        found = await read(*arguments)
        if log.last_id == 10:
            await publish(log, 11, 20)
        return found

    log.page = page  # type: ignore[method-assign, assignment]
    subscription = kind(log, 0, EventFilter(), events=1000, size=1 << 20)
    found = await take(subscription, 10)
    following = asyncio.create_task(take(subscription, 1))
    await asyncio.sleep(0)
    await publish(log, 21, 21)
    found += await following
    while found[-1].id != 21:
        found += await take(subscription, 1)
    subscription.close()
    return ids(found)


async def test_what_is_published_during_the_replay_is_not_missed(tmp_path: Path) -> None:
    async with logging(tmp_path) as log:
        assert await read_while_publishing(log, Subscription) == list(range(1, 22))


async def test_without_the_look_before_joining_there_is_a_gap(tmp_path: Path) -> None:
    """The control of the test above: read the stored events, then join, without a look for newer ones."""

    class Hasty(Subscription):
        async def _replay(self) -> None:
            await super()._replay()
            self._read = self._source.last_id

    async with logging(tmp_path) as log:
        assert await read_while_publishing(log, Hasty) == [*range(1, 11), 21]


@pytest.mark.parametrize("size", [10, 20_000], ids=["many", "large"])
async def test_a_long_replay_keeps_little_in_memory(tmp_path: Path, size: int) -> None:
    """More is published during a replay than would fit into the buffer, and all of it arrives."""
    async with logging(tmp_path, EventLogBounds(client_events=50, client_bytes=100_000)) as log:
        await publish(log, 1, 201, text="x" * size)
        subscription = log.subscribe(0)
        found = await anext(subscription)  # and now it reads no more for a while
        await publish(log, 202, 700, text="x" * size)
        assert kept_in_memory(subscription) < (1 << 20) + 100_000
        found += await take(subscription, 700 - len(found))
        assert ids(found) == list(range(1, 701))
        assert log.dropped == 0
        subscription.close()


async def test_an_event_that_is_larger_than_the_buffer_arrives(tmp_path: Path) -> None:
    async with logging(tmp_path, EventLogBounds(client_bytes=10_000)) as log:
        subscription, _ = await stall(log)
        await publish(log, 2, 4, text="x" * 50_000)
        assert ids(await take(subscription, 3)) == [2, 3, 4]
        await publish(log, 5, 5)
        assert ids(await take(subscription, 1)) == [5]
        subscription.close()


async def test_filters_are_the_same_for_stored_and_live(tmp_path: Path) -> None:
    filters = [
        EventFilter(run_ids=frozenset({"a"})),
        EventFilter(session="s"),
        EventFilter(types=frozenset({"run.verdict"})),
        EventFilter(run_ids=frozenset({"b", "c"}), types=frozenset({"run.queued"})),
    ]
    wanted = [[1, 3, 5], [2, 4], [3, 4], [2]]
    happened = [
        ("run.queued", "a", None),
        ("run.queued", "b", "s"),
        ("run.verdict", "a", None),
        ("run.verdict", "b", "s"),
        ("run.settled", "a", None),
    ]
    async with logging(tmp_path) as log:
        live = [log.subscribe(0, event_filter) for event_filter in filters]
        reading = [asyncio.create_task(take(one, len(numbers))) for one, numbers in zip(live, wanted, strict=True)]
        await asyncio.sleep(0)
        for type_, run_id, session in happened:
            await published(log, type_, run_id, {"report": {"session": session}})
        assert [ids(await one) for one in reading] == wanted
        stored = [log.subscribe(0, event_filter) for event_filter in filters]
        assert [ids(await take(one, len(numbers))) for one, numbers in zip(stored, wanted, strict=True)] == wanted
        for one in [*live, *stored]:
            one.close()


async def stall(log: EventLog) -> tuple[Subscription, list[LoggedEvent]]:
    """A live subscriber that has taken event 1 and takes nothing more."""
    stalled = log.subscribe()
    waiting = asyncio.create_task(anext(stalled))
    await asyncio.sleep(0)
    await publish(log, 1, 1)
    return stalled, await waiting


async def test_a_burst_that_does_not_fit_is_read_from_the_store(tmp_path: Path) -> None:
    async with logging(tmp_path, EventLogBounds(client_events=20)) as log:
        slow, found = await stall(log)
        await publish(log, 2, 500)
        assert kept_in_memory(slow) == 0
        found += await take(slow, 499)
        await publish(log, 501, 501)
        found += await take(slow, 1)
        assert ids(found) == list(range(1, 502))
        assert log.dropped == 0
        slow.close()


async def test_the_bound_is_in_bytes_too(tmp_path: Path) -> None:
    async with logging(tmp_path, EventLogBounds(client_bytes=50_000)) as log:
        slow, _ = await stall(log)
        await publish(log, 2, 10, text="x" * 10_000)
        assert kept_in_memory(slow) <= 50_000
        assert ids(await take(slow, 9)) == list(range(2, 11))
        slow.close()


async def test_without_the_bound_a_stalled_reader_takes_all_the_memory_it_wants(tmp_path: Path) -> None:
    """The control of the two above."""
    async with logging(tmp_path, EventLogBounds(client_events=1 << 60, client_bytes=1 << 60)) as log:
        stalled, _ = await stall(log)
        await publish(log, 2, 500, text="x" * 10_000)
        assert kept_in_memory(stalled) > 4_000_000
        stalled.close()


@pytest.mark.parametrize("more", [0, 10, 100], ids=["nothing", "some", "too much"])
async def test_a_reader_that_stalls_is_dropped_and_finds_everything_when_it_comes_back(
    tmp_path: Path, more: int
) -> None:
    async with logging(tmp_path, EventLogBounds(client_events=20, heartbeat_s=0.25)) as log:
        healthy = log.subscribe()

        async def read_on() -> list[LoggedEvent]:
            return [event async for batch in healthy for event in batch if event.type]

        reading = asyncio.create_task(read_on())
        stalled, seen = await stall(log)
        dropped = asyncio.Event()
        stalled.on_end = dropped.set
        await publish(log, 2, 1 + more)
        async with asyncio.timeout(60):
            await dropped.wait()
        assert log.dropped == 1
        rest = [event async for batch in stalled for event in batch]
        assert [event.type for event in rest] == ["resync"]
        assert told(rest[0])["reason"] == "stalled"
        await publish(log, 2 + more, 2 + more)
        back = log.subscribe(seen[-1].id)
        assert ids(await take(back, 1 + more)) == list(range(2, 3 + more))
        back.close()
        await log.stop()
        assert ids(await reading) == list(range(1, 3 + more))


def kept_in_memory(subscription: Subscription) -> int:
    return sum(len(event.frame) for event in subscription._buffer)  # noqa: SLF001


@pytest.mark.parametrize("bounds", [EventLogBounds(keep_events=10), EventLogBounds(keep_s=-60)], ids=["count", "age"])
async def test_a_point_that_was_pruned_is_told(tmp_path: Path, bounds: EventLogBounds) -> None:
    async with logging(tmp_path, bounds) as log:
        await publish(log, 1, 30)
        assert await log.prune() >= 20
        subscription = log.subscribe(5)
        (resync,) = await take(subscription, 1)
        assert (resync.type, resync.id) == ("resync", 30)
        assert told(resync)["reason"] == "pruned"
        reading = asyncio.create_task(take(subscription, 1))
        await asyncio.sleep(0)
        await publish(log, 31, 31)
        assert ids(await reading) == [31]
        subscription.close()
    async with logging(tmp_path, bounds) as log:  # ids go on even when no event is left
        assert log.last_id == 31


async def test_the_oldest_that_is_left_can_still_be_asked_for(tmp_path: Path) -> None:
    async with logging(tmp_path, EventLogBounds(keep_events=10)) as log:
        await publish(log, 1, 30)
        await log.prune()
        subscription = log.subscribe(20)
        assert ids(await take(subscription, 10)) == list(range(21, 31))
        subscription.close()


async def test_pruning_happens_by_itself(tmp_path: Path) -> None:
    async with logging(tmp_path, EventLogBounds(keep_events=10)) as log:
        await asyncio.gather(*[published(log, "run.queued", f"run-{number}", {}) for number in range(1000)])
        await published(log, "run.queued", "last", {})
        with sqlite3.connect(tmp_path / "daemon.sqlite") as other:
            assert other.execute("SELECT count(*) FROM events").fetchone()[0] <= 12
        other.close()


async def test_an_id_of_another_log_is_told(tmp_path: Path) -> None:
    async with logging(tmp_path) as log:
        await publish(log, 1, 3)
        subscription = log.subscribe(10**40)
        (resync,) = await take(subscription, 1)
        assert (resync.type, resync.id, told(resync)["reason"]) == ("resync", 3, "unknown")
        subscription.close()


async def test_output_is_told_without_content_and_late_output_not_at_all(tmp_path: Path) -> None:
    filters = [
        EventFilter(),
        EventFilter(output=True),
        EventFilter(late=True),
        EventFilter(types=frozenset({"run.verdict"})),
    ]
    async with logging(tmp_path) as log:
        assert not log.wants_output()
        listening = [log.subscribe(None, event_filter) for event_filter in filters]
        reading = [asyncio.create_task(one.__anext__()) for one in listening]
        await asyncio.sleep(0)
        assert log.wants_output()
        log.output("a", None, "stdout", 0, b"one ")
        log.output("a", None, "stdout", 4, b"two")
        log.output("a", None, "stderr", 0, b"\xff")
        log.output("a", None, "stdout", 7, b"three", late=True)
        await published(log, "run.verdict", "a", {})
        plain, full, late, verdict = [await one for one in reading]
        for batch, one in zip((plain, full, late, verdict), listening, strict=True):
            while batch[-1].type != "run.verdict":
                batch += await anext(one)
            one.close()
        out = {"run_id": "a", "stream": "stdout", "offset": 0, "length": 7, "late": False}
        err = {"run_id": "a", "stream": "stderr", "offset": 0, "length": 1, "late": False}
        afterwards = {"run_id": "a", "stream": "stdout", "offset": 7, "length": 5, "late": True}
        assert [told(event) for event in plain[:-1]] == [out, err]
        assert [told(event) for event in full[:-1]] == [{**out, "data": "b25lIHR3bw=="}, {**err, "data": "/w=="}]
        assert [told(event) for event in late[:-1]] == [out, err, afterwards]
        assert ids(late) == [None, None, None, 1]
        assert len(verdict) == 1
        assert log.last_id == 1


async def test_output_is_left_out_before_anybody_is_dropped_for_it(tmp_path: Path) -> None:
    async with logging(tmp_path, EventLogBounds(client_events=10)) as log:
        subscription = log.subscribe()
        reading = asyncio.create_task(anext(subscription))
        await asyncio.sleep(0)
        await publish(log, 1, 1)
        await reading
        for number in range(100):
            log.output(f"run-{number}", None, "stdout", 0, b"x")
        await publish(log, 2, 3)
        found = await take(subscription, 7)
        assert [event.type for event in found] == ["run.output"] * 5 + ["run.queued"] * 2
        assert log.dropped == 0
        subscription.close()


async def test_more_output_than_anybody_could_read_is_not_kept(tmp_path: Path) -> None:
    async with logging(tmp_path) as log:
        subscription = log.subscribe()
        log.output("nobody", None, "stdout", 0, b"listens yet")
        reading = asyncio.create_task(anext(subscription))
        await asyncio.sleep(0)
        for number in range(1000):
            log.output("a", None, "stdout", number << 16, bytes(1 << 16))
        assert len(log._round) == 64  # noqa: SLF001 - 4 MiB
        assert [told(event)["offset"] for event in await reading][:2] == [0, 1 << 16]
        log.output("a", None, "stdout", 1000 << 16, b"after the hole")
        (event,) = await take(subscription, 1)
        assert told(event)["offset"] == 1000 << 16
        subscription.close()


async def test_events_that_cannot_be_stored_are_told(tmp_path: Path) -> None:
    """A full disk: the publisher gets an error, each listener gets a resync, and the stream goes on."""
    store = Store.open(str(tmp_path / "daemon.sqlite"))
    log = EventLog(store)
    await log.start()
    subscription = log.subscribe()
    reading = asyncio.create_task(anext(subscription))
    await asyncio.sleep(0)
    await store.write(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall())
    with pytest.raises(StateError, match="full"):
        await published(log, "run.verdict", "a", {"text": "x" * 100_000})
    (resync,) = await reading
    assert (resync.type, resync.id, told(resync)["reason"]) == ("resync", None, "lost")
    await store.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchall())
    assert await published(log, "run.verdict", "a", {"text": "x" * 100_000}) == 1
    assert ids(await take(subscription, 1)) == [1]
    await log.stop()
    store.close()


async def test_stopping_ends_every_stream_after_what_was_published(tmp_path: Path) -> None:
    async with logging(tmp_path) as log:
        live, replaying = log.subscribe(), log.subscribe(0)
        reading = asyncio.create_task(take(live, 1))
        await asyncio.sleep(0)
        await published(log, "service.shutdown", None, {})
        await log.stop()
        assert [event.type for event in await reading] == ["service.shutdown"]
        for one in (live, replaying):
            assert [batch async for batch in one] == []
        assert log.subscribers == 0
        with pytest.raises(StateError, match="stopping"):
            log.subscribe()


async def test_a_quiet_stream_shows_that_it_lives(tmp_path: Path) -> None:
    async with logging(tmp_path, EventLogBounds(heartbeat_s=0.01)) as log:
        subscription = log.subscribe(None, EventFilter(run_ids=frozenset({"nobody"})))
        assert (await take(subscription, 1))[0].frame == b":\n\n"
        subscription.close()
