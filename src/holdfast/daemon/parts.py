"""The daemon's parts, put together: which part is given which others, and the order of opening and closing.

No part makes another one, and no part is reached through another one: what a part calls is given to it here. A part
that has to hear of starts, verdicts and ends is registered with the scheduler here, too.
"""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..access.audit_log import AuditLog
from ..access.policy_check import check_webhook
from ..runs.supervisor import Supervisor
from ..state.directory import DAEMON_STORE
from .agents.agent_runs import AgentRuns
from .agents.prompt_files import PromptFiles
from .agents.push_notification import push_notification
from .drain import Drain
from .engines.engine import LocalEngine
from .events.event_log import EventLog, EventLogBounds
from .output_feed import OutputFeed
from .queue.admission import limits_of
from .queue.disk_room import DiskRoom
from .queue.intake import Intake
from .queue.nesting import Nesting
from .queue.run_records import RunRecords
from .queue.scheduler import Scheduler
from .queue.start_policy import StartPolicy
from .queue.succession import Succession
from .recovery import Recovery, RecoveryParts
from .retention import Retention
from .service.daemon_sessions import DaemonSessions
from .service.health import DaemonHealth
from .service.history import History
from .service.input_watch import InputWatch
from .service.open_waits import OpenWaits
from .service.run_finder import RunFinder
from .service.service import Service, ServiceParts
from .service.usage_sampler import UsageSampler
from .store.retention_clock import RetentionClock, clock_file
from .store.store import Store
from .webhooks.deliveries import Deliveries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ..config import Config
    from ..service_manager.notifier import Notifier
    from ..state.directory import StateDirectory
    from .engines.engine import Engine
    from .process.log import Log


class Parts(NamedTuple):
    """The parts that `serve` starts, opens and ends."""

    store: Store
    events: EventLog
    deliveries: Deliveries
    scheduler: Scheduler
    finder: RunFinder
    service: Service
    health: DaemonHealth
    agents: AgentRuns
    prompts: PromptFiles
    waits: OpenWaits
    feed: OutputFeed
    recovery: Recovery
    drain: Drain
    retention: Retention
    audit: AuditLog


class DaemonInputs(NamedTuple):
    """What the daemon is given from outside; `settings` returns the settings in force now."""

    state: StateDirectory
    settings: Callable[[], Config]
    log: Log
    notifier: Notifier


@asynccontextmanager
async def open_parts(given: DaemonInputs) -> AsyncIterator[Parts]:
    """Open the store, the event log and the supervisor, and build the other parts on them.

    At the end the daemon follows no run any more, lets the runs that are left go on in their guards, and closes the
    store last. StateError: one of them cannot be opened.
    """
    state, settings, log, notifier = given
    async with AsyncExitStack() as closing:
        store = _open_store(given)
        closing.callback(store.close)
        history = History(state, log)
        closing.callback(history.close)
        clock = RetentionClock(clock_file(state.path))
        events = EventLog(store, _bounds(settings()), clock)
        deliveries = _deliveries(given, store, events)
        deliveries.ago_ns = clock.ago_ns
        deliveries.check_target = lambda url: check_webhook(settings().policy.webhooks, url)
        await events.start()
        closing.push_async_callback(events.stop)
        # The daemon has a floor of its own, which may change while it runs, and queues what must wait.
        supervisor = Supervisor(state_dir=state.path, disk_floor="none")
        engine: Engine = LocalEngine(await closing.enter_async_context(supervisor))
        if settings().engine == "ray":
            engine = await _ray_engine(given, engine, closing)
        scheduler = Scheduler(RunRecords(state, log), store, engine, events, limits_of(settings()), log)
        closing.push_async_callback(scheduler.stop)
        disk = DiskRoom(state.path, settings)
        scheduler.may_start = disk.is_there
        scheduler.judge = StartPolicy(store, settings).allowed
        finder = RunFinder(state, scheduler, history, engine)
        nesting = Nesting(scheduler, finder.find, log)
        succession = Succession(scheduler, finder.find, finder.report, log)
        intake = Intake(state, store, scheduler, nesting, succession, deliveries, disk, settings)
        input_watch = InputWatch(events)
        feed = OutputFeed(state, scheduler, events)
        waits = OpenWaits()
        health = DaemonHealth(state, scheduler, intake, input_watch, settings)
        health.watch(disk.shortages, stops_runs=True)
        sessions = DaemonSessions(state, scheduler, history)
        scheduler.on_started += [input_watch.begin, feed.begin]
        scheduler.on_verdict += [nesting.decided]
        prompts = PromptFiles(state.path)
        scheduler.on_settled += [nesting.forget, finder.remember, prompts.forget]
        audit = AuditLog(state.path)
        closing.callback(audit.close)
        service = Service(
            ServiceParts(
                scheduler=scheduler,
                intake=intake,
                finder=finder,
                history=history,
                events=events,
                deliveries=deliveries,
                sessions=sessions,
                health=health,
                sampler=UsageSampler(state),
                waits=waits,
            )
        )
        yield Parts(
            store=store,
            events=events,
            deliveries=deliveries,
            scheduler=scheduler,
            finder=finder,
            service=service,
            health=health,
            agents=AgentRuns(service, prompts, lambda: settings().agents),
            prompts=prompts,
            waits=waits,
            feed=feed,
            recovery=Recovery(RecoveryParts(state, store, scheduler, finder, nesting, history, succession), log),
            drain=Drain(scheduler, intake, events, log, notifier),
            retention=Retention(store, history, finder, disk, audit, clock, settings, log),
            audit=audit,
        )


async def _ray_engine(given: DaemonInputs, local: Engine, closing: AsyncExitStack) -> Engine:
    """The engine of many hosts. HoldfastError: Ray is not installed, or no cluster answers."""
    from ..ray.supervisor import RaySupervisor  # here, because it needs Ray, which most daemons do without
    from .ray_engine.ray_engine import RayEngine

    config = given.settings()
    supervisor = RaySupervisor(address=config.ray_address, state_dir=config.ray_state_dir, lease=config.ray_lease_s)
    engine = RayEngine(given.state, await closing.enter_async_context(supervisor), local, given.log)
    closing.push_async_callback(engine.close)
    return engine


def _open_store(given: DaemonInputs) -> Store:
    store = Store.open(os.path.join(given.state.path, DAEMON_STORE))
    for warning in store.warnings:
        given.log.warning(warning)
    store.warn = given.log.warning
    return store


def _deliveries(given: DaemonInputs, store: Store, events: EventLog) -> Deliveries:
    return Deliveries(
        store,
        events,
        secret_path=os.path.join(given.state.path, "webhook-secret"),
        secret=given.settings().webhook_secret,
        warn=given.log.warning,
        body_of=push_notification,
    )


def _bounds(config: Config) -> EventLogBounds:
    keep_s = config.events_age_s
    return EventLogBounds(config.events_count, 1e9 if keep_s is None else keep_s)
