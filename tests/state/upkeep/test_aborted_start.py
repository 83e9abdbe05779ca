"""Aborted starts: directories of runs whose command never ran, and cgroups of dead probes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import containment
from holdfast.state.directory import StateDirectory
from holdfast.state.upkeep.aborted_start import discard_if_never_ran, remove_dead_probes
from tests.support.durable import DurableRun, prepared

if TYPE_CHECKING:
    from pathlib import Path


def test_only_a_directory_without_any_fact_is_taken_away(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "s"))
    prepared(state, "never")
    assert discard_if_never_ran(state, "never")
    assert (state.has("never"), state.live_ids()) == (False, [])
    with DurableRun(state, ["sleep", "600"], run_id="lives") as run:
        assert not discard_if_never_ran(state, "lives")
        run.kill_guard()
    assert not discard_if_never_ran(state, "lives")
    assert state.has("lives")
    assert discard_if_never_ran(state, "nothing")


def test_a_cgroup_that_a_killed_process_was_probing_is_removed() -> None:
    base = containment.probe().cgroup_base
    if base is None:
        pytest.skip("needs a writable cgroup v2")
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    left, lives = (f"{base}/holdfast-probe-{pid}-0000abcd" for pid in (gone.pid, os.getpid()))
    for path in (left, lives):
        os.mkdir(path)
    try:
        remove_dead_probes()
        assert (os.path.exists(left), os.path.exists(lives)) == (False, True)
    finally:
        for path in (left, lives):
            if os.path.exists(path):
                os.rmdir(path)
