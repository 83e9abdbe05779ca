"""The daemon put together: what is opened in which order, and closed in the opposite one.

Order. The owner lock first: there is one daemon for a state directory. Then the file, the supervisor, recovery; only
then the listener opens, so nobody is ever told of a state that recovery is about to change; then runs may start. The
end is the drain's, and after it: streams end, the listener closes, nothing is followed any more, the runs that are left
are let go (their guards go on), the file is closed, and last the lock is given back.
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

from ..config import reload
from ..runs.supervisor import Supervisor
from ..state import owner_lock
from ..state.directory import StateDirectory
from ..state.index.prune import PruneBounds
from ..state.token import load_token
from ..values.errors import HoldfastError
from .drain import Drain, Phase
from .engines.engine import LocalEngine
from .events import event_log
from .events.event_log import EventLog
from .feed import OutputFeed
from .listener import Listener
from .process.log import Forwarded, Log
from .process.notify import Notifier
from .process.signals import Signals
from .process.tasks import BackgroundTasks
from .queue import queue_rows
from .queue.scheduler import Scheduler
from .recovery import Recovery
from .service.history import History
from .service.service import Parts, Service, limits_of
from .store.store import Store
from .webhooks.deliveries import Deliveries

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from ..config import Config, Effective

FILE = "daemon.sqlite"
_RETENTION_EVERY_S = 600.0
_KEYS_S = 30 * 86_400.0  # how long an idempotency key is remembered
_LAST_TRIES_S = 2.0
_LOGGERS = ("holdfast", "uvicorn", "asyncio")


def serve(effective: Effective) -> int:
    """Be the daemon of this state directory until told to stop; the exit code. HoldfastError: it could not begin."""
    state = StateDirectory.open(effective.inputs.state_dir)
    with owner_lock.take(state, "holdfast serve"):
        log = Log(effective.config.log_format)
        handler = _forward(log)
        try:
            _run(_Daemon(state, effective, log).run())
        finally:
            for name in _LOGGERS:
                logging.getLogger(name).removeHandler(handler)
    log.info("bye")
    return 0


def _run(daemon: Coroutine[Any, Any, None]) -> None:
    """On uvloop where it is installed, as with the extra: a short run takes a tenth less."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(daemon)
    else:
        uvloop.run(daemon)


