"""Pages of queued runs: complete, in order, and as cheap as what they show, however many are queued."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.daemon.queue.admission import keys_of
from holdfast.daemon.queue.queue_terms import QueueTerms
from holdfast.daemon.queue.scheduled_run import ScheduledRun
from holdfast.daemon.queue.submission import Submission
from holdfast.state.index.summary import Filters
from holdfast.values.spec import make_spec
from holdfast.values.timestamps import format_timestamp

from ...support.daemons import BOUND_S
from ..test_races import daemon_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from holdfast.daemon.parts import Parts
    from holdfast.daemon.queue.queue_order import Place

pytestmark = pytest.mark.anyio
COUNT = 3000
BEGUN_NS = 2_000_000_000 * 10**9


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def full_queue(path: Path) -> AsyncIterator[Parts]:
    """A daemon with one ended run that is older than all others, and COUNT queued ones that never start."""
    async with daemon_parts(path) as made:
        await made.service.submit(Submission(argv=["true"], run_id="ended"))
        await made.service.wait("ended", until="settled", timeout_s=BOUND_S)
        made.scheduler.close()
        for number in range(COUNT):
            queued_at = format_timestamp(BEGUN_NS + (number - number % 3) * 1000)  # three at the same time
            options: Any = {"session": f"s{number % 10}", "labels": {"n": str(number % 7)}}
            spec = make_spec(["true"], run_id=f"q{number:05d}", queued_at=queued_at, **options)
            made.scheduler.enqueue(
                ScheduledRun(spec.run_id, keys_of(None, None, None), spec=spec), number, QueueTerms()
            )
        try:
            yield made
        finally:
            made.scheduler.runs.clear()


async def walk(made: Parts, filters: Filters, **options: Any) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = await made.service.list(filters, cursor=cursor, **options)
        found += [report["run_id"] for report in page]
        if cursor is None:
            return found


async def test_all_pages_have_each_run_once_newest_first(tmp_path: Path) -> None:
    newest_first = [f"q{number:05d}" for number in reversed(range(COUNT))]
    async with full_queue(tmp_path / "s") as made:
        assert await walk(made, Filters(), limit=70) == [*newest_first, "ended"]
        assert await walk(made, Filters(), states=("queued",), limit=500) == newest_first
        assert await walk(made, Filters(), states=("settled",), limit=70) == ["ended"]
        assert await walk(made, Filters(statuses=("succeeded",)), limit=70) == ["ended"]
        assert await walk(made, Filters(session="s3"), limit=7) == [one for one in newest_first if one[-1] == "3"]
        both = Filters(session="s3", labels=(("n", "3"),))
        assert await walk(made, both, limit=7) == [
            one for one in newest_first if one[-1] == "3" and int(one[1:]) % 7 == 3
        ]
        assert await walk(made, Filters(session="none"), limit=7) == []


async def test_a_run_that_leaves_the_queue_leaves_the_pages(tmp_path: Path) -> None:
    async with full_queue(tmp_path / "s") as made:
        await made.service.cancel("q02999")
        await made.service.wait("q02999", until="settled", timeout_s=BOUND_S)
        page, _ = await made.service.list(Filters(), states=("queued",), limit=1)
        assert [report["run_id"] for report in page] == ["q02998"]


async def test_a_page_looks_at_no_more_runs_than_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with full_queue(tmp_path / "s") as made:
        looked: list[Place] = []
        after = made.scheduler.queue_order.after

        def counted(place: Place | None, session: str | None = None) -> Iterator[Place]:
            for found in after(place, session):
                looked.append(found)
                yield found

        monkeypatch.setattr(made.scheduler.queue_order, "after", counted)
        _, cursor = await made.service.list(Filters(), limit=50)
        await made.service.list(Filters(), limit=50, cursor=cursor)
        assert 100 <= len(looked) <= 104
        reports = [run for run in made.scheduler.runs.values() if run._queued is not None]  # noqa: SLF001
        assert 100 <= len(reports) <= 104
        looked.clear()
        for session, count in (("none", 0), ("s3", 51)):
            looked.clear()
            await made.service.list(Filters(session=session), limit=50)
            assert count <= len(looked) <= count + 1
        looked.clear()
        await made.service.list(Filters(name="none"), limit=50)  # the control: now every one is looked at
        assert len(looked) == COUNT
