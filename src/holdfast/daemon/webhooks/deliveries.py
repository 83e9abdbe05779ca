"""Deliveries: the verdict of a run is posted to its webhook, through an outbox in the store.

    waiting ──verdict──▶ pending ──2xx──▶ delivered
                            │ ▲
                            └─┘ up to 5 tries ──▶ failed

Order. The row is inserted in the transaction that queues the run, gets its body in the transaction that stores the
run.verdict event, and is posted after that. So a delivery does not wait for the end of the run's tree. A crash at any
moment leaves a row that says what is still to be done. `recover` finds a verdict that was given while no daemon lived,
or whose event could not be stored, because its row is still `waiting`. After a crash between an answer and its record
the daemon posts once more: at least once, each time with the same id and the same bytes.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from ...values.errors import HoldfastError, PolicyError, RunNotFoundError, StateError
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
BACK_OFF_S = (1.0, 3.0, 10.0, 30.0)  # the pauses between five tries
_AT_ONCE = 64
_OF_EACH_ORIGIN = 4
_AGAIN_S = 30.0  # after a failure of the store
_LAST_TRIES_S = 5.0
_KEEP_S = 30 * 86_400.0  # how long the result of a delivery can be read
_PRUNE_EVERY_S = 3600.0


class Clock(Protocol):
    """The clock that deliveries use, so that tests can set it."""

    def time(self) -> float: ...
    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None: ...


class WallClock:
    """The time of day, which goes on between two daemons: a retry that is due at the start is made then."""

    def time(self) -> float:
        """Seconds since 1970."""
        return time.time()

    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None:
        """Wait until the event is set or the time has passed."""
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
    """The outbox and the task that empties it. It is the transaction hook of the log's run.verdict events."""

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
        body_of: Callable[[Mapping[str, Any]], dict[str, Any] | None] = lambda _: None,
    ) -> None:
        """`body_of` gives the body for a report in the words of another protocol; None: the body is ours."""
        self._store, self._secret_path, self._warn, self._body_of = store, secret_path, warn, body_of
        self._secret = None if secret is None else signing.decode(secret, "webhooks.secret")
        self._poster = poster or Poster()
        self._clock = clock or WallClock()
        self.check_target: Callable[[str], None] = lambda _: None  # the policy; PolicyError: it refuses this URL
        self.ago_ns: Callable[[float], int] = lambda seconds: round((self._clock.time() - seconds) * 1e9)
        self.pending = self.delivered = self.failed = self.tries = 0  # the last three since the daemon started
        self._changed = asyncio.Event()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._worker: asyncio.Task[None] | None = None
        self._report_of: Callable[[str], Awaitable[Mapping[str, Any]]] | None = None
        self._owes = False  # a verdict may be missing in the outbox
        self._pruned_at = 0.0
        events.add_hook("run.verdict", self)

    # Filling the outbox.

    def check(self, url: str) -> None:
        """Check the URL of a webhook. SpecError: it cannot be posted to. PolicyError: the policy refuses it."""
        origin_of(url)
        self.check_target(url)

    @staticmethod
    def insert(connection: sqlite3.Connection, run_id: str, url: str) -> None:
        """Insert the row of a delivery, in the transaction that queues the run. SpecError as `check`."""
        connection.execute(_SQL["expect"], {"run_id": run_id, "url": url, "origin": origin_of(url)})

    def write(self, connection: sqlite3.Connection, run_id: str, report: Mapping[str, Any]) -> bool:
        """Set the body, in the transaction of the run.verdict event. False: no delivery of the run waits for it."""
        if connection.execute(_SQL["is_waiting"], {"run_id": run_id}).fetchone() is None:
            return False  # most runs have no webhook
        now = self._clock.time()
        data = {"run_id": run_id, "report": report}
        ours = {"type": "run.verdict", "timestamp": format_timestamp(int(now * 1e9)), "data": data}
        body = self._body_of(report) or ours
        values = {"run_id": run_id, "body": msgspec.json.encode(body), "now_ms": int(now * 1000)}
        connection.execute(_SQL["decide"], values)
        return True

    def committed(self) -> None:
        """Wake the task that posts, after the transaction of `write` was committed."""
        self._changed.set()

    def undone(self) -> None:
        """Have `recover` find the verdict later, after the transaction of `write` failed."""
        self._owes = True
        self._changed.set()

    async def verdict(self, run_id: str, report: Mapping[str, Any]) -> None:
        """Set the body of a delivery in a transaction without an event. StateError: it cannot be stored."""
        await self._store.write(lambda connection: self.write(connection, run_id, report))
        self.committed()

    async def recover(self, report_of: Callable[[str], Awaitable[Mapping[str, Any]]]) -> int:
        """Find verdicts that the outbox missed; returns how many. A run that cannot be read stops no other."""
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
        """Begin to post, with the deliveries that the last daemon left."""
        self._worker = asyncio.create_task(self._work(), name="deliveries")

    async def stop(self, *, last_tries_s: float = _LAST_TRIES_S) -> None:
        """Stop posting. First begin every try that is due now, then give all begun tries this much time to end.

        Tries that do not end in time are cancelled, and the next daemon repeats them. With 0 no new try begins.
        """
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
        """Begin every try that is due, and prune and recover if needed. Returns in how many seconds to look again.

        None: look again only after a change.
        """
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
        """Begin every try that is due now; returns the seconds until the next one is due."""
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
        try:
            self.check_target(due.url)  # again: the policy may have changed since the run was posted
        except PolicyError as error:
            return error.message
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

    # Reading the outbox.

    async def show(self, run_id: str) -> dict[str, Any] | None:
        """The state of a run's delivery; None: it has none. Without the URL, which may hold a secret."""
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
        """Remove deliveries that ended longer ago than this; returns how many."""
        values = {"before_ms": self.ago_ns(keep_s) // 1_000_000}
        return await self._store.write(lambda connection: connection.execute(_SQL["prune"], values).rowcount)


def delivery_id(run_id: str) -> str:
    """The id of a run's delivery: the same on every try, so that a receiver knows what it has had already."""
    return f"{run_id}.verdict"


def _wall(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_timestamp(at_ms * 1_000_000)
