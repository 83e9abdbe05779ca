"""The index: its contents, its lists, and that damage to it or to one run has no other effect."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.sqlite import database
from holdfast.state import run_directory
from holdfast.state.index import index as index_module
from holdfast.state.index import index_file, queries, rebuild
from holdfast.state.index.index import Index
from holdfast.state.index.page_query import PageQuery
from holdfast.state.index.summary import Filters, read_summary
from holdfast.values.errors import SpecError, StateError, StateVersionError
from holdfast.values.run_id import new_run_id
from tests.support.durable import USAGE, DurableRun, HeldLock, facts_of_success, journal_bytes, put_run, run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.state.directory import StateDirectory


def ids(index: Index, filters: Filters | None = None) -> list[str]:
    return [entry.run_id for entry in index.list(filters, limit=1000).entries]


class TestCatchingUp:
    @pytest.mark.guard
    def test_takes_in_what_ended_and_returns_what_lives(self, state: StateDirectory, index: Index) -> None:
        ended = run_to_end(state, ["sh", "-c", "echo hello; exit 3"], session="s", labels={"a": "b"}, name="n")
        with DurableRun(state, ["sh", "-c", "echo ready; exec sleep 60"]) as run:
            run.until_ready()
            (alive,) = index.refresh()
            assert (alive.run_id, alive.guard, alive.report["state"]) == (run.run_id, "alive", "running")
            assert state.live_ids() == [run.run_id]
        entry = index.get(ended)
        assert entry is not None
        report = entry.report
        assert (report["status"], report["cause"], report["exit_code"]) == ("failed", "exit", 3)
        assert (report["session"], report["name"], report["labels"]) == ("s", "n", {"a": "b"})
        directly = read_summary(state, ended)
        assert directly is not None
        assert report == json.loads(json.dumps(directly.report))
        assert entry.disk_bytes >= entry.journal_bytes > 0

    @pytest.mark.guard
    def test_finishes_a_run_whose_guard_was_killed(self, state: StateDirectory, index: Index) -> None:
        with DurableRun(state, ["sh", "-c", "echo ready; exec sleep 60"]) as run:
            run.until_ready()
            run.kill_guard()
            assert index.refresh() == []
            entry = index.get(run.run_id)
        assert entry is not None
        assert (entry.report["status"], entry.report["cause"], entry.report["state"]) == ("lost", "guard", "settled")
        assert state.live_ids() == []

    def test_another_boot_is_the_host(self, state: StateDirectory, index: Index) -> None:
        put_run(state, "before", journal_bytes("before", facts_of_success(0)[:1], boot="another-boot"))
        index.refresh()
        entry = index.get("before")
        assert entry is not None
        assert (entry.report["status"], entry.report["cause"]) == ("lost", "host")

    def test_the_mark_goes_only_after_the_commit(
        self, state: StateDirectory, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_run(state, "one")

        def fails(*_: Any) -> None:
            raise sqlite3.OperationalError("no space")

        with monkeypatch.context() as broken:
            broken.setattr(index_module, "put", fails)
            with pytest.raises(StateError, match="no space"):
                index.refresh()
        assert state.live_ids() == ["one"]
        assert index.count() == 0
        index.refresh()
        assert (state.live_ids(), ids(index)) == ([], ["one"])

    @pytest.mark.parametrize("make", [Index.refresh, Index.rebuild])
    def test_a_socket_that_a_killed_guard_left_goes_with_the_mark(
        self, state: StateDirectory, index: Index, make: Callable[[Index], object]
    ) -> None:
        """A guard was killed between its end and the removal of its socket; without the mark nobody looks again."""
        socket = Path(put_run(state, "one"), "guard.sock")
        socket.touch()
        with HeldLock(state.run_path("one")):  # not killed, only about to exit
            make(index)
            assert socket.exists()
            assert state.live_ids() == ["one"]
        make(index)
        assert not socket.exists()
        assert state.live_ids() == []
        assert ids(index) == ["one"]

    def test_taking_in_twice_changes_nothing(self, state: StateDirectory, index: Index) -> None:
        put_run(state, "one", journal_bytes("one", spec=b'{"argv": ["x"], "labels": {"a": "b"}}'))
        index.refresh()
        before = index.list()
        state.mark_live("one")
        index.refresh()
        assert index.list() == before
        assert ids(index, Filters(labels=(("a", "b"),))) == ["one"]

    def test_a_mark_without_a_run_goes_with_its_row(self, state: StateDirectory, index: Index) -> None:
        put_run(state, "one")
        index.refresh()
        os.rename(state.run_path("one"), state.hidden_path("one", "gone"))
        state.mark_live("one")
        assert index.refresh() == []
        assert (state.live_ids(), ids(index), os.listdir(state.runs_path)) == ([], [], [])

    def test_a_run_that_is_being_made_keeps_its_mark(self, state: StateDirectory, index: Index) -> None:
        os.mkdir(state.hidden_path("soon", "new"))
        state.mark_live("soon")
        assert index.refresh() == []
        assert state.live_ids() == ["soon"]

    def test_a_run_that_appears_while_it_is_looked_for(
        self, state: StateDirectory, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No journal at the first look, a directory at the second: the run was listed without a journal for ever."""
        open_journal = run_directory.open_journal

        def opens_too_early(path: str, **_how: bool) -> int:
            monkeypatch.setattr(run_directory, "open_journal", open_journal)
            put_run(state, "one")
            raise FileNotFoundError(path)

        state.mark_live("one")
        monkeypatch.setattr(run_directory, "open_journal", opens_too_early)
        assert index.refresh() == []
        entry = index.get("one")
        assert entry is not None
        assert (entry.report["status"], entry.problem) == ("succeeded", None)

    def test_more_than_a_batch(self, state: StateDirectory, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index_module, "_BATCH", 7)
        names = sorted(f"r{number:02}" for number in range(20))
        for name in names:
            put_run(state, name)
        index.refresh()
        assert sorted(ids(index)) == names


