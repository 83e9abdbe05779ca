"""Deliveries: what is posted when a run's verdict is given, through an outbox in the store.

    waiting ──verdict──▶ pending ──2xx──▶ delivered
                            │ ▲
                            └─┘ up to 5 tries ──▶ failed

Order. The row is made in the transaction that queues the run, gets its body in the transaction that stores the
run.verdict event, and is posted after that. So it waits for no clean-up of the run; a crash at any moment leaves a row
that says what is still to be done; and a verdict that was given while no daemon lived, or whose event could not be
stored, is found by `recover`, because its row still waits. A crash between an answer and its record posts once more: at
least once, each time with the same id and the same bytes.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from ...values.errors import HoldfastError, RunNotFoundError, StateError
from ...values.timestamps import format_timestamp
from ..store.store import statements
from . import signing
from .poster import Poster, origin_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Mapping

    from ..events.event_log import EventLog
    from ..store.store import Store

_SQL = statements("deliveries")
BACK_OFF_S = (1.0, 3.0, 10.0, 30.0)  # between one try and the next: five tries
_AT_ONCE = 64
_OF_EACH_ORIGIN = 4
_AGAIN_S = 30.0  # after something of our own failed
_LAST_TRIES_S = 5.0
_KEEP_S = 30 * 86_400.0  # how long it can be read how a delivery ended
_PRUNE_EVERY_S = 3600.0


class Clock(Protocol):
    """Time as deliveries see it."""

    def time(self) -> float: ...
    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None: ...


class WallClock:
    """The time of day: a retry that is due when the daemon starts again is made then."""

    def time(self) -> float:
        """Seconds since 1970."""
        return time.time()

    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None:
        """Until the event is set or so much time has passed."""
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            pass


class _DueDelivery(NamedTuple):
    run_id: str
    url: str
    tries: int
    body: bytes


class Deliveries:
    """The outbox and the one who empties it. `start` before anything else; it rides on the log's run.verdict events."""

    def __init__(
        self,
        store: Store,
        events: EventLog,
        *,
        secret_path: str,
        secret: str | None = None,
        warn: Callable[[str], None] = lambda _: None,
        poster: Poster | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._secret_path, self._warn = store, secret_path, warn
        self._secret = None if secret is None else signing.decode(secret, "webhooks.secret")
        self._poster = poster or Poster()
        self._clock = clock or WallClock()
        self.pending = self.delivered = self.failed = self.tries = 0  # the last three since the daemon started
        self._changed = asyncio.Event()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._worker: asyncio.Task[None] | None = None
        self._report_of: Callable[[str], Awaitable[Mapping[str, Any]]] | None = None
        self._owes = False  # there may be verdicts that the outbox does not know
        self._pruned_at = 0.0
        events.add_hook("run.verdict", self)

    # With the run.

    @staticmethod
    def check(url: str) -> None:
        """SpecError: nothing can be posted there."""
        origin_of(url)

    @staticmethod
    def insert(connection: sqlite3.Connection, run_id: str, url: str) -> None:
        """Within the transaction that queues the run: there will be something to post. SpecError as `check`."""
        connection.execute(_SQL["expect"], {"run_id": run_id, "url": url, "origin": origin_of(url)})

    def write(self, connection: sqlite3.Connection, run_id: str, report: Mapping[str, Any]) -> bool:
        """Within the transaction of the run.verdict event: this is what to post. Once; False: nothing (any more)."""
        if connection.execute(_SQL["is_waiting"], {"run_id": run_id}).fetchone() is None:
            return False  # most runs have none
        now = self._clock.time()
        data = {"run_id": run_id, "report": report}
        body = {"type": "run.verdict", "timestamp": format_timestamp(int(now * 1e9)), "data": data}
        values = {"run_id": run_id, "body": msgspec.json.encode(body), "now_ms": int(now * 1000)}
        connection.execute(_SQL["decide"], values)
        return True

    def committed(self) -> None:
        """After that transaction."""
        self._changed.set()

    def undone(self) -> None:
        """That transaction was undone: what was to be posted has to be found again."""
        self._owes = True
        self._changed.set()

    async def verdict(self, run_id: str, report: Mapping[str, Any]) -> None:
        """The same for a verdict whose event is not published now. StateError."""
        await self._store.write(lambda connection: self.write(connection, run_id, report))
        self.committed()

    async def recover(self, report_of: Callable[[str], Awaitable[Mapping[str, Any]]]) -> int:
        """Find the verdicts that were given while nobody looked; how many. One that cannot be read stops no other."""
        self._report_of, self._owes, found = report_of, False, 0
        for (run_id,) in await self._store.read(lambda connection: connection.execute(_SQL["waiting"]).fetchall()):
            try:
                report = await report_of(run_id)
                if report.get("status") is not None:
                    await self.verdict(run_id, report)
                    found += 1
            except RunNotFoundError:
                await self._record("failed", run_id, error="the run is not there any more", tried=0)
            except HoldfastError as error:
                self._owes = self._owes or isinstance(error, StateError)
                self._warn(f"cannot tell whether a delivery is due: {error}")
        return found

    # Emptying the outbox.

    async def start(self) -> None:
        """Begin to post; what is left from before first."""
        self._worker = asyncio.create_task(self._work(), name="deliveries")

    async def stop(self, *, last_tries_s: float = _LAST_TRIES_S) -> None:
        """Let the tries that are under way come to an end, within this time; the rest is the next daemon's."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])
            if last_tries_s > 0:
                await self._look()
        tries = list(self._under_way.values())
        if tries:
            _, unfinished = await asyncio.wait(tries, timeout=last_tries_s)
            for one in unfinished:
                one.cancel()
            if unfinished:
                await asyncio.wait(unfinished)
        await self._poster.close()

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            await self._clock.wait(self._changed, await self._look())

    async def _look(self) -> float | None:
        """Do what is due; in how many seconds to look again, unless something changes."""
        try:
            if self._clock.time() > self._pruned_at + _PRUNE_EVERY_S:
                self._pruned_at = self._clock.time()
                await self.prune(_KEEP_S)
            if self._owes and self._report_of is not None:
                await self.recover(self._report_of)
            delay = await self._begin_due()
        except HoldfastError as error:
            self._warn(f"cannot look for deliveries that are due: {error}")
            return _AGAIN_S
        return _AGAIN_S if self._owes else delay

    async def _begin_due(self) -> float | None:
        """Begin every try that may be made now; in how many seconds to look again."""
        now_ms = int(self._clock.time() * 1000)
        values = {"now_ms": now_ms, "of_each": _OF_EACH_ORIGIN, "limit": _AT_ONCE}

        def read(connection: sqlite3.Connection) -> tuple[list[_DueDelivery], int, int | None]:
            due = [_DueDelivery(*row) for row in connection.execute(_SQL["due"], values)]
            return due, *connection.execute(_SQL["outlook"], values).fetchone()

        due, self.pending, next_ms = await self._store.read(read)
        for one in due:
            if one.run_id not in self._under_way and len(self._under_way) < _AT_ONCE:
                self._under_way[one.run_id] = asyncio.create_task(self._try(one), name=f"delivery of {one.run_id}")
        return None if next_ms is None else max(0.0, (next_ms - now_ms) / 1000)

    async def _try(self, due: _DueDelivery) -> None:
        try:
            error = await self._post(due)
            self.tries += 1
            if error is None:
                await self._record("delivered", due.run_id)
                self.delivered += 1
            elif due.tries < len(BACK_OFF_S):
                await self._record("retry", due.run_id, error=error, wait_s=BACK_OFF_S[due.tries])
            else:
                await self._record("failed", due.run_id, error=error, tried=1)
                self.failed += 1
                self._warn(f"run {due.run_id}: the delivery failed after {due.tries + 1} tries: {error}")
        except HoldfastError as error:
            self._warn(f"run {due.run_id}: the delivery could not be made or recorded, it is tried again: {error}")
            await self._clock.wait(asyncio.Event(), _AGAIN_S)
        finally:
            del self._under_way[due.run_id]
            self._changed.set()

    async def _post(self, due: _DueDelivery) -> str | None:
        if self._secret is None:
            self._secret = signing.load_secret(self._secret_path)
        name, timestamp = delivery_id(due.run_id), int(self._clock.time())
        headers = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signing.sign(self._secret, name, timestamp, due.body),
        }
        return await self._poster.post(due.url, due.body, headers)

    async def _record(self, how: str, run_id: str, *, wait_s: float = 0.0, **values: object) -> None:
        now_ms = int(self._clock.time() * 1000)
        filled = {"run_id": run_id, "now_ms": now_ms, "due_ms": now_ms + int(wait_s * 1000), **values}
        await self._store.write(lambda connection: connection.execute(_SQL[how], filled) and None)

    # Reading it.

    async def show(self, run_id: str) -> dict[str, Any] | None:
        """How the delivery of a run stands; None: it has none. The URL is not in it, because it may hold a secret."""
        row = await self._store.read(lambda connection: connection.execute(_SQL["show"], {"run_id": run_id}).fetchone())
        if row is None:
            return None
        origin, state, tries, due_ms, ended_ms, last_error = row
        return {
            "delivery_id": delivery_id(run_id),
            "state": state,
            "origin": origin,
            "tries": tries,
            "next_try_at": _wall(due_ms),
            "ended_at": _wall(ended_ms),
            "last_error": last_error,
        }

    async def prune(self, keep_s: float) -> int:
        """Remove what ended longer ago than this; how many that were."""
        values = {"before_ms": int((self._clock.time() - keep_s) * 1000)}
        return await self._store.write(lambda connection: connection.execute(_SQL["prune"], values).rowcount)


def delivery_id(run_id: str) -> str:
    """The same on every try and after every restart: receivers tell by it what they have had already."""
    return f"{run_id}.verdict"


def _wall(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_timestamp(at_ms * 1_000_000)
