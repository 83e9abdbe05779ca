"""A delayed run starts not before its time, whichever daemon starts it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.cli.commands.submit import OPTIONS, submit_options
from holdfast.cli.parsing.options import parse
from holdfast.client.posting import posted
from holdfast.daemon.queue.queue_terms import QueueTerms
from holdfast.daemon.queue.submission import Submission

from ...cli.console import holdfast as command
from ...support.daemons import daemon

if TYPE_CHECKING:
    from pathlib import Path


def waited_s(report: dict[str, Any]) -> float:
    begun, queued = (datetime.fromisoformat(report[name]) for name in ("started_at", "queued_at"))
    return (begun - queued).total_seconds()


def test_a_delayed_run_starts_not_before_its_time(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--max-runs", "1") as running:
        delayed = running.submit(["true"], delay_s=0.3, queue_timeout_s=60)
        assert running.wait(running.submit(["true"])["run_id"])["status"] == "succeeded", "it delays nobody else"
        report = running.wait(delayed["run_id"])
    assert report["status"] == "succeeded"
    assert waited_s(report) >= 0.3


def test_what_it_waits_for_is_named_and_it_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with daemon(path) as running:
        with holdfast.Client(state_dir=str(path)) as client:
            report = client.submit(["true"], delay="1h")
        place = report["queue"]
        assert (place["position"], place["waits_for"][:10]) == (None, "its time: ")
        due = datetime.fromisoformat(place["waits_for"].removeprefix("its time: "))
        assert 3599 < (due - datetime.fromisoformat(report["queued_at"])).total_seconds() < 3660
        assert running.request("GET", "/v1/health").body["runs"]["queued"] == 1
        shown = command("show", "--state-dir", str(path), report["run_id"]).stdout.decode()
        assert f"priority 0; waits for {place['waits_for']}\n" in shown
        running.cancel(report["run_id"])
        assert running.wait(report["run_id"])["cause"] == "user"


def test_the_delay_survives_the_daemon(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with daemon(path) as running:
        long = running.submit(["true"], delay_s=3600)
        running.kill()
    with daemon(path, "--max-age", "1ms") as running:  # its age counts from the end of the delay
        assert running.report(long["run_id"])["queue"] == long["queue"]
        short = running.submit(["true"], delay_s=0.3)["run_id"]
        running.kill()
    with daemon(path) as running:
        assert waited_s(running.wait(short)) >= 0.3


def test_a_delay_that_is_over_leaves_nothing_to_wait_for() -> None:
    submission = Submission(argv=["true"], delay_s=10.0, queue_timeout_s=5.0)
    assert submission.terms(7) == QueueTerms(0, 10_000_000_007, 10.0, 5.0, 15.0)
    assert submission.terms(7, 12.0) == QueueTerms(0, 10_000_000_007, 0.0, 5.0, 3.0)


def test_the_command_line_posts_it() -> None:
    given = parse(OPTIONS, ["--delay", "1h30m", "true"])
    assert posted(given.words, submit_options(given))["delay_s"] == 5400.0
