"""A limit that the runs of a group bring themselves: at most so many of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.cli.commands.submit import OPTIONS, submit_options
from holdfast.cli.parsing.options import UsageError, parse
from holdfast.client.posting import posted
from holdfast.daemon.queue.admission import Admission, AdmissionLimits, WaitingRun, keys_of

from ...support.daemons import Gate, daemon

if TYPE_CHECKING:
    from pathlib import Path


def test_no_more_of_the_group_run_at_once_also_with_the_next_daemon(tmp_path: Path) -> None:
    gates = [Gate(tmp_path / f"gate{number}") for number in range(2)]
    path = tmp_path / "state"
    with daemon(path) as running:
        live = [running.submit(gate.waits(), concurrency_key="k", parallel=2)["run_id"] for gate in gates]
        for run_id in live:
            running.until_output(run_id)
        third = running.submit(["true"], concurrency_key="k", parallel=2)
        full = "a free slot of k: 2 of 2 are taken"
        assert third["queue"]["waits_for"] == full
        assert (
            running.wait(running.submit(["true"], concurrency_key="l", parallel=1)["run_id"])["status"] == "succeeded"
        )
        running.kill()
    with daemon(path) as running:
        assert running.report(third["run_id"])["queue"]["waits_for"] == full
        gates[0].open()
        assert running.wait(third["run_id"])["status"] == "succeeded"
        gates[1].open()
        assert [running.wait(run_id)["status"] for run_id in live] == ["succeeded"] * 2


def test_the_session_is_the_group_of_a_run_without_a_key(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state") as running:
        running.until_output(running.submit(gate.waits(), session="s")["run_id"])
        second = running.submit(["true"], session="s", parallel=1)
        assert second["queue"]["waits_for"] == "a free slot of session:s: 1 of 1 are taken"
        answer = running.request("POST", "/v1/runs", {"argv": ["true"], "parallel": 1})
        assert (answer.status, answer.body["field"]) == (422, "parallel")
        gate.open()
        assert running.wait(second["run_id"])["status"] == "succeeded"


def test_the_lower_limit_holds_and_each_run_has_its_own() -> None:
    admission = Admission(AdmissionLimits(9, {"k": 2}))
    for number, parallel in enumerate([9, 9, 9, 1, None]):
        admission.enqueue(WaitingRun(number, f"r{number}", 0, keys_of("k", None, None, parallel)))
    found = [admission.take_next() for _ in range(3)]
    assert [run and run.run_id for run in found] == ["r0", "r1", None]
    admission.vacate("r0")
    admission.withdraw("r2")
    following = [admission.take_next() for _ in range(2)]
    assert [run and run.run_id for run in following] == ["r4", None], "r3 waits until it is alone"
    for run_id in ("r1", "r4"):
        admission.vacate(run_id)
    last = admission.take_next()
    assert last is not None
    assert last.run_id == "r3"


def test_the_command_line_posts_it() -> None:
    given = parse(OPTIONS, ["--concurrency-key", "k", "--parallel", "3", "true"])
    assert posted(given.words, submit_options(given))["parallel"] == 3
    with pytest.raises(UsageError, match="--parallel '0'"):
        submit_options(parse(OPTIONS, ["--parallel", "0", "true"]))
