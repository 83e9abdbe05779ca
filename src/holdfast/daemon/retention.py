"""Retention: old runs, keys and audit records are removed every ten minutes, the largest runs when the disk is low."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..state.index.prune import PruneBounds
from ..values.errors import HoldfastError
from .queue import queue_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..access.audit_log import AuditLog
    from ..config import Config
    from ..state.index.prune import PruneResult
    from .process.log import Log
    from .queue.disk_room import DiskRoom
    from .service.history import History
    from .service.run_finder import RunFinder
    from .store.retention_clock import RetentionClock
    from .store.store import Store

_EVERY_S = 600.0
_LOOK_S = 5.0
_KEYS_S = 30 * 86_400.0  # how long an idempotency key is remembered


class Retention:
    """Removes what is older than the settings allow."""

    def __init__(
        self,
        store: Store,
        history: History,
        finder: RunFinder,
        disk: DiskRoom,
        audit: AuditLog,
        clock: RetentionClock,
        settings: Callable[[], Config],
        log: Log,
    ) -> None:
        self._store = store
        self._disk = disk
        self._clock = clock
        self._audit = audit
        self._history = history
        self._finder = finder
        self._settings = settings
        self._log = log

    async def run(self) -> None:
        """Remove what is too old, now and every ten minutes. Never returns; a failure is logged."""
        await asyncio.gather(self._remove_old(), self._free_disk())

    async def _free_disk(self) -> None:
        while True:
            if self._settings().free_disk and self._disk.missing_bytes:
                await self._attempt("the largest runs were not removed", self._prune_largest())
            await asyncio.sleep(_LOOK_S)

    async def _prune_largest(self) -> None:
        self._forget(await self._history.prune_largest(self._disk.missing_bytes), "of the largest")

    async def _remove_old(self) -> None:
        while True:
            await self._attempt("old runs were not removed", self._prune())
            forgetting = self._store.write(queue_rows.forget_keys(self._clock.ago_ns(_KEYS_S)))
            await self._attempt("old idempotency keys were not removed", forgetting)
            await self._attempt("the jumps of the clock were not written down", asyncio.to_thread(self._clock.saving()))
            await self._attempt("old records of the audit were not removed", self._prune_audit())
            await asyncio.sleep(_EVERY_S)

    async def _prune(self) -> None:
        config = self._settings()
        age_s = config.retention_age_s
        before_ns = None if age_s is None else self._clock.ago_ns(age_s)
        bounds = PruneBounds(None, config.retention_count, config.retention_bytes, before_ns)
        if all(bound is None for bound in bounds):
            return
        self._forget(await self._history.prune(bounds), "old")

    async def _prune_audit(self) -> None:
        config = self._settings()
        age_s = config.audit_age_s
        self._audit.prune(None if age_s is None else self._clock.ago_ns(age_s), config.audit_bytes)

    def _forget(self, done: PruneResult, which: str) -> None:
        for run_id in done.removed:
            self._finder.forget(run_id)
        if done.removed:
            self._log.info(f"removed {len(done.removed)} {which} runs", freed_bytes=done.freed_bytes)
        for run_id, why in done.kept:
            self._log.warning(f"a run that should go stays: {why}", run_id=run_id)

    async def _attempt(self, failed: str, work: Awaitable[None]) -> None:
        try:
            await work
        except (HoldfastError, OSError) as error:
            self._log.warning(f"{failed}: {error}")
