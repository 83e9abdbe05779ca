"""`holdfast doctor`: what it prints, what it changes and when, and its exit codes.

Reaping is tried within this process, where only our own descendants are looked at: other suites on this machine have
processes that look like orphans for a moment.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.cli.main import main
from holdfast.state.directory import StateDirectory
from holdfast.state.upkeep import orphans
from holdfast.values.run_id import new_run_id
from tests.state.marked import LEAVES_ONE, Marked
from tests.support.durable import DurableRun, put_run
from tests.support.processes import wait_exited

from ..console import holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from pathlib import Path

# Orphans belong to the whole host: tests that end all orphans and tests that leave one take turns.
pytestmark = [pytest.mark.xdist_group("orphans"), pytest.mark.usefixtures("own_orphans_only", "clean_environment")]


@pytest.fixture
def state(state_directory: Path) -> StateDirectory:
    return StateDirectory.open(str(state_directory))


class Doctor:
    """The command, run in this process."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self.capfd = capfd

    def __call__(self, *arguments: str) -> tuple[int, str]:
        self.capfd.readouterr()
        code = main(["doctor", *arguments])
        return code, self.capfd.readouterr().out

    def json(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        code, text = self("--json", *arguments)
        document: dict[str, Any] = json.loads(text)
        return code, document


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(capfd)


@pytest.mark.guard
def test_healthy_is_0(doctor: Doctor, state_directory: Path) -> None:
    code, text = doctor()
    assert code == 0
    assert text.splitlines()[-1] == "healthy"
    assert {line.split()[0] for line in text.splitlines()[:-1]} <= {"ok", "warning"}
    assert re.search(r"^ok +guard .* ran a command, contained by", text, re.MULTILINE)
    assert not state_directory.exists(), "looking makes nothing"


def test_it_runs_as_a_command_of_its_own(state: StateDirectory) -> None:
    put_run(state, "half", b"")
    done = holdfast("doctor", "--json")
    assert done.returncode == 1
    document = as_json(done)
    (found,) = [finding for finding in document["findings"] if finding["run_id"] == "half"]
    assert (found["level"], found["topic"], found["needs_action"]) == ("problem", "run", True)
    assert found["remedy"]
    assert (document["healthy"], document["repairs"]) == (False, [])


@pytest.mark.guard
def test_a_lost_run_first_dry_then_for_good(doctor: Doctor, state: StateDirectory) -> None:
    with DurableRun(state, LEAVES_ONE) as run:
        ready = run.until_ready()
        run.kill_guard()
        assert wait_exited(ready["leader"])
        code, text = doctor()
        assert code == 1
        assert f"(run {run.run_id})" in text
        assert "remedy: holdfast doctor --reap" in text
        assert text.splitlines()[-1] == "1 finding to look at"

        code, text = doctor("--reap", "--dry-run")
        assert code == 1
        assert text.startswith(f"would    write its end, and end what is left of it (run {run.run_id})\n")
        assert not wait_exited(ready["pid"], 0)
        with run.record() as record:
            assert not record.reader.ended

        code, document = doctor.json("--reap")
        assert wait_exited(ready["pid"], 0)
        (done,) = document["repairs"]
        assert (done["kind"], done["run_id"], done["confirmed"]) == ("finish", run.run_id, True)
        assert (code, document["healthy"]) == (0, True)
    assert doctor("--reap")[1].splitlines()[0] == "nothing to do"


def test_an_orphan_is_killed_and_confirmed(doctor: Doctor, marked: Marked) -> None:
    run_id = new_run_id()
    pid = marked(run_id)
    code, document = doctor.json("--reap", "--dry-run")
    assert (code, document["dry_run"]) == (1, True)
    assert [each["pids"] for each in document["repairs"]] == [[pid]]
    assert "confirmed" not in document["repairs"][0]
    code, text = doctor("--reap")
    assert code == 0
    assert re.match(rf"done     kill process {pid} \(.*\) \(run {run_id}\): confirmed gone\n", text)
    assert wait_exited(pid, 0)


def test_what_was_not_confirmed_is_said(doctor: Doctor, marked: Marked, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = new_run_id()
    pid = marked(run_id)

    def survives(found: list[orphans.Orphan], **_: object) -> list[orphans.ReapedOrphan]:
        return [orphans.ReapedOrphan(orphan, "survivor", "SIGKILL did not end it") for orphan in found]

    monkeypatch.setattr(orphans, "reap", survives)
    code, text = doctor("--reap")
    assert code == 1
    assert text.startswith(f"not done kill process {pid}")
    assert "survivor: SIGKILL did not end it" in text


def test_text_of_others_cannot_reach_the_terminal(doctor: Doctor, marked: Marked) -> None:
    marked(new_run_id(), executable="/bin/sh")
    pid = marked._start(  # noqa: SLF001
        ["\x1b[2J", "-c", "echo ready; read -r _"], executable="/bin/sh", env={"HOLDFAST_RUN_ID": new_run_id()}
    )
    code, text = doctor()
    assert code == 1
    assert str(pid) in text
    assert "\x1b" not in text


@pytest.mark.parametrize("arguments", [["--dry-run"], ["word"], ["--nonsense"]])
def test_a_wrong_command_line_is_125(arguments: list[str]) -> None:
    assert one_line(holdfast("doctor", *arguments))


def test_a_state_directory_that_cannot_be_used_is_a_finding(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, text = doctor("--state-dir", str(tmp_path / "file"))
    assert code == 1
    assert re.search(r"^problem +state .*\n +remedy: ", text, re.MULTILINE)
