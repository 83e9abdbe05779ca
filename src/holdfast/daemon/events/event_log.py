"""The event log: events of runs are stored first, then given to every subscriber.

Order. `publish` hands the event to the store, which gives ids in the order of the calls. The log gives an event out
only after the commit, so a client never knows an id that a restart could give to another event. `last_id` is the last
id that was given out. subscription.py says how a subscriber gets from stored events to live ones.

Rounds. Giving an event to a thousand clients costs a thousand writes, and that time is taken from the runs. So the log
gives events out in rounds, with a pause between two rounds in proportion to the number of clients. With few clients an
event goes out at once; with a thousand it goes out up to 50 ms later, together with others. Each event is encoded once.

Everything happens on the event loop's thread, and nothing here ever waits for a client.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from ...values.errors import StateError
from ...values.timestamps import format_timestamp
from ..store.retention_clock import RetentionClock
from ..store.store import statements
from .event import OUTPUT, PIECE, EventFilter, LoggedEvent, PendingOutput, event_of_row, make_event
from .subscription import EventPage, Subscription
from .verdict_counts import VerdictCounts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

    from ..store.store import Store

_SQL = statements("events")
_PAUSE_S = 50e-6  # for each client
_LONGEST_PAUSE_S = 0.1
_OUTPUT_AT_ONCE = 4 << 20  # bytes that all runs together may have in one round
_PRUNE_EVERY = 1000  # events
_PRUNE_EVERY_S = 3600.0
_PAGE_EVENTS = 200
_PAGE_BYTES = 1 << 20
_HEARTBEAT = LoggedEvent(None, "", None, None, b"", b":\n\n")


class EventLogBounds(NamedTuple):
    """How many events are kept in the store, and in memory for each client that reads slowly."""

    keep_events: int = 100_000
    keep_s: float = 7 * 86_400.0
    client_events: int = 1_000
    client_bytes: int = 1 << 20
    heartbeat_s: float = 15.0


class TransactionHook(Protocol):
    """A part of the daemon that writes in the transaction of an event; `write` returns whether it wrote."""

    def write(self, connection: sqlite3.Connection, run_id: str, report: Mapping[str, Any]) -> bool: ...
    def committed(self) -> None: ...
    def undone(self) -> None: ...


class EventLog:
    """The daemon's events. `start` before anything else."""

    def __init__(
        self,
        store: Store,
        bounds: EventLogBounds = EventLogBounds(),  # noqa: B008 - immutable
        clock: RetentionClock | None = None,
    ) -> None:
        self.bounds = bounds
        self._clock = clock or RetentionClock()
        self.last_id = 0
        self.published = 0  # since the start, by this daemon
        self.dropped = 0  # streams that were ended because the client read nothing
        self.unstored = 0
        self.verdict_counts = VerdictCounts()
        self.closed = False
        self._store = store
        self._hooks: dict[str, TransactionHook] = {}
        self._open: set[Subscription] = set()
        self._live: set[Subscription] = set()  # the other subscriptions read from the store
        self._round: list[LoggedEvent | PendingOutput] = []
        self._round_output = 0  # bytes
        self._next_round = 0.0
        self._due: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._unpruned = 0
        self._pruned_at = 0.0

    async def start(self) -> None:
        """Remove events that are too old, and find the last id. StateError: the store cannot be used."""
        await self.prune()
        self._pruned_at = time.monotonic()
        _, self.last_id = await self._store.read(_bounds)
        self._beat = asyncio.get_running_loop().call_later(self.bounds.heartbeat_s, self._heartbeat)

    async def stop(self) -> None:
        """Give out what was published so far, then end every stream. No more subscriptions are taken."""
        self._give_out()
        self.closed = True
        for timer in (self._due, self._beat):
            if timer is not None:
                timer.cancel()
        for subscription in list(self._open):
            subscription.end()

    # Publishing.

    def add_hook(self, type: str, hook: TransactionHook) -> None:  # noqa: A002 - its name in the contract
        """From now on, call this hook in the transaction of every event of this type, with the report of the event."""
        self._hooks[type] = hook

    def publish(self, type: str, run_id: str | None, data: Mapping[str, Any]) -> None:  # noqa: A002 - as in the contract
        """Store the event, then give it to every subscriber. An event that is stored already keeps its id.

        `data` has the report if there is one; `run_id` and `at` are added. When the event cannot be stored, every
        subscriber is told that an event is missing.
        """
        now_ns = time.time_ns()
        report = data.get("report") or {}
        session = report.get("session")
        body = msgspec.json.encode({"run_id": run_id, "at": format_timestamp(now_ns), **data})
        values = {"at_ms": now_ns // 1_000_000, "type": type, "run_id": run_id, "session": session, "data": body}
        hook = self._hooks.get(type)

        def insert(connection: sqlite3.Connection) -> tuple[int, bool, bool]:
            hooked = hook is not None and run_id is not None and hook.write(connection, run_id, report)
            inserted = connection.execute(_SQL["insert"], values)
            if inserted.rowcount == 1:
                return inserted.lastrowid or 0, True, hooked
            return connection.execute(_SQL["find"], values).fetchone()[0], False, hooked

        def stored(written: tuple[int, bool, bool], error: Exception | None) -> None:
            number, new, hooked = written if error is None else (0, False, False)
            if error is not None:
                self._tell_of_loss()
                if hook is not None:
                    hook.undone()
            if new and type == "run.verdict":
                self.verdict_counts.verdict(report, time.time())
            if new:
                self._add(make_event(type, body, id=number, run_id=run_id, session=session))
            if hooked and hook is not None:
                hook.committed()

        self._store.post(insert, stored)

    def tell(self, type: str, run_id: str, session: str | None, data: Mapping[str, Any]) -> None:  # noqa: A002
        """Give an event to the live subscribers without storing it. A subscriber with a full buffer does not get it."""
        body = msgspec.json.encode({"run_id": run_id, "at": format_timestamp(time.time_ns()), **data})
        self._add(make_event(type, body, run_id=run_id, session=session))

    def wants(self, type: str, run_id: str | None = None) -> bool:  # noqa: A002
        """Whether a live subscriber could get an event of this type and run. Session filters are not looked at."""
        return any(one.event_filter.may_match(type, run_id) for one in self._live)

    def wants_output(self, run_id: str | None = None) -> bool:
        """Whether a live subscriber could get a run.output event of this run. Session filters are not looked at."""
        return self.wants(OUTPUT, run_id)

    def output(
        self, run_id: str, session: str | None, stream: str, offset: int, data: bytes, *, late: bool = False
    ) -> None:
        """Give out bytes that a run wrote at this offset of a stream. They are not stored. A full round drops them."""
        if not self._live or self._round_output + len(data) > _OUTPUT_AT_ONCE:
            return
        self._round_output += len(data)
        for begin in range(0, len(data), PIECE):
            piece = data[begin : begin + PIECE]
            last = self._round[-1] if self._round else None
            if isinstance(last, PendingOutput) and last.extend(run_id, stream, offset + begin, piece, late=late):
                continue
            self._add(PendingOutput(run_id, session, stream, offset + begin, piece, late=late))

    # Giving out.

    def _add(self, event: LoggedEvent | PendingOutput) -> None:
        self._round.append(event)
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(self._next_round, loop.time()), self._give_out)

    def _give_out(self) -> None:
        self._due = None
        given, self._round, self._round_output = self._round, [], 0
        for event in given:
            if isinstance(event, LoggedEvent):
                self._offer(event)
            else:
                self._offer_output(event)
        pause = min(_LONGEST_PAUSE_S, _PAUSE_S * len(self._live))
        self._next_round = asyncio.get_running_loop().time() + pause

    def _offer(self, event: LoggedEvent) -> None:
        self.last_id = event.id or self.last_id
        self.published += 1
        self._unpruned += 1
        for subscription in list(self._live):
            subscription.offer(event)
        if self._unpruned >= _PRUNE_EVERY:
            self._prune_soon()

    def _offer_output(self, output: PendingOutput) -> None:
        plain = output.event(with_content=False)
        full: LoggedEvent | None = None
        for subscription in self._live:
            if not subscription.event_filter.output:
                subscription.offer(plain)
                continue
            full = full or output.event(with_content=True)
            subscription.offer(full)

    def _heartbeat(self) -> None:
        for subscription in list(self._open):
            if not subscription.beat(_HEARTBEAT):
                self.dropped += 1
        if time.monotonic() > self._pruned_at + _PRUNE_EVERY_S:
            self._prune_soon()
        self._beat = asyncio.get_running_loop().call_later(self.bounds.heartbeat_s, self._heartbeat)

    def _tell_of_loss(self) -> None:
        self.unstored += 1
        for subscription in self._open:
            subscription.tell_of_loss()

    # Subscribing.

    @property
    def subscribers(self) -> int:
        """How many subscriptions are open."""
        return len(self._open)

    def subscribe(self, after: int | None = None, event_filter: EventFilter = EventFilter()) -> Subscription:  # noqa: B008
        """A subscription to all events after this id, or from now on; the caller closes it. StateError: log closed."""
        if self.closed:
            raise StateError("no more events will come: the daemon is stopping", remedy="ask the next one")
        bounds = self.bounds
        subscription = Subscription(self, after, event_filter, events=bounds.client_events, size=bounds.client_bytes)
        self._open.add(subscription)
        return subscription

    async def page(self, after: int, upto: int, event_filter: EventFilter) -> EventPage:
        """Stored events between these ids, as many as one subscriber may have in memory."""
        parameters = {"after": after, "upto": upto, "limit": _PAGE_EVENTS, **event_filter.parameters()}

        def read(connection: sqlite3.Connection) -> EventPage:
            events, size = [], 0
            for row in connection.execute(_SQL["page"], parameters):
                events.append(event_of_row(row))
                size += len(events[-1].frame)
                if size > _PAGE_BYTES or len(events) == _PAGE_EVENTS:
                    break
            else:
                # Rows first, then bounds: events that are pruned in between are noticed.
                return EventPage(events, upto, _bounds(connection)[0])
            return EventPage(events, events[-1].id or upto, _bounds(connection)[0])

        return await self._store.read(read)

    def join(self, subscription: Subscription) -> None:
        """Give this subscription events as they are published."""
        self._live.add(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Give this subscription no more live events: it reads from the store again."""
        self._live.discard(subscription)

    def forget(self, subscription: Subscription) -> None:
        """Forget a subscription that has ended."""
        self._live.discard(subscription)
        self._open.discard(subscription)

    # Pruning.

    async def prune(self) -> int:
        """Remove events that are too old or too many; returns how many."""
        return await self._store.write(self._pruning())

    def _prune_soon(self) -> None:
        self._unpruned, self._pruned_at = 0, time.monotonic()
        # A failure loses nothing: the next pass removes them.
        self._store.write(self._pruning()).add_done_callback(lambda done: done.cancelled() or done.exception())

    def _pruning(self) -> Callable[[sqlite3.Connection], int]:
        values = {"keep": self.bounds.keep_events, "before_ms": self._clock.ago_ns(self.bounds.keep_s) // 1_000_000}

        def prune(connection: sqlite3.Connection) -> int:
            _, last = _bounds(connection)
            return connection.execute(_SQL["prune"], {**values, "last": last}).rowcount

        return prune


def _bounds(connection: sqlite3.Connection) -> tuple[int, int]:
    """The id after which no event is missing, and the last id that was ever given."""
    complete_after, last = connection.execute(_SQL["bounds"]).fetchone()
    return complete_after, last
