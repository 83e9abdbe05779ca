"""Metrics of the daemon in the format of Prometheus. Labels are words of the contract, never ids, names or URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from ..events.verdict_counts import DELAYS_S, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from ..events.event_log import EventLog
    from ..events.verdict_counts import VerdictCounts
    from ..webhooks.deliveries import Deliveries
    from .health import DaemonHealth

_STATES = ("queued", "starting", "running", "stopping")
_BOUNDS = ("max_runs", "queue_limit")


def metrics(health: DaemonHealth, events: EventLog, deliveries: Deliveries) -> bytes:
    """All metrics as text, as they are now. Reads memory only: nothing here waits."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_DaemonCollector(health, events, deliveries))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _DaemonCollector:
    """A collector that reads the daemon's counters when Prometheus asks."""

    def __init__(self, health: DaemonHealth, events: EventLog, deliveries: Deliveries) -> None:
        self._health = health
        self._events = events
        self._deliveries = deliveries

    def collect(self) -> Iterator[Metric]:
        yield from self._of_runs()
        yield from self._of_events()
        yield from self._of_deliveries()
        started = seconds_of(self._health.started_at)
        yield _gauge("start_time_seconds", "When the daemon started, in seconds since 1970.", started)
        yield _gauge("draining", "Whether it takes no more runs.", float(self._health.draining))

    def describe(self) -> Iterator[Metric]:
        """No description: the names of the metrics never change."""
        return iter(())

    def _of_runs(self) -> Iterator[Metric]:
        counts, tally = self._health.counts(), self._events.verdict_counts
        live = GaugeMetricFamily("holdfast_runs", "Runs that are not settled, by state.", labels=["state"])
        for state in _STATES:
            live.add_metric([state], counts.get(state, 0))
        yield live
        waiting = counts.get("waiting_for_input", 0)
        yield _gauge("runs_waiting_for_input", "Runs that are blocked reading their pty or stdin pipe.", waiting)
        for bound in _BOUNDS:
            if bound in counts:
                yield _gauge(bound, f"The configured {bound}.", counts[bound])
        verdicts = CounterMetricFamily(
            "holdfast_verdicts", "Verdicts since the daemon started.", labels=["status", "cause"]
        )
        for (status, cause), number in sorted(tally.verdicts.items()):
            verdicts.add_metric([status, cause], number)
        yield verdicts
        yield _delays(tally)

    def _of_events(self) -> Iterator[Metric]:
        events = self._events
        yield _gauge("event_subscribers", "Open event streams.", events.subscribers)
        yield _counter("events", "Events published since the daemon started.", events.published)
        yield _counter("event_streams_dropped", "Event streams ended because the client was slow.", events.dropped)
        yield _counter("events_unstored", "Events that could not be stored.", events.unstored)

    def _of_deliveries(self) -> Iterator[Metric]:
        deliveries = self._deliveries
        yield _gauge("deliveries_pending", "Deliveries that are due or will be tried again.", deliveries.pending)
        ended = CounterMetricFamily("holdfast_deliveries", "Deliveries that ended, by how.", labels=["state"])
        ended.add_metric(["delivered"], deliveries.delivered)
        ended.add_metric(["failed"], deliveries.failed)
        yield ended
        yield _counter("delivery_tries", "Tries to deliver.", deliveries.tries)


def _gauge(name: str, doc: str, value: float) -> Metric:
    return GaugeMetricFamily(f"holdfast_{name}", doc, value=value)


def _counter(name: str, doc: str, value: float) -> Metric:
    return CounterMetricFamily(f"holdfast_{name}", doc, value=value)


def _delays(tally: VerdictCounts) -> Metric:
    buckets, total = [], 0
    for bound, number in zip([*map(str, DELAYS_S), "+Inf"], tally.delays, strict=True):
        total += number
        buckets.append((bound, float(total)))
    name = "holdfast_verdict_delay_seconds"
    return HistogramMetricFamily(name, "From a verdict to its event.", buckets=buckets, sum_value=tally.delay_sum_s)
