"""A run that starts after another one: when it has succeeded, and never when it has not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

import holdfast
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.daemon.http.access.run_access import bounded
from holdfast.daemon.queue.submission import Submission
from holdfast.web.problems import ProblemError

from ...cli.console import holdfast as command
from ...support.daemons import Gate, daemon

if TYPE_CHECKING:
    from pathlib import Path


def test_it_starts_when_the_other_run_has_succeeded(tmp_path: Path) -> None:
    gate, path = Gate(tmp_path / "gate"), tmp_path / "state"
    with daemon(path) as running:
        first = running.submit(gate.waits())["run_id"]
        with holdfast.Client(state_dir=str(path)) as client:
            second = client.submit(["true"], after=first)
        assert second["queue"] == {"position": None, "priority": 0, "waits_for": f"run {first} to succeed"}
        third = running.submit(["true"], after=[first, second["run_id"]])["run_id"]
        assert running.wait(running.submit(["true"])["run_id"])["status"] == "succeeded"
        assert running.report(second["run_id"])["state"] == "queued"
        gate.open()
        ended, last = running.wait(first), running.wait(third)
        begun = running.report(second["run_id"])
    assert (begun["status"], last["status"]) == ("succeeded", "succeeded")
    assert ended["settled_at"] < begun["started_at"] < begun["settled_at"] < last["started_at"]


def test_it_never_starts_when_the_other_run_has_not_succeeded(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with daemon(tmp_path / "state") as running:
        first = running.submit(["false"])["run_id"]
        running.wait(first)
        second = running.submit(["touch", str(mark)], after=[first])["run_id"]
        third = running.submit(["touch", str(mark)], after=[second])["run_id"]
        found = [running.wait(run_id) for run_id in (second, third)]
    assert [(report["status"], report["cause"]) for report in found] == [("cancelled", "user")] * 2
    why = "cancelled before it started: the run {}, for which it waited, has not succeeded ({})"
    assert [report["reason"] for report in found] == [
        why.format(first, "failed/exit"),
        why.format(second, "cancelled/user"),
    ]
    assert not mark.exists()


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with daemon(path) as running:
        answer = running.request("POST", "/v1/runs", {"argv": ["true"], "after": ["nobody"]})
        assert (answer.status, answer.body["field"]) == (422, "after")
        done = command("submit", "--state-dir", str(path), "--after", "nobody", "--", "true")
        assert (done.returncode, done.stdout) == (125, b"")


@pytest.mark.parametrize(("then", "status"), [("exit 0", "succeeded"), ("exit 1", "cancelled")])
def test_the_next_daemon_sees_what_ended_without_one(tmp_path: Path, then: str, status: str) -> None:
    gate, path = Gate(tmp_path / "gate"), tmp_path / "state"
    with daemon(path) as running:
        first = running.submit(gate.waits(then))["run_id"]
        running.until_output(first)
        second = running.submit(["true"], after=[first])["run_id"]
        running.kill()
        gate.open()
        command("wait", "--state-dir", str(path), first)
    with daemon(path, "--max-age", "1ms") as running:
        assert running.wait(second)["status"] == status


def test_a_run_of_another_process_is_waited_for_by_its_name(tmp_path: Path) -> None:
    gate, path = Gate(tmp_path / "gate"), tmp_path / "state"
    state = ("--state-dir", str(path))
    with daemon(path) as running:
        first = command("run", *state, "--detach", "--name", "outside", "--", *gate.waits()).stdout.decode().strip()
        second = command("submit", *state, "--after", "outside", "--", "true").stdout.decode().strip()
        assert running.report(second)["queue"]["waits_for"] == f"run {first} to succeed"
        third = command("submit", *state, "--after", second, "--", "true").stdout.decode().strip()
        gate.open()
        assert [running.wait(run_id)["status"] for run_id in (second, third)] == ["succeeded"] * 2


def test_a_session_token_does_not_wait_for_the_runs_of_others() -> None:
    class Others:
        async def report(self, run_id: str) -> dict[str, Any]:
            return {"run_id": run_id, "session": "theirs"}

    caller = Caller("token", Role.SUBMIT, token="t", session="mine")
    with pytest.raises(ProblemError, match="no such run"):
        asyncio.run(bounded(cast("Any", Others()), caller, Submission(argv=["true"], after=["r1"])))