class TestBrokenRuns:
    """Fixture 30: a broken run is one entry with a problem; the others are not affected."""

    def damage(self, state: StateDirectory) -> None:
        put_run(state, "good")
        put_run(state, "torn", journal_bytes("torn")[:-9])
        put_run(state, "empty", b"")
        put_run(state, "foreign", journal_bytes("foreign").replace(b"HOLDFAST\x01", b"HOLDFAST\x63", 1))
        put_run(state, "noise", os.urandom(300))
        data = bytearray(journal_bytes("flipped"))
        data[data.index(b"hello") + 40] ^= 0xFF
        put_run(state, "flipped", bytes(data))
        put_run(state, "spec", journal_bytes("spec", spec=b"not json"))
        put_run(state, "copied", journal_bytes("original"))
        os.mkdir(state.run_path("hollow"))
        state.mark_live("hollow")

    def check(self, found: dict[str, Any]) -> None:
        outcomes = {run_id: (entry.report["status"], entry.report["cause"]) for run_id, entry in found.items()}
        assert outcomes["good"] == ("succeeded", "exit")
        assert found["good"].problem is None
        assert outcomes["torn"] == ("succeeded", "exit")  # the exit was recorded; only the end was torn off
        assert outcomes["empty"] == ("lost", "guard")
        assert outcomes["noise"] == ("lost", "guard")
        assert "journal.damaged" in found["noise"].problem
        assert outcomes["flipped"] == ("lost", "guard")
        assert "journal.damaged" in found["flipped"].problem
        assert "spec" in found["spec"].problem
        assert "original" in found["copied"].problem
        assert "no journal" in found["hollow"].problem
        assert found["hollow"].report["run_id"] == "hollow"
        assert found["hollow"].report["problem"] == found["hollow"].problem

    def test_refresh_takes_in_all_of_them(self, state: StateDirectory, index: Index) -> None:
        self.damage(state)
        (foreign,) = index.refresh()
        assert foreign.run_id == "foreign"
        assert "version 99" in str(foreign.problem)
        assert "foreign" in str(foreign.problem)
        assert state.live_ids() == ["foreign"]  # a newer Holdfast has to finish it
        self.check({entry.run_id: entry for entry in index.list().entries})

    def test_rebuild_takes_in_all_of_them(self, state: StateDirectory, index: Index) -> None:
        self.damage(state)
        assert index.rebuild() == 8
        assert state.live_ids() == ["foreign"]
        self.check({entry.run_id: entry for entry in index.list().entries})

    def test_cut_at_every_byte_gives_what_was_recorded(self, state: StateDirectory, index: Index) -> None:
        lengths = range(len(journal_bytes("cut-0000")) + 1)
        verdict_at = len(journal_bytes("cut-0000", facts_of_success(0)[:2]))
        for length in lengths:
            run_id = f"cut-{length:04}"
            put_run(state, run_id, journal_bytes(run_id)[:length])
        assert index.refresh() == []
        for entry in index.list(limit=5000).entries:
            length = int(entry.run_id[4:])
            expected = ("succeeded", "exit") if length >= verdict_at else ("lost", "guard")
            assert (entry.report["status"], entry.report["cause"]) == expected, entry.run_id
            assert entry.report["state"] == "settled"
            assert entry.problem is None, entry.run_id
        assert index.count() == len(lengths)

    @pytest.mark.parametrize(
        "spec",
        [
            b'{"session": 5, "name": ["x"], "parent": {"a": 1}, "labels": {"a": 1}}',
            b'{"session": "\\ud800", "name": "\\udfff", "labels": {"\\ud800": "\\ud800"}, "argv": "\\ud800"}',
            b'{"labels": [1, 2]}',
            b'{"labels": "text"}',
            b'{"labels": {"a": null, "b": [1]}}',
            b'{"argv": 7}',
            b'{"argv": {"a": 1e999}, "queued_at": 99}',
            b"[" * 100_000,
            b"7",
            b"null",
        ],
    )
    def test_nonsense_in_whole_frames_stops_nobody(self, state: StateDirectory, index: Index, spec: bytes) -> None:
        put_run(state, "good")
        put_run(state, "odd", journal_bytes("odd", spec=spec))
        assert index.refresh() == []
        assert sorted(ids(index)) == ["good", "odd"]
        assert index.rebuild() == 2

    @pytest.mark.parametrize("begun_ns", [-1, 1 << 63, 10**40])
    def test_impossible_times_stop_nobody(self, state: StateDirectory, index: Index, begun_ns: int) -> None:
        put_run(state, "good")
        put_run(state, "odd", journal_bytes("odd", begun_ns=begun_ns))
        assert index.refresh() == []
        assert sorted(ids(index)) == ["good", "odd"]

    def test_an_unreadable_one_waits_for_better_times(self, state: StateDirectory, index: Index) -> None:
        put_run(state, "good")
        path = Path(put_run(state, "loop")) / "journal"
        path.unlink()
        path.symlink_to(path)  # ELOOP: an error that root gets, too
        (entry,) = index.refresh()
        assert (entry.run_id, entry.final) == ("loop", False)
        assert "cannot be read" in str(entry.problem)
        assert ids(index) == ["good"]
        assert state.live_ids() == ["loop"]

    def test_a_damaged_one_with_a_guard_stays_live(self, state: StateDirectory, index: Index) -> None:
        with HeldLock(put_run(state, "noise", os.urandom(300))):
            (entry,) = index.refresh()
            assert (entry.guard, entry.final) == ("alive", False)
        assert index.refresh() == []  # its guard is gone now: recovery writes its end


