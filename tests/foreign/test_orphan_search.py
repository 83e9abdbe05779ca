"""Foreign orphans: found by mark and ancestry when their harness is dead, and ended by identity.

The tests use the marks of Amp, which nobody runs on a build host: real harnesses that run beside the tests would be
possible owners. Every test looks at its own processes only.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from holdfast.foreign.orphan_end import end
from holdfast.foreign.orphan_search import ForeignOrphan, _Search, find
from holdfast.foreign.seen_process import look_at_all
from holdfast.values.identity import ProcessIdentity

from ..support.processes import state_of
from .leaving import GENTLE, Leaving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARKS = {"AMP_CURRENT_THREAD_ID": "thread-1", "AI_AGENT": "amp"}

# One test's live harness could be the owner of another's orphan.
pytestmark = pytest.mark.xdist_group("foreign-orphans")


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[Leaving]:
    started = Leaving(tmp_path, "amp", MARKS)
    yield started
    started.close()


def of(leaving: Leaving) -> list[ForeignOrphan]:
    return [orphan for orphan in find() if orphan.pid in leaving.pids]


def is_gone(pid: int) -> bool:
    return state_of(pid) in (None, "Z", "X")


def test_a_process_is_an_orphan_when_its_harness_is_dead_and_not_before(leaving: Leaving) -> None:
    assert of(leaving) == []
    leaving.kill_harness()
    found = of(leaving)
    assert [orphan.pid for orphan in found] == leaving.pids
    for orphan in found:
        assert (orphan.harness, orphan.title, orphan.session) == ("amp", "Amp", "thread-1")
        assert (orphan.state, orphan.evidence, orphan.why_not) == ("dead", "AMP_CURRENT_THREAD_ID", None)
        assert orphan.age_s is not None
        assert orphan.memory_bytes
        assert orphan.ports == ()
    assert next(orphan for orphan in found if orphan.pid == leaving.sleeper).command == ("sleep", "600")


def test_a_process_without_marks_or_below_another_program_is_none(tmp_path: Path) -> None:
    for marks, reaper in (({"FOO": "1"}, "tini"), (MARKS, "my-harness")):
        started = Leaving(tmp_path, "amp", marks, reaper=reaper)
        try:
            started.kill_harness()
            assert of(started) == []
        finally:
            started.close()


def test_a_run_of_holdfast_is_none(tmp_path: Path) -> None:
    started = Leaving(tmp_path, "amp", {**MARKS, "HOLDFAST_RUN_ID": "01aaaaaaaaaaaaaaaaaa"})
    try:
        started.kill_harness()
        assert of(started) == []
    finally:
        started.close()


def test_a_live_harness_may_be_the_owner_unless_it_has_another_session(tmp_path: Path, leaving: Leaving) -> None:
    """A process that left its harness on purpose looks as one whose harness is dead: only the session tells."""
    older = leaving  # alive, and started before the others
    for session, state in (("thread-1", "unknown"), ("thread-2", "dead")):
        started = Leaving(tmp_path, "amp", {"AMP_CURRENT_THREAD_ID": session})
        try:
            started.kill_harness()
            assert {orphan.state for orphan in of(started)} == {state}
        finally:
            started.close()
    assert of(older) == []


def test_an_end_is_confirmed_also_for_one_that_ignores_sigterm(tmp_path: Path, leaving: Leaving) -> None:
    leaving.kill_harness()
    ended = end(of(leaving), grace_s=0.2)
    assert [each.how for each in ended] == ["gone", "gone"]
    assert all(is_gone(pid) for pid in leaving.pids)
    gentle = Leaving(tmp_path, "amp", MARKS, script=GENTLE)
    try:
        gentle.kill_harness()
        assert [each.how for each in end(of(gentle), grace_s=60)] == ["gone", "gone"]  # SIGTERM is enough
    finally:
        gentle.close()


def test_another_process_with_the_pid_is_left_alone(leaving: Leaving) -> None:
    leaving.kill_harness()
    found = of(leaving)
    first = found[0]
    other = ProcessIdentity(first.pid, first.identity.start_ticks - 1, first.identity.boot_id)
    (result,) = end([first._replace(identity=other)], grace_s=0)
    assert (result.how, is_gone(first.pid)) == ("gone", False)  # that process is gone; this one lives
    for orphan, why in (
        (first._replace(state="unknown"), "its harness may be alive"),
        (first._replace(identity=ProcessIdentity(os.getppid(), 1, None)), "it is init, this process, or one of its"),
        (first._replace(identity=ProcessIdentity(1, 1, None)), "it is init, this process, or one of its"),
    ):
        (result,) = end([orphan], grace_s=0)
        assert result.how == "refused"
        assert why in str(result.why)
    assert not any(is_gone(pid) for pid in leaving.pids)


def test_a_process_is_not_below_one_that_is_younger(tmp_path: Path) -> None:
    """Its parent died while we looked, and an orphan has that PID now. The stranger must not end with the orphan."""
    with subprocess.Popen(["sleep", "600"]) as stranger:
        leaving = Leaving(tmp_path, "amp", MARKS)
        try:
            leaving.kill_harness()
            seen = look_at_all()
            assert seen[stranger.pid].identity.start_ticks < seen[leaving.shell].identity.start_ticks
            seen[stranger.pid] = seen[stranger.pid]._replace(parent=leaving.shell)
            found = [orphan.pid for orphan in _Search(seen).found()]
            assert set(leaving.pids) <= set(found)
            assert stranger.pid not in found
        finally:
            leaving.close()
            stranger.kill()


def test_the_process_of_another_user_is_refused(leaving: Leaving, monkeypatch: pytest.MonkeyPatch) -> None:
    leaving.kill_harness()
    found = of(leaving)
    monkeypatch.setattr(os, "geteuid", lambda: found[0].uid + 1)
    assert [each.how for each in end(found, grace_s=0)] == ["refused", "refused"]
    assert f"it belongs to user {found[0].uid}" in str(end(found[:1], grace_s=0)[0].why)
    assert not any(is_gone(pid) for pid in leaving.pids)
