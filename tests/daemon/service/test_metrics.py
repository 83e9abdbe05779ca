"""The daemon's numbers, read with Prometheus' own parser."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.daemon.events.event_log import EventLog
from holdfast.daemon.service.metrics import metrics
from holdfast.daemon.store.store import Store
from holdfast.daemon.webhooks.deliveries import Deliveries
from holdfast.values.timestamps import format_timestamp
from tests.support.publishing import published

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.daemon.service.health import DaemonHealth

pytestmark = pytest.mark.anyio
COUNTS = {"queued": 3, "starting": 1, "running": 2, "stopping": 0, "max_runs": 16, "queue_limit": 1000}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def read(health: DaemonHealth, log: EventLog, deliveries: Deliveries) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, sorted."""
    families = text_string_to_metric_families(metrics(health, log, deliveries).decode())
    return {(one.name, *sorted(one.labels.values())): one.value for family in families for one in family.samples}


async def test_what_happened_is_counted(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "daemon.sqlite"))
    log = EventLog(store)
    deliveries = Deliveries(store, log, secret_path=str(tmp_path / "webhook-secret"))
    await log.start()
    await deliveries.start()
    started_at = format_timestamp(time.time_ns() - 60_000_000_000)
    facts = SimpleNamespace(counts=lambda: COUNTS, started_at=started_at, draining=False)
    health = cast("DaemonHealth", facts)
    before = read(health, log, deliveries)
    assert before["holdfast_runs", "queued"] == 3
    assert before["holdfast_runs", "stopping"] == 0
    assert before["holdfast_max_runs",] == 16
    assert before["holdfast_event_subscribers",] == 0
    assert before["holdfast_verdict_delay_seconds_count",] == 0
    subscription = log.subscribe()
    for run_id, status, cause in (
        ("a", "timed_out", "deadline"),
        ("b", "succeeded", "exit"),
        ("c", "succeeded", "exit"),
    ):
        report = {"status": status, "cause": cause, "verdict_at": format_timestamp(time.time_ns() - 20_000_000)}
        await published(log, "run.verdict", run_id, {"report": report})
        await published(log, "run.verdict", run_id, {"report": report})  # a second time, as recovery may
    found = read(health, log, deliveries)
    assert found["holdfast_verdicts_total", "deadline", "timed_out"] == 1
    assert found["holdfast_verdicts_total", "exit", "succeeded"] == 2
    assert found["holdfast_event_subscribers",] == 1
    assert found["holdfast_verdict_delay_seconds_bucket", "0.01"] == 0
    assert found["holdfast_verdict_delay_seconds_bucket", "+Inf"] == 3
    assert found["holdfast_verdict_delay_seconds_sum",] >= 0.06
    assert found["holdfast_deliveries_total", "delivered"] == 0
    assert found["holdfast_draining",] == 0
    assert 59 < time.time() - found["holdfast_start_time_seconds",] < 120
    assert found["process_open_fds",] > 3
    assert all(len(labels) <= 2 for _, *labels in found)
    assert not any("run-" in label or label in ("a", "b", "c") for _, *labels in found for label in labels)
    subscription.close()
    await deliveries.stop()
    await log.stop()
    store.close()
