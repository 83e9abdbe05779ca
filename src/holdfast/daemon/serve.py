"""`holdfast serve`: the life of the daemon, from the owner lock to the end of the drain.

Order. The owner lock comes first: a state directory has one daemon. Then parts.py opens the parts, and the recovery
runs. Only then the listener opens, so that no client sees a state that the recovery is about to change. Then queued
runs may start. A signal begins the drain. After it the streams end, the listener closes, the daemon follows no run any
more (live runs go on in their guards), the store is closed, and the lock is released last.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ..access.tokens import TokenFile
from ..config import reload
from ..runs.descriptor_limit import DescriptorReserve, raise_descriptor_limit
from ..service_manager.notifier import Notifier
from ..state import disk_reserve, owner_lock
from ..state.directory import StateDirectory
from ..state.token import load_token
from ..values.errors import HoldfastError
from .drain import DrainPhase
from .listener import Listener
from .parts import DaemonInputs, open_parts
from .process.background_tasks import BackgroundTasks
from .process.log import Log, LogForwarder
from .process.signals import Signals
from .queue.admission import limits_of

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from ..config import Config, Effective
    from .parts import Parts
    from .queue.scheduler import Scheduler

_LAST_TRIES_S = 2.0
_LOGGERS = ("holdfast", "uvicorn", "asyncio")


def serve(effective: Effective) -> int:
    """Be the daemon of this state directory until a signal; returns the exit code. HoldfastError: it cannot start."""
    state = StateDirectory.open(effective.inputs.state_dir)
    disk_reserve.release_if_full(state.path)  # the daemon must start to remove old runs
    with owner_lock.take(state, "holdfast serve") as owned:
        log = Log(effective.config.log_format)
        if owned.moved_aside is not None:
            log.warning(f"{owned.path} was damaged and nobody held it: it is {owned.moved_aside} now")
        handler = _forward(log)
        try:
            _run(_Daemon(state, effective, log).run())
        finally:
            for name in _LOGGERS:
                logging.getLogger(name).removeHandler(handler)
    log.info("bye")
    return 0


def _run(daemon: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop if it is installed: a short run then takes a tenth less."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(daemon)
    else:
        uvloop.run(daemon)


def _forward(log: Log) -> LogForwarder:
    handler = LogForwarder(log)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    return handler


class _Daemon:
    """One life of the daemon."""

    def __init__(self, state: StateDirectory, effective: Effective, log: Log) -> None:
        self._state = state
        self._effective = effective
        self._log = log
        self._reserve = DescriptorReserve.of(raise_descriptor_limit(), effective.config.max_runs)
        self._listener: Listener | None = None
        self._notifier = Notifier(os.environ)
        self._tasks = BackgroundTasks(
            lambda error: log.error(f"this is a defect in Holdfast, please report it: {error!r}")
        )

    @property
    def _config(self) -> Config:
        return self._effective.config

    async def run(self) -> None:
        given = DaemonInputs(self._state, lambda: self._config, self._log, self._notifier)
        async with open_parts(given) as parts, AsyncExitStack() as closing:
            await self._live(parts, closing)

    async def _live(self, parts: Parts, closing: AsyncExitStack) -> None:
        signals = Signals(
            {
                signal.SIGTERM: parts.drain.signal,
                signal.SIGINT: parts.drain.signal,
                signal.SIGHUP: lambda _: self._reload(parts.scheduler),
            }
        )
        closing.callback(signals.ignore)
        closing.push_async_callback(parts.recovery.stop)
        await self._recover(parts)
        closing.push_async_callback(self._stop_deliveries, parts)
        await parts.deliveries.start()
        closing.push_async_callback(parts.feed.stop)
        parts.feed.start()
        listener = Listener(self._state, self._config, self._reserve, self._log)
        self._listener = listener
        closing.push_async_callback(listener.close)
        closing.push_async_callback(self._end_streams, parts)
        tokens = TokenFile(self._state.path)
        app = self._app(parts, tokens)
        app.state.logins.addresses = listener.addresses[1:]
        app.state.logins.opener = lambda: self._open_for_browsers(listener)
        parts.health.watch(self._reserve.shortages, stops_runs=True)
        parts.health.watch(listener.shortages, stops_runs=False)
        parts.health.watch(tokens.shortages, stops_runs=False)
        parts.health.watch(parts.audit.shortages, stops_runs=False)
        await listener.serve(app)
        closing.push_async_callback(self._tasks.stop)
        self._tasks.begin(self._keep_watchdog_quiet())
        self._tasks.begin(parts.retention.run())
        parts.scheduler.open()
        for address in listener.addresses:
            self._log.info(f"listening on {address}", address=address)
        gc.collect()
        gc.freeze()  # objects of the start-up stay: scanning them again and again costs a tenth of a short run
        self._log.info("ready", pid=os.getpid())
        self._notifier.ready(f"listening on {', '.join(listener.addresses)}")
        await parts.drain.run(lambda: self._config)

    def _app(self, parts: Parts, tokens: TokenFile) -> Any:
        from ..web.request_body import BodyBounds
        from .http.app import make_app
        from .http.browser import dashboard
        from .http.browser.ended_sessions import EndedSessions
        from .http.operations import PUBLIC
        from .http.security import Security

        token = load_token(self._state.path) if self._config.listen else None
        hosts = [address.rpartition(":")[0] for address in self._config.listen]
        public = dashboard.paths() | PUBLIC
        ended = EndedSessions(self._state.path)
        security = Security.of(token, [*hosts, *self._config.allowed_hosts], public, tokens, ended)
        bounds = BodyBounds(self._config.request_bytes, self._config.request_timeout_s)
        return make_app(
            parts.service,
            bounds=bounds,
            security=security,
            agents=parts.agents,
            tokens=tokens,
            audit=parts.audit,
            settings=lambda: self._config,
            effective=lambda: self._effective,
        )

    def _open_for_browsers(self, listener: Listener) -> tuple[str, str]:
        """Listen on a port of loopback, too, because somebody wants to use a browser. HoldfastError: it cannot be."""
        token = load_token(self._state.path)
        address = listener.open_loopback()
        self._log.info(f"listening on {address}, for browsers", address=address)
        return token, address

    async def _recover(self, parts: Parts) -> None:
        self._notifier.status("recovering")
        self._log.info("recovering")
        began = time.monotonic()
        found = await parts.recovery.run(self._config, unless=parts.drain.signalled)
        took_ms = round((time.monotonic() - began) * 1000)
        text = f"recovered {found.followed} runs and {found.queued} queued ones in {took_ms}ms"
        rest = f"; {found.unfinished} take longer" if found.unfinished else ""
        self._log.info(text + rest, **found._asdict())
        if not found.unfinished:  # a run that is not found again yet may still need its prompt
            parts.prompts.sweep(parts.scheduler.has)
        try:
            await parts.deliveries.recover(parts.service.report)
        except HoldfastError as error:
            self._log.warning(f"deliveries that are due could not be found: {error}")

    def _reload(self, scheduler: Scheduler) -> None:
        self._notifier.reloading()
        try:
            done = reload(self._effective)
        except HoldfastError as error:
            self._log.warning(f"the settings were not read again, the old ones stay: {error}")
        else:
            # A run that is queued keeps the defaults it was queued with.
            self._effective = done.new
            self._log.format = done.new.config.log_format
            scheduler.change_limits(limits_of(done.new.config))
            self._log.info(f"settings changed: {', '.join(done.changed) or 'none'}", changed=list(done.changed))
            if done.needs_restart:
                self._log.warning(f"these need a restart: {', '.join(done.needs_restart)}")
        if self._listener is not None:
            self._listener.reload(self._config)
        self._notifier.ready("settings read again")

    async def _keep_watchdog_quiet(self) -> None:
        while self._notifier.watchdog_s is not None:
            self._notifier.watchdog()
            await asyncio.sleep(self._notifier.watchdog_s)

    # The end.

    async def _end_streams(self, parts: Parts) -> None:
        parts.waits.end()
        # Published events are stored before this write: every subscriber gets them before its stream ends.
        try:
            await parts.store.write(lambda _: None)
        except (HoldfastError, OSError) as error:
            self._log.warning(f"the last events may be missing: {error}")
        await parts.events.stop()

    async def _stop_deliveries(self, parts: Parts) -> None:
        await parts.deliveries.stop(last_tries_s=0.0 if parts.drain.phase is DrainPhase.LEAVING else _LAST_TRIES_S)
