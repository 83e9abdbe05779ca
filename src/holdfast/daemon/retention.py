"""Retention: old runs and old idempotency keys are removed every ten minutes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ..state.index.prune import PruneBounds
from ..values.errors import HoldfastError
from .queue import queue_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..config import Config
    from .process.log import Log
    from .service.history import History
    from .service.run_finder import RunFinder
    from .store.store import Store

_EVERY_S = 600.0
_KEYS_S = 30 * 86_400.0  # how long an idempotency key is remembered


class Retention:
    """Removes what is older than the settings allow."""

    def __init__(
        self, store: Store, history: History, finder: RunFinder, settings: Callable[[], Config], log: Log
    ) -> None:
        self._store = store
        self._history = history
        self._finder = finder
        self._settings = settings
        self._log = log

    async def run(self) -> None:
        """Remove what is too old, now and every ten minutes. Never returns; a failure is logged."""
        while True:
            await self._attempt("old runs were not removed", self._prune())
            forgetting = self._store.write(queue_rows.forget_keys(time.time_ns() - round(_KEYS_S * 1e9)))
            await self._attempt("old idempotency keys were not removed", forgetting)
            await asyncio.sleep(_EVERY_S)

    async def _prune(self) -> None:
        config = self._settings()
        bounds = PruneBounds(config.retention_age_s, config.retention_count, config.retention_bytes)
        if all(bound is None for bound in bounds):
            return
        done = await self._history.prune(bounds)
        for run_id in done.removed:
            self._finder.forget(run_id)
        if done.removed:
            self._log.info(f"removed {len(done.removed)} old runs", freed_bytes=done.freed_bytes)
        for run_id, why in done.kept:
            self._log.warning(f"an old run stays: {why}", run_id=run_id)

    async def _attempt(self, failed: str, work: Awaitable[None]) -> None:
        try:
            await work
        except (HoldfastError, OSError) as error:
            self._log.warning(f"{failed}: {error}")
