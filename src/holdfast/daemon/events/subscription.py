"""One subscription to the event log: stored events first, then live ones, without a gap or a duplicate.

Replay. The subscriber reads pages from the store at its own pace, up to the last id that was given out. When it has
read that event, it becomes live in the same step of the event loop in which it compared the ids. Nothing can be given
out between the comparison and the joining, so there is no gap. A live subscriber gets only ids after its own, so there
is no duplicate. During the replay the log keeps nothing in memory for the subscriber, however long that takes.

Live. The log puts events into a buffer that is bounded in number and bytes, and never waits for the subscriber. When a
stored event does not fit, the buffer is emptied, and the subscriber reads from the store again, from the last event it
took: a burst costs it only time. An event that is not stored (run.output, heartbeat) is left out when the buffer is
half full.

Stalled. A subscriber that has something to take and takes nothing from one heartbeat to the next is dropped. It gets
`resync` and the end of the stream. When it comes back with its last id, it gets everything it missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from .event import RESYNC, EventFilter, LoggedEvent, make_event

if TYPE_CHECKING:
    from collections.abc import Callable

_BATCH = 64 << 10  # bytes, about: the most that one write to a client takes


class EventPage(NamedTuple):
    """Stored events that were read together."""

    events: list[LoggedEvent]
    reached: int  # the page covers every event up to this id
    complete_after: int  # events up to this id may have been removed


class EventSource(Protocol):
    """The event log as a subscription sees it."""

    last_id: int

    async def page(self, after: int, upto: int, event_filter: EventFilter) -> EventPage: ...
    def join(self, subscription: Subscription) -> None: ...
    def leave(self, subscription: Subscription) -> None: ...
    def forget(self, subscription: Subscription) -> None: ...


class Subscription:
    """An async iterator of batches of events, in order. The subscriber closes it; it ends by itself when it is dropped.

    `on_end` is called once when the log ends the subscription. So a subscriber that is stuck in a write learns of it.
    """

    def __init__(
        self, source: EventSource, after: int | None, event_filter: EventFilter, *, events: int, size: int
    ) -> None:
        self.event_filter = event_filter
        self.on_end: Callable[[], None] | None = None
        self._source = source
        self._read = source.last_id if after is None else after  # events up to this id were taken or are in the buffer
        self._taken_id = self._read
        self._events, self._size = events, size
        self._buffer: deque[LoggedEvent] = deque()
        self._buffered = 0
        self._waiter: asyncio.Future[None] | None = None
        self._taken, self._taken_before = 0, -1  # how often the subscriber asked for more
        self._live = False
        self._ended = False

    @property
    def position(self) -> int:
        """The id after which the subscriber goes on: it took every matching event up to it."""
        return self._taken_id

    # Called by the log. Nothing here waits.

    def offer(self, event: LoggedEvent) -> None:
        """Put the event into the buffer if it matches and fits.

        A stored event that does not fit is read from the store later. An event without an id is then left out.
        """
        if not self.event_filter.matches(event):
            return
        kept, size = len(self._buffer) + 1, self._buffered + len(event.frame)
        if event.id is None:
            if kept * 2 <= self._events and size * 2 <= self._size:
                self._put(event)
        elif kept <= self._events and size <= self._size:
            self._put(event)
        else:
            self._empty()
            self._live, self._read = False, self._taken_id
            self._source.leave(self)
            self._wake()

    def beat(self, event: LoggedEvent) -> bool:
        """Send a heartbeat if the buffer is empty. False: the subscriber has stalled, and was dropped."""
        stalled = (bool(self._buffer) or not self._live) and self._taken == self._taken_before
        self._taken_before = self._taken
        if stalled:
            self._empty()
            self._put(resync("stalled", "you read too slowly: come back with your last id"))
            self.end()
        elif not self._buffer:
            self._put(event)
        return not stalled

    def tell_of_loss(self) -> None:
        """Tell the subscriber that events could not be stored, so that it lists the runs again."""
        if not self._buffer or self._buffer[-1].type != RESYNC:
            self._put(resync("lost", "events could not be stored: list the runs again"))

    def end(self) -> None:
        """End the subscription; the subscriber still gets what is in the buffer."""
        if not self._ended:
            self._ended, self._live = True, False
            self._source.forget(self)
            if self.on_end is not None:
                self.on_end()
        self._wake()

    def _put(self, event: LoggedEvent) -> None:
        self._buffer.append(event)
        self._buffered += len(event.frame)
        self._wake()

    def _empty(self) -> None:
        self._buffer.clear()
        self._buffered = 0

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Called by the subscriber.

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> list[LoggedEvent]:
        self._taken += 1
        while True:
            if self._buffer:
                return self._take()
            if self._ended:
                raise StopAsyncIteration
            if not self._live:
                await self._replay()
                continue
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _take(self) -> list[LoggedEvent]:
        batch, size = [], 0
        while self._buffer and size < _BATCH:
            event = self._buffer.popleft()
            self._taken_id = event.id or self._taken_id
            size += len(event.frame)
            batch.append(event)
        self._buffered -= size
        return batch

    async def _replay(self) -> None:
        """Become live, or read the next page."""
        last = self._source.last_id
        if self._read == last:
            self._live = True
            self._source.join(self)
        elif self._read > last:
            self._skip("unknown", "your last id is of another log: list the runs again")
        else:
            page = await self._source.page(self._read, last, self.event_filter)
            if self._ended:
                return
            if self._read < page.complete_after:
                self._skip("pruned", "events after your last id were removed: list the runs again")
            else:
                self._read = page.reached
                for event in page.events:
                    self._put(event)

    def _skip(self, reason: str, remedy: str) -> None:
        # A list of runs that the subscriber makes after this is at least as new as the id it gets here.
        self._read = self._source.last_id
        self._put(resync(reason, remedy, id=self._read))

    def close(self) -> None:
        """End the subscription for a subscriber that is gone."""
        self.on_end = None
        self._empty()
        self.end()


def resync(reason: str, remedy: str, *, id: int | None = None) -> LoggedEvent:  # noqa: A002 - its name in the stream
    """The event that tells one client that its stream has a gap, or ends."""
    return make_event(RESYNC, msgspec.json.encode({"reason": reason, "hint": remedy, "last_id": id}), id=id)
