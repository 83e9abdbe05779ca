"""Sessions: a closed session takes no more runs, in any order of close and start, and reports the confirmed dead."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.state import run_directory, sessions
from holdfast.state.index.index import Index
from holdfast.state.index.session_list import list_sessions
from holdfast.state.index.summary import Filters
from holdfast.values.errors import SessionClosedError, SpecError, StateError
from holdfast.values.spec import make_spec
from tests.support.durable import DurableRun, journal_bytes, put_run, run_to_end
from tests.support.processes import is_gone

if TYPE_CHECKING:
    from holdfast.state.directory import StateDirectory
    from tests.support.children import Children

READY = ["sh", "-c", "echo ready; exec sleep 60"]


class TestMarks:
    @pytest.mark.parametrize(
        "name",
        ["plain", "with space", "..", ".hidden", "a/b", "a%2Fb", "ü" * 128, "x" * 128, "~", "a~b", "\U0001f600", "A"],
    )
    def test_names_are_kept_apart_and_come_back(self, state: StateDirectory, name: str) -> None:
        assert not sessions.is_closed(state, name)
        sessions.mark_closed(state, name, "why\nnot")
        assert sessions.is_closed(state, name)
        (closed,) = sessions.list_closed(state)
        assert (closed.name, closed.reason) == (name, "why not")
        assert closed.closed_at_ns > 10**18
        for other in ("a", "a%2fb", "ü" * 127 + "o", "ü" * 127, "plain ", "x"):
            assert not sessions.is_closed(state, other)
        (mark,) = os.listdir(state.sessions_path)
        assert len(mark) <= 200
        assert not mark.startswith(".")

    def test_the_first_mark_stays(self, state: StateDirectory) -> None:
        sessions.mark_closed(state, "s", "first")
        sessions.mark_closed(state, "s", "second")
        assert [closed.reason for closed in sessions.list_closed(state)] == ["first"]

    def test_a_mark_that_cannot_be_read_counts(self, state: StateDirectory) -> None:
        Path(state.sessions_path, "odd").write_bytes(b"\xff\xff")
        Path(state.sessions_path, "half.1.new").write_bytes(b"")
        assert sessions.is_closed(state, "odd")
        assert [closed.name for closed in sessions.list_closed(state)] == ["odd"]

    def test_a_closed_session_is_opened_again(self, state: StateDirectory) -> None:
        assert not sessions.open_again(state, "s")
        sessions.mark_closed(state, "s", "first")
        assert sessions.open_again(state, "s")
        assert not sessions.is_closed(state, "s")
        sessions.check_open(state, "s", "r")
        sessions.mark_closed(state, "s", "second")
        assert [closed.reason for closed in sessions.list_closed(state)] == ["second"]

    def test_no_name_is_none(self, state: StateDirectory) -> None:
        with pytest.raises(SpecError, match="session"):
            sessions.is_closed(state, "")

    def test_a_mark_that_cannot_be_made_is_said(self, state: StateDirectory) -> None:
        os.rmdir(state.sessions_path)
        with pytest.raises(StateError, match="cannot use"):
            sessions.close(state, "s")
        with pytest.raises(StateError):
            sessions.list_closed(state)

    def test_check_open(self, state: StateDirectory) -> None:
        sessions.check_open(state, None, "r")
        sessions.check_open(state, "s", "r")
        sessions.mark_closed(state, "s")
        with pytest.raises(SessionClosedError, match="'s'") as raised:
            sessions.check_open(state, "s", "r")
        assert (raised.value.run_id, bool(raised.value.remedy)) == ("r", True)


@pytest.mark.guard
class TestClosing:
    def test_ends_the_runs_of_the_session_only(self, state: StateDirectory, child: Children) -> None:
        put_run(state, "foreign", journal_bytes("foreign").replace(b"HOLDFAST\x01", b"HOLDFAST\x63", 1))
        ended = run_to_end(state, session="s")
        with ExitStack() as stack:
            first = stack.enter_context(DurableRun(state, READY, session="s", lifetime="session"))
            second = stack.enter_context(DurableRun(state, child("ignores_term"), session="s", grace=0.2))
            other = stack.enter_context(DurableRun(state, READY, session="t"))
            alone = stack.enter_context(DurableRun(state, READY))
            names = [run.until_ready() for run in (first, second, other, alone)]
            del names
            closing = sessions.close(state, "s", reason="done")
            assert closing.run_ids("confirmed") == [second.run_id, first.run_id]  # newest first
            assert closing.run_ids("survivors") == closing.run_ids("unknown") == []
            assert sessions.counts(closing.runs) == {"confirmed": 2, "survivors": 0, "unknown": 0}
            (problem,) = closing.problems
            assert "foreign" in problem
            for stopped in closing.runs:
                assert stopped.report is not None
                assert (stopped.report["status"], stopped.report["cause"]) == ("cancelled", "session")
                assert is_gone(stopped.report["pid"])
            for run in (other, alone):
                with run.record() as record:
                    assert record.guard == "alive"
            with pytest.raises(SessionClosedError):
                DurableRun(state, READY, session="s")
            assert sessions.close(state, "s").runs == ()
        with Index.open(state) as index:
            index.refresh()
            assert {entry.run_id for entry in index.list(Filters(session="s")).entries} == {
                ended,
                first.run_id,
                second.run_id,
            }

    def test_are_listed_with_their_runs(self, state: StateDirectory) -> None:
        run_to_end(state, session="old")
        run_to_end(state, session="both")
        with DurableRun(state, READY, session="both") as run, Index.open(state) as index:
            run.until_ready()
            sessions.mark_closed(state, "old")
            sessions.mark_closed(state, "empty")
            found = list_sessions(index)
        assert [(one.name, one.live, one.ended, one.closed is not None) for one in found] == [
            ("both", 1, 1, False),
            ("old", 0, 1, True),
            ("empty", 0, 0, True),
        ]

    def test_stays_closed_while_a_run_of_it_is_live(self, state: StateDirectory) -> None:
        """A closer that died after its mark has ended nothing: the run must not go on in an open session."""
        with DurableRun(state, READY, session="s") as run:
            run.until_ready()
            sessions.mark_closed(state, "s")
            with pytest.raises(SessionClosedError, match=f"1 of its runs is still live.*{run.run_id}") as raised:
                sessions.open_again(state, "s")
            assert "reap" in (raised.value.remedy or "")
            assert sessions.is_closed(state, "s")
            assert sessions.close(state, "s", now=True).run_ids("confirmed") == [run.run_id]
            assert sessions.open_again(state, "s")

    def test_a_late_start_leaves_nothing(self, state: StateDirectory) -> None:
        sessions.close(state, "s")
        with pytest.raises(SessionClosedError):
            DurableRun(state, READY, session="s")
        assert (state.live_ids(), os.listdir(state.runs_path)) == ([], [])

    def test_starts_racing_the_close_are_refused_or_killed(self, state: StateDirectory) -> None:
        """Fixture 40, with real processes: a start that came before the mark is dead afterwards."""
        script = """