def _forward(log: Log) -> Forwarded:
    handler = Forwarded(log)
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
        self._notifier = Notifier(os.environ)
        self._tasks = BackgroundTasks(
            lambda error: log.error(f"this is a defect in Holdfast, please report it: {error!r}")
        )

    @property
    def _config(self) -> Config:
        return self._effective.config

    async def run(self) -> None:
        async with AsyncExitStack() as closing:
            store = Store.open(os.path.join(self._state.path, FILE))
            closing.callback(store.close)
            for warning in store.warnings:
                self._log.warning(warning)
            history = History(self._state, self._log)
            closing.callback(history.close)
            events = EventLog(store, _bounds(self._config))
            deliveries = Deliveries(
                store,
                events,
                secret_path=os.path.join(self._state.path, "webhook-secret"),
                secret=self._config.webhook_secret,
                warn=self._log.warning,
            )
            await events.start()
            supervisor = await closing.enter_async_context(Supervisor(state_dir=self._state.path))
            engine = LocalEngine(supervisor)
            scheduler = Scheduler(self._state, store, engine, events, limits_of(self._config), self._log)
            closing.push_async_callback(scheduler.stop)
            parts = Parts(self._state, store, engine, scheduler, history, events, deliveries)
            await self._live(Service(parts, self._config), closing)

    async def _live(self, service: Service, closing: AsyncExitStack) -> None:
        drain = Drain(service, self._log, self._notifier)
        signals = Signals(
            {
                signal.SIGTERM: drain.signal,
                signal.SIGINT: drain.signal,
                signal.SIGHUP: lambda _: self._reload(service),
            }
        )
        closing.callback(signals.ignore)
        recovery = Recovery(service, self._log)
        closing.push_async_callback(recovery.stop)
        await self._recover(service, recovery, drain)
        closing.push_async_callback(self._stop_deliveries, service, drain)
        await service.deliveries.start()
        feed = OutputFeed(self._state, service.scheduler, service.events)
        service.scheduler.on_started.append(feed.begin)
        closing.push_async_callback(feed.stop)
        feed.start()
        listener = Listener(self._state, self._config)
        closing.push_async_callback(listener.close)
        closing.push_async_callback(self._end_streams, service)
        app = self._app(service)
        app.state.logins.addresses = listener.addresses[1:]
        await listener.serve(app, self._config)
        closing.push_async_callback(self._tasks.stop)
        self._tasks.begin(self._keep_watchdog_quiet())
        self._tasks.begin(self._retain(service))
        service.scheduler.is_open = True
        service.scheduler.pump()
        for address in listener.addresses:
            self._log.info(f"listening on {address}", address=address)
        gc.collect()
        gc.freeze()  # what is there now stays: looking through it again and again costs a tenth of a short run
        self._log.info("ready", pid=os.getpid())
        self._notifier.ready(f"listening on {', '.join(listener.addresses)}")
        await drain.run()

    def _app(self, service: Service) -> Any:
        from .http.app import make_app
        from .http.browser import dashboard, login
        from .http.security import Security

        token = load_token(self._state.path) if self._config.listen else None
        hosts = [address.rpartition(":")[0] for address in self._config.listen]
        public = dashboard.paths() | login.PUBLIC
        return make_app(service, security=Security.of(token, [*hosts, *self._config.allowed_hosts], public))

    async def _recover(self, service: Service, recovery: Recovery, drain: Drain) -> None:
        self._notifier.status("recovering")
        self._log.info("recovering")
        began = time.monotonic()
        found = await recovery.run(self._config.recovery_s, unless=drain.signalled)
        took_ms = round((time.monotonic() - began) * 1000)
        text = f"recovered {found.followed} runs and {found.queued} queued ones in {took_ms}ms"
        rest = f"; {found.unfinished} take longer" if found.unfinished else ""
        self._log.info(text + rest, **found._asdict())
        try:
            await service.deliveries.recover(service.report)
        except HoldfastError as error:
            self._log.warning(f"deliveries that are due could not be looked for: {error}")

    def _reload(self, service: Service) -> None:
        self._notifier.reloading()
        try:
            done = reload(self._effective)
        except HoldfastError as error:
            self._log.warning(f"the settings were not read again, the old ones stay: {error}")
        else:
            self._effective = done.new
            self._log.format = done.new.config.log_format
            service.reconfigure(done.new.config)
            self._log.info(f"settings changed: {', '.join(done.changed) or 'none'}", changed=list(done.changed))
            if done.needs_restart:
                self._log.warning(f"these need a restart: {', '.join(done.needs_restart)}")
        self._notifier.ready("settings read again")

    # What goes on beside.

    async def _keep_watchdog_quiet(self) -> None:
        while self._notifier.watchdog_s is not None:
            self._notifier.watchdog()
            await asyncio.sleep(self._notifier.watchdog_s)

    async def _retain(self, service: Service) -> None:
        while True:
            await self._attempt("old runs were not removed", self._prune(service))
            before_ns = time.time_ns() - round(_KEYS_S * 1e9)
            forgetting = service.store.write(queue_rows.forget_keys(before_ns))
            await self._attempt("old idempotency keys were not removed", forgetting)
            await asyncio.sleep(_RETENTION_EVERY_S)

    async def _prune(self, service: Service) -> None:
        config = service.config
        bounds = PruneBounds(config.retention_age_s, config.retention_count, config.retention_bytes)
        if all(bound is None for bound in bounds):
            return
        done = await service.history.prune(bounds)
        for run_id in done.removed:
            service.forget(run_id)
        if done.removed:
            self._log.info(f"removed {len(done.removed)} old runs", freed_bytes=done.freed_bytes)
        for run_id, why in done.kept:
            self._log.warning(f"an old run stays: {why}", run_id=run_id)

    async def _attempt(self, failed: str, work: Any) -> None:
        try:
            await work
        except (HoldfastError, OSError) as error:
            self._log.warning(f"{failed}: {error}")

    # The end.

    async def _end_streams(self, service: Service) -> None:
        service.end_waits()
        # What was published is written by now, or never will be: whoever listens gets it before the end.
        await self._attempt("the last events may be missing", service.store.write(lambda _: None))
        await service.events.stop()

    async def _stop_deliveries(self, service: Service, drain: Drain) -> None:
        await service.deliveries.stop(last_tries_s=0.0 if drain.phase is Phase.LEAVING else _LAST_TRIES_S)


def _bounds(config: Config) -> event_log.EventLogBounds:
    keep_s = config.events_age_s
    return event_log.EventLogBounds(config.events_count, 1e9 if keep_s is None else keep_s)