class TestListing:
    def fill(self, state: StateDirectory, index: Index) -> None:
        started = facts_of_success(0)[0]
        failed = [started, ("exited", {"wait_status": 1 << 8, **USAGE}), *facts_of_success(0)[2:]]
        for number in range(30):
            run_id = f"r{number:02}"
            session = b', "session": "s%d"' % (number % 3)
            labels = b', "labels": {"even": "%d", "third": "%d"}' % (number % 2, number % 3)
            name = b', "name": "n%d", "parent": "p%d"' % (number % 5, number % 7)
            spec = b'{"argv": ["x"]' + session + labels + name + b"}"
            facts = failed if number % 4 == 0 else None
            put_run(state, run_id, journal_bytes(run_id, facts, begun_ns=10**18 + number // 2, spec=spec))
        index.refresh()

    @pytest.mark.parametrize("limit", [1, 2, 7, 29, 30, 31])
    @pytest.mark.parametrize("filters", [Filters(), Filters(statuses=("succeeded", "failed"), causes=("exit",))])
    def test_pages_hold_every_run_once_newest_first(
        self, state: StateDirectory, index: Index, limit: int, filters: Filters
    ) -> None:
        self.fill(state, index)
        found, cursor = [], None
        while True:
            page = index.list(filters, limit=limit, cursor=cursor)
            assert len(page.entries) <= limit
            found += [entry.run_id for entry in page.entries]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == [f"r{number:02}" for number in reversed(range(30))]

    @pytest.mark.parametrize(
        "filters",
        [
            Filters(session="s1"),
            Filters(session="s1", statuses=("failed",)),
            Filters(statuses=("failed", "lost")),
            Filters(causes=("exit", "deadline"), statuses=("succeeded",)),
            Filters(name="n2", parent="p3"),
            Filters(labels=(("even", "1"),)),
            Filters(labels=(("even", "1"), ("third", "2"))),
            Filters(labels=(("even", "1"), ("third", "2")), session="s2", statuses=("succeeded",)),
            Filters(since_ns=10**18 + 5, until_ns=10**18 + 9),
            Filters(since_ns=10**18 + 5, labels=(("even", "0"),)),
            Filters(session="nobody"),
            Filters(session="it's \" \\ % ? {driver} ;--"),
        ],
    )
    def test_sql_and_python_filter_alike(self, state: StateDirectory, index: Index, filters: Filters) -> None:
        self.fill(state, index)
        everything = index.list(limit=100).entries
        wanted = [entry.run_id for entry in everything if filters.matches(entry)]
        assert ids(index, filters) == wanted
        assert filters.session in ("nobody", None) or len(wanted) < 30

    def test_cursors_of_others_are_refused(self, index: Index) -> None:
        for cursor in ("", "x", "1", "1.", ".a", "-1.a", "1" * 40 + ".a"):
            with pytest.raises(SpecError, match="cursor"):
                index.list(cursor=cursor)

    def test_lookups(self, state: StateDirectory, index: Index) -> None:
        self.fill(state, index)
        assert index.get("r0") is None
        assert index.find_part("r0") == [f"r0{number}" for number in range(10)]
        assert index.find_part("r0", limit=2) == ["r00", "r01"]
        assert index.find_part("%") == index.find_part("r0_") == []
        assert ids(index, Filters(session="s0")) == [f"r{number:02}" for number in reversed(range(0, 30, 3))]
        assert {name: count for name, (count, _) in index.sessions().items()} == {"s0": 10, "s1": 10, "s2": 10}
        index.forget(["r00", "r01", "not there"])
        assert index.count() == 28
        assert index.get("r00") is None

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            (Filters(), "runs_by_time"),
            (Filters(session="s"), "runs_by_session"),
            (Filters(session="s", statuses=("lost",)), "runs_by_session_and_status"),
            (Filters(statuses=("lost",)), "runs_by_status"),
            (Filters(causes=("oom",)), "runs_by_cause"),
            (Filters(name="n"), "runs_by_name"),
            (Filters(parent="p"), "runs_by_parent"),
            (Filters(labels=(("a", "b"),)), "PRIMARY KEY"),
            (Filters(labels=(("even", "0"),), name="nobody"), "runs_by_name"),
            (Filters(labels=(("nothing", "0"),), session="s0"), "PRIMARY KEY"),
            (Filters(session="s1", name="nobody", parent="p1", statuses=("lost",)), "runs_by_name"),
        ],
    )
    def test_no_filter_sorts_or_looks_at_every_row(
        self, state: StateDirectory, index: Index, filters: Filters, expected: str
    ) -> None:
        self.fill(state, index)
        connection = sqlite3.connect(state.index_path)

        def select(text: str, parameters: dict[str, Any]) -> list[Any]:
            return connection.execute(text, parameters).fetchall()

        for cursor in (None, f"{10**18}.r05"):
            for text, parameters in PageQuery(filters, cursor).statements(select):
                plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", {**parameters, "limit": 10}).fetchall()
                steps = "\n".join(step[3] for step in plan)
                assert "TEMP B-TREE" not in steps
                assert expected in steps
                assert "SCAN reports" not in steps
        connection.close()