import sys
from holdfast.runs.durable import launch_durable
from holdfast.values.errors import SessionClosedError
from holdfast.values.spec import make_spec
from holdfast.state.directory import StateDirectory
state = StateDirectory.open(sys.argv[1])
handles = []
print("ready", flush=True)
sys.stdin.readline()
try:
    for number in range(300):
        handles.append(launch_durable(state, make_spec(["sleep", "60"], session="s", lifetime="detached")))
        print(handles[-1].sentinel_pid, flush=True)
except SessionClosedError:
    print("refused", flush=True)
for handle in handles:
    import os
    os.waitpid(handle.sentinel_pid, 0)
print("all", len(handles), flush=True)
"""
        argv = [sys.executable, "-c", script, state.path]
        starters = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        try:
            for starter in starters:
                assert starter.stdout is not None
                assert starter.stdout.readline() == "ready\n"
            for starter in starters:
                assert starter.stdin is not None
                starter.stdin.write("go\n")
                starter.stdin.flush()
            assert starters[0].stdout is not None
            assert starters[0].stdout.readline().strip().isdigit()  # at least one is under way
            closing = sessions.close(state, "s", now=True)
            outputs = [starter.communicate(timeout=60)[0] for starter in starters]
        finally:
            for starter in starters:
                starter.kill()
                starter.communicate()
        assert all("refused" in output for output in outputs)
        assert all("all" in output for output in outputs)  # every guard that was started has ended
        assert closing.run_ids("unknown") == closing.run_ids("survivors") == []
        with Index.open(state) as index:
            assert index.refresh() == []
            causes = {entry.report["cause"] for entry in index.list(limit=1000).entries}
            assert causes == {"session"}
        assert [name for name in os.listdir(state.runs_path) if name.startswith(".")] == []

    def test_without_the_protocol_a_start_slips_through(self, state: StateDirectory) -> None:
        """The negative control: a start that looked for the mark *before* it registered survives the close."""
        spec = make_spec(READY, session="s", lifetime="detached")
        sessions.check_open(state, "s", spec.run_id)  # too early
        closing = sessions.close(state, "s")
        with DurableRunUnchecked(state, spec.run_id) as slipped:
            assert closing.runs == ()
            with pytest.raises(SessionClosedError):
                sessions.check_open(state, "s", slipped.run_id)  # in its place, this catches it


class DurableRunUnchecked:
    """Register a run without looking for the mark afterwards."""

    def __init__(self, state: StateDirectory, run_id: str) -> None:
        self.state = state
        self.run_id = run_id

    def __enter__(self) -> DurableRunUnchecked:
        beginning = journal_bytes(self.run_id, [], spec=b'{"session": "s"}')
        self.prepared = run_directory.prepare(self.state, self.run_id, beginning)
        return self

    def __exit__(self, *_: object) -> None:
        self.prepared.close()
        run_directory.discard(self.state, self.run_id)
