"""Runs on other hosts: nobody here finishes their records, and the copy of a journal is a journal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from holdfast.journal.codec import encode
from holdfast.journal.facts import OUTPUT
from holdfast.journal.part import JournalPart, JournalPlace, read_part
from holdfast.journal.reader import JournalReader
from holdfast.state import recovery, run_directory
from holdfast.state.directory import StateDirectory
from holdfast.state.elsewhere import HostNote, noted_ids, read_note, remove_note, write_note
from holdfast.state.guard_connection import GuardConnection
from holdfast.state.index.summary import read_summary
from holdfast.state.journal_copy import JournalCopy
from holdfast.state.parallel_stop import stop_all
from holdfast.state.record import RunRecord
from holdfast.state.upkeep.aborted_start import discard_if_never_ran
from holdfast.state.upkeep.sweep import Sweeper
from holdfast.values.errors import RequestError
from tests.support.durable import DurableRun, facts_of_success, journal_bytes, put_run

if TYPE_CHECKING:
    from pathlib import Path

NOTE = HostNote("node-1", "far", {"run_id": "one", "argv": ["sleep", "9"], "session": "s"})
STARTED = facts_of_success(0)[:1]


@pytest.fixture
def head(tmp_path: Path) -> StateDirectory:
    """The state directory of the daemon, beside that of the other host."""
    return StateDirectory.open(str(tmp_path / "head"))


def state_of_guard(state: StateDirectory, run_id: str) -> str:
    with RunRecord(state, run_id) as record:
        return record.read().guard


def whole(journal: int, place: JournalPlace | None = None) -> JournalPart:
    return read_part(journal, place or JournalPlace(), 0, "one")


def copied(head: StateDirectory, path: str, limit: int = 4096) -> bytes:
    """Copy a journal in small parts, and return the copy."""
    journal = os.open(path, os.O_RDONLY)
    copy = JournalCopy.make(head, "one", read_part(journal, JournalPlace(), limit, "one"))
    while (part := read_part(journal, copy.place, limit, "one")).pieces:
        assert copy.take(part)
        assert not copy.take(part)  # a second time it is nothing new
    copy.close()
    os.close(journal)
    with open(os.path.join(head.run_path("one"), run_directory.JOURNAL), "rb") as file:
        return file.read()


def on_disk(record: RunRecord) -> int:
    return os.fstat(record.fd).st_blocks * 512


class TestNote:
    @pytest.mark.usefixtures("own_orphans_only")
    def test_a_run_with_a_note_is_finished_by_nobody_here(self, state: StateDirectory) -> None:
        put_run(state, "one", journal_bytes("one", STARTED))
        write_note(state, "one", NOTE)
        assert state_of_guard(state, "one") == "elsewhere"
        assert recovery.finish(state, "one") is None
        found = read_summary(state, "one")
        assert found is not None
        assert (found.guard, found.final, found.report["state"]) == ("elsewhere", False, "running")
        assert (found.shown()["ports"], found.shown()["waiting_for_input"]) == (None, None)
        assert Sweeper(state).sweep().finished == ()
        assert not discard_if_never_ran(state, "one")
        with RunRecord(state, "one") as record:
            assert not record.read().reader.ended

    def test_control_without_the_note_it_is_lost(self, state: StateDirectory) -> None:
        put_run(state, "one", journal_bytes("one", STARTED))
        write_note(state, "one", NOTE)
        remove_note(state, "one")
        remove_note(state, "one")
        found = read_summary(state, "one")
        assert found is not None
        assert (found.guard, found.report["status"]) == ("gone", "lost")

    def test_a_start_that_was_asked_for_elsewhere_is_not_given_up(self, state: StateDirectory) -> None:
        put_run(state, "one", journal_bytes("one", []))
        write_note(state, "one", NOTE)
        assert not discard_if_never_ran(state, "one")
        remove_note(state, "one")
        assert discard_if_never_ran(state, "one")

    def test_a_note_is_read_back(self, state: StateDirectory) -> None:
        assert (read_note(state, "one"), noted_ids(state)) == (None, [])
        write_note(state, "one", NOTE)
        assert (read_note(state, "one"), noted_ids(state)) == (NOTE, ["one"])

    def test_requests_say_that_the_run_is_elsewhere(self, state: StateDirectory) -> None:
        put_run(state, "one", journal_bytes("one", STARTED))
        write_note(state, "one", NOTE)
        with GuardConnection(state, "one") as connection, pytest.raises(RequestError, match="another host"):
            connection.ask(lambda ticket: packets.extend(ticket, 1))
        (result,) = stop_all(state, ["one"])
        assert result.how == "unknown"
        assert "another host" in (result.problem or "")


class TestCopy:
    @pytest.mark.guard
    def test_a_copy_is_the_journal(self, state: StateDirectory, head: StateDirectory) -> None:
        with DurableRun(
            state, ["sh", "-c", "for i in $(seq 2000); do echo $i; echo e$i >&2; done"], run_id="one"
        ) as run:
            run.until_ended()
            path = os.path.join(run.record_path(), run_directory.JOURNAL)
            with open(path, "rb") as file:
                assert copied(head, path) == file.read()
            with RunRecord(head, "one") as ours, RunRecord(state, "one") as theirs:
                assert ours.read().report() == theirs.read().report()
                assert ours.report()["host"] == os.uname().nodename

    def test_a_torn_copy_goes_on_behind_its_last_whole_frame(self, state: StateDirectory, head: StateDirectory) -> None:
        whole_journal = journal_bytes("one", STARTED) + encode(OUTPUT, b"x" * 5000, stream=1) * 3
        journal = os.open(os.path.join(put_run(state, "one", whole_journal), run_directory.JOURNAL), os.O_RDONLY)
        copy = JournalCopy.make(head, "one", read_part(journal, JournalPlace(), 5000, "one"))
        copy.close()
        path = os.path.join(head.run_path("one"), run_directory.JOURNAL)
        with open(path, "ab") as file:
            file.write(whole_journal[copy.place.position :][:777])  # the daemon was killed while it wrote
        again = JournalCopy.open(head, "one")
        assert again.place == copy.place
        assert again.take(whole(journal, again.place))
        again.close()
        os.close(journal)
        with open(path, "rb") as file:
            assert file.read() == whole_journal

    @pytest.mark.guard
    def test_gaps_are_copied_as_gaps(self, state: StateDirectory, head: StateDirectory) -> None:
        script = "head -c 3000000 /dev/zero | tr '\\0' x; echo end"
        options = {"max_output": 1 << 20, "on_max_output": "roll", "run_id": "one"}
        with DurableRun(state, ["sh", "-c", script], **options) as run:
            run.until_ended()
            path = os.path.join(run.record_path(), run_directory.JOURNAL)
            copied(head, path, 64 << 10)
            with RunRecord(head, "one") as ours, RunRecord(state, "one") as theirs:
                report = ours.read().report()
                assert report == theirs.read().report()
                chunks = JournalReader(ours.fd).read()
                assert chunks == JournalReader(theirs.fd).read()
                assert b"".join(chunk.data for chunk in chunks).endswith(b"xend\n")
                assert on_disk(ours) <= on_disk(theirs) + (1 << 20)  # the copy has the same holes

    @pytest.mark.guard
    def test_a_gap_that_comes_after_the_copy_is_made_in_the_copy(
        self, state: StateDirectory, head: StateDirectory, tmp_path: Path
    ) -> None:
        go = tmp_path / "go"
        os.mkfifo(go)
        script = f"head -c 900000 /dev/zero | tr '\\0' x; echo; echo ready >&2; read x < {go}; "
        script += "head -c 3000000 /dev/zero | tr '\\0' y; echo end"
        options = {"max_output": 1 << 20, "on_max_output": "roll", "run_id": "one"}
        with DurableRun(state, ["sh", "-c", script], **options) as run:
            path = os.path.join(run.record_path(), run_directory.JOURNAL)
            journal = os.open(path, os.O_RDONLY)
            reader = JournalReader(journal)
            while reader.stdout_bytes < 900_001:
                reader.scan()
            copy = JournalCopy.make(head, "one", whole(journal))
            go.write_text("go\n")
            run.until_ended()
            while (part := read_part(journal, copy.place, 64 << 10, "one")).pieces:
                copy.take(part)
            os.close(journal)
            copy.close()
            with RunRecord(head, "one") as ours, RunRecord(state, "one") as theirs:
                assert ours.read().report() == theirs.read().report()
                assert JournalReader(ours.fd).read() == JournalReader(theirs.fd).read()
                assert on_disk(ours) <= on_disk(theirs) + (1 << 20)  # the copy has the same holes


class TestLostHost:
    def test_what_is_known_decides(self, state: StateDirectory, head: StateDirectory) -> None:
        known = journal_bytes("one", [*STARTED, ("deadline", {"limit_ns": 5})])
        journal = os.open(os.path.join(put_run(state, "one", known), run_directory.JOURNAL), os.O_RDONLY)
        copy = JournalCopy.make(head, "one", whole(journal))
        copy.end_lost("host")
        copy.end_lost("host")
        os.close(journal)
        copy.close()
        with RunRecord(head, "one") as record:
            report = record.read().report()
        assert (report["state"], report["status"], report["cause"]) == ("settled", "timed_out", "deadline")
        assert (report["tree"], report["output"]["complete"]) == ("unknown", False)

    def test_nothing_known_means_lost(self, head: StateDirectory) -> None:
        JournalCopy.make_lost(head, "one", NOTE).close()
        with RunRecord(head, "one") as record:
            report = record.read().report()
        assert (report["state"], report["status"], report["cause"]) == ("settled", "lost", "host")
        assert (report["host"], report["argv"], report["session"]) == ("far", ["sleep", "9"], "s")