class TestBadIndex:
    """Fixture 30 again: a broken index is moved aside and made again; a newer one stays."""

    def has_one_run(self, state: StateDirectory) -> None:
        put_run(state, "one")
        with Index.open(state) as index:
            index.refresh()
            assert ids(index) == ["one"]

    def corrupt(self, path: Path, kind: str) -> None:
        data = path.read_bytes()
        if kind == "noise":
            path.write_bytes(os.urandom(len(data)))
        elif kind == "empty":
            path.write_bytes(b"")
        elif kind == "pages":
            path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
        elif kind == "cut":
            path.write_bytes(data[: len(data) // 2])
        else:
            connection = sqlite3.connect(path)
            connection.executescript(kind)
            connection.close()

    @pytest.mark.parametrize(
        "kind",
        [
            "noise",
            "empty",
            "pages",
            "cut",
            "PRAGMA application_id = 1;",
            "PRAGMA user_version = 0;",
            "PRAGMA user_version = -3;",
            "DROP TABLE labels; DROP TABLE reports;",
        ],
    )
    def test_is_moved_aside_and_made_again(self, state: StateDirectory, kind: str) -> None:
        self.has_one_run(state)
        self.corrupt(Path(state.index_path), kind)
        with Index.open(state) as index:
            assert ids(index) == ["one"]
            (warning,) = index.warnings
            assert state.index_path in warning
            assert "1 journals" in warning
        kept = [name for name in os.listdir(state.path) if ".damaged-" in name]
        assert kept
        assert all(name.startswith("index.sqlite.damaged-") for name in kept)
        with Index.open(state) as index:
            assert ids(index) == ["one"]
            assert index.warnings == []

    def test_damage_that_is_met_later(self, state: StateDirectory) -> None:
        for number in range(300):
            put_run(state, f"r{number:03}")
        with Index.open(state) as index:
            index.refresh()
            assert index.count() == 300
            index.close()
            path = Path(state.index_path)
            data = path.read_bytes()
            middle = len(data) // 8192 * 4096
            path.write_bytes(data[:middle] + b"\xff" * 4096 * 4 + data[middle + 4096 * 4 :])
            found = sorted(ids(index)) if len(ids(index)) == 300 else []
            reports = [index.get(f"r{number:03}") for number in range(300)]
        assert len(found) == 300
        assert all(reports)

    def test_missing(self, state: StateDirectory) -> None:
        self.has_one_run(state)
        os.unlink(state.index_path)
        Path(f"{state.index_path}-wal").write_bytes(os.urandom(5000))  # of the run that is not there any more
        with Index.open(state) as index:
            assert ids(index) == ["one"]
            assert len(index.warnings) == 1

    def test_removed_while_it_is_open(self, state: StateDirectory, index: Index) -> None:
        put_run(state, "one")
        index.refresh()
        os.unlink(state.index_path)
        put_run(state, "two")
        index.refresh()
        assert sorted(ids(index)) == ["one", "two"]
        assert state.live_ids() == []

    def test_the_first_one_is_no_warning(self, state: StateDirectory) -> None:
        put_run(state, "one")
        with Index.open(state) as index:
            assert ids(index) == ["one"]
            assert index.warnings == []

    def test_a_newer_one_is_left_alone(self, state: StateDirectory) -> None:
        self.has_one_run(state)
        self.corrupt(Path(state.index_path), "PRAGMA user_version = 1000;")
        before = Path(state.index_path).read_bytes()
        with pytest.raises(StateVersionError, match="version 1000") as raised:
            Index.open(state)
        assert raised.value.remedy
        assert Path(state.index_path).read_bytes() == before
        assert not [name for name in os.listdir(state.path) if "damaged" in name]

    def test_a_rebuild_that_fails_leaves_the_old_one(
        self, state: StateDirectory, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_run(state, "one")
        index.refresh()

        def fails(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as broken:
            broken.setattr(rebuild, "put", fails)
            with pytest.raises(StateError, match="No space"):
                index.rebuild()
        assert ids(index) == ["one"]
        assert not os.path.exists(f"{state.index_path}.new")

    def test_a_rebuild_marks_what_is_not_over(self, state: StateDirectory, index: Index) -> None:
        with HeldLock(put_run(state, "busy", journal_bytes("busy", facts_of_success(0)[:1]), live=False)):
            assert index.rebuild() == 0
            assert state.live_ids() == ["busy"]


class TestSchema:
    @staticmethod
    def shape(connection: sqlite3.Connection) -> dict[str, Any]:
        found: dict[str, Any] = {}
        names = connection.execute("SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'")
        for kind, name, table in names.fetchall():
            pragma = "table_xinfo" if kind == "table" else "index_xinfo"
            parts = [f"PRAGMA {pragma}({name})", f"PRAGMA foreign_key_list({name})"]
            found[f"{kind} {name} {table}"] = [connection.execute(part).fetchall() for part in parts]
        strict = connection.execute("SELECT name, wr, strict FROM pragma_table_list WHERE name NOT LIKE 'sqlite_%'")
        return {**found, "tables": sorted(strict.fetchall())}

    def test_fresh_equals_migrated(self, tmp_path: Path) -> None:
        fresh = index_file.create(str(tmp_path / "fresh"))
        migrated = sqlite3.connect(tmp_path / "migrated", isolation_level=None)
        database.migrate(migrated, queries.migrations())
        assert self.shape(fresh) == self.shape(migrated)
        assert len(self.shape(fresh)) > 10
        for pragma in ("user_version",):
            assert fresh.execute(f"PRAGMA {pragma}").fetchone() == migrated.execute(f"PRAGMA {pragma}").fetchone()
        migrated.execute("DROP INDEX runs_by_name")  # the comparison sees a difference
        assert self.shape(fresh) != self.shape(migrated)
        fresh.close()
        migrated.close()

    def test_an_older_index_is_migrated_when_opened(
        self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_run(state, "one")
        with Index.open(state) as index:
            index.refresh()
            index.close()
            later = [*queries.migrations(), (2, ["ALTER TABLE runs ADD COLUMN later TEXT"])]
            monkeypatch.setattr(queries, "migrations", lambda: later)
            assert ids(index) == ["one"]
            assert index.warnings == []


_REFRESHES = """
import sys
from holdfast.state.directory import StateDirectory
from holdfast.state.index.index import Index
from holdfast.state.index.page_query import PageQuery
state = StateDirectory.open(sys.argv[1])
with Index.open(state) as index:
    print("ready", flush=True)
    while True:
        line = sys.stdin.readline()
        if not line:
            break
        if "damage" in line:
            index.rebuild()
        index.refresh()
        print(index.count(), len(index.warnings), flush=True)
"""


class TestSeveralProcesses:
    @pytest.mark.guard
    def test_refresh_together_while_runs_end(self, state: StateDirectory) -> None:
        others = [
            subprocess.Popen(
                [sys.executable, "-c", _REFRESHES, state.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        started: list[str] = []
        try:
            for other in others:
                assert other.stdout is not None
                assert other.stdout.readline() == "ready\n"
            for turn in range(6):
                # Runs that end by themselves, runs whose guard is killed, and readers, all at once.
                runs = [DurableRun(state, ["/bin/true" if n % 2 else "/bin/cat"], stdin="pipe") for n in range(8)]
                started += [run.run_id for run in runs]
                for number, other in enumerate(others):
                    assert other.stdin is not None
                    other.stdin.write("damage\n" if turn % 3 == 2 and number == 0 else "\n")
                    other.stdin.flush()
                for run in runs:
                    if run.spec.argv[0] == "/bin/cat":
                        run.kill_guard()
                    run.until_ended()
                    run.__exit__(None, None, None)
                for other in others:
                    assert other.stdout is not None
                    assert other.stdout.readline().split()[1] == "0"
        finally:
            for other in others:
                other.communicate()
        assert [other.returncode for other in others] == [0] * 4
        with Index.open(state) as index:
            index.refresh()
            assert sorted(ids(index)) == sorted(started)
            assert state.live_ids() == []
            by_status = {status: len(ids(index, Filters(statuses=(status,)))) for status in ("succeeded", "lost")}
            assert sum(by_status.values()) == len(started)
            assert by_status["succeeded"] >= 24
            assert index.warnings == []

    def test_one_that_dies_before_the_commit_loses_nothing(self, state: StateDirectory, index: Index) -> None:
        put_run(state, "one")
        script = """
import os, sys
from holdfast.state.index import index as module
from holdfast.state.directory import StateDirectory
put = module.put
def put_and_die(connection, entries):
    put(connection, entries)
    os.kill(os.getpid(), 9)
module.put = put_and_die
module.Index.open(StateDirectory.open(sys.argv[1])).refresh()
"""
        done = subprocess.run([sys.executable, "-c", script, state.path], check=False)
        assert done.returncode == -9
        assert state.live_ids() == ["one"]
        assert index.count() == 0
        index.refresh()
        assert ids(index) == ["one"]

    def test_a_writer_waits_for_another(self, state: StateDirectory, index: Index) -> None:
        script = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""
        put_run(state, "one")
        argv = [sys.executable, "-c", script, state.index_path]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            assert index.count() == 0  # readers do not wait
            other.communicate("go\n")
        index.refresh()
        assert ids(index) == ["one"]


@pytest.mark.root
class TestNoRoom:
    def test_a_full_disk_is_said_and_nothing_is_lost(self, tmp_path: Path) -> None:
        from holdfast.state.directory import StateDirectory

        mount = tmp_path / "small"
        mount.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(mount)], check=True)
        try:
            state = StateDirectory.open(str(mount / "state"))
            with Index.open(state) as index:
                put_run(state, "one")
                index.refresh()
                put_run(state, "two")
                filler = mount / "filler"
                with filler.open("wb", buffering=0) as file:
                    try:
                        while file.write(b"x" * 4096):
                            pass
                    except OSError:
                        pass
                assert [entry.run_id for entry in index.refresh()] == ["two"]
                assert "the disk is full" in index.warnings[0]
                assert state.live_ids() == ["two"]
                filler.unlink()
                index.refresh()
                assert sorted(ids(index)) == ["one", "two"]
        finally:
            subprocess.run(["umount", str(mount)], check=True)

    def test_read_only(self, tmp_path: Path) -> None:
        from holdfast.state.directory import StateDirectory

        mount = tmp_path / "fixed"
        mount.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(mount)], check=True)
        try:
            state = StateDirectory.open(str(mount / "state"))
            put_run(state, new_run_id())
            subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
            with pytest.raises(StateError, match="--state-dir"):
                Index.open(state)
        finally:
            subprocess.run(["umount", str(mount)], check=True)
