"""Watching a guard: what a look at it does, and what it costs."""

from __future__ import annotations

import time

import pytest

from holdfast.guard.processes import has_exited
from holdfast.runs import guard_watch
from holdfast.runs.ephemeral import start_ephemeral
from holdfast.values.spec_cache import new_spec

from ..support.processes import wait_exited

pytestmark = pytest.mark.guard


def test_a_run_that_has_ended_unheard_is_over_and_proc_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hundreds of runs, a search of /proc for each of them would take longer than the runs."""

    def search(*_given: object) -> None:
        raise AssertionError("/proc was searched")

    monkeypatch.setattr(guard_watch, "continue_both", search)
    live = start_ephemeral(new_spec(["true"], {}))
    try:
        assert wait_exited(live.sentinel_pid)
        assert has_exited(live.pidfd)
        assert not live.ended, "nobody has taken it in"
        assert guard_watch.look(live, time.monotonic()) == guard_watch.OVER
        assert live.outcome.exit_code == 0
    finally:
        live.reap(wait=True)
        live.close()
