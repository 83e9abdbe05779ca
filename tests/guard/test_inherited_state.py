"""A command of a later run inherits what a child of `subprocess` would: a guard from before a change is not used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.guard import inherited_state
from holdfast.guard.inherited_state import StateReader, read_inherited_state

from ..support.state_changes import CHANGES

pytestmark = pytest.mark.guard

ROOT = Path(__file__).resolve().parents[2]
DECISION = ROOT / "docs" / "decisions" / "0019-a-guard-that-a-new-one-would-equal.md"


def param(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.root] if CHANGES[name].root else [])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the commands saw, by the name of the change."""
    names = [name for name, change in CHANGES.items() if os.geteuid() == 0 or not change.root]
    environment = {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("jail"))}
    program = [sys.executable, "-m", "tests.support.state_changes", *names]
    told = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, timeout=120, check=False)
    assert told.returncode == 0, told.stderr.decode()
    found: dict[str, dict[str, Any]] = json.loads(told.stdout)
    return found


@pytest.mark.xdist_group("inherited state")
@pytest.mark.parametrize("name", [param(name) for name in CHANGES])
def test_the_second_run_sees_what_the_program_changed(name: str, seen: dict[str, dict[str, Any]]) -> None:
    """As `subprocess` does. Control: a supervisor that takes every guard for current passes on what was before."""
    told = seen[name]
    if "unavailable" in told:
        pytest.skip(f"allowed: this host cannot change it: {told['unavailable']}")
    assert "error" not in told, told["error"]
    before, *_ = told["before"]
    assert told["after"] == [told["expected"]] * 2
    assert told["expected"] != before
    assert told["stale"] == before, "control"


def test_the_decision_names_what_is_tried() -> None:
    rows = re.findall(r"^\| (?!attribute|-)([^|]+?) \|", DECISION.read_text(), re.MULTILINE)
    assert [row for row in rows if not row.startswith("*")] == list(CHANGES)


def test_a_reader_in_another_thread_reads_that_thread() -> None:
    reader, read = StateReader(), []
    here = reader.read()

    def elsewhere() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        read.append(reader.read())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert here is not None
    assert reader.read() == here
    assert (read != [here]) is (len(os.sched_getaffinity(0)) > 1)
    reader.close()


def test_without_proc_there_is_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_inherited_state() is not None, "control"
    monkeypatch.setattr(inherited_state, "_STATUS", "/nonexistent/status")
    assert read_inherited_state() is None


def test_a_program_with_a_new_filter_is_not_asked_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter may kill it for a call that it does not expect."""
    reader = StateReader()
    assert reader.read() is not None, "control"
    monkeypatch.setattr(inherited_state, "_FILTERS", b"\nSeccomp:\t2\nSeccomp_filters:\t7")
    monkeypatch.setattr("holdfast.guard.state_calls.StateCalls.read", lambda _: pytest.fail("a deadly call"))
    assert reader.read() is None
    reader.close()
