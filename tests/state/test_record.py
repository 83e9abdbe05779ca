"""Records: a run as its directory tells it, at every stage of its life."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.state import run_directory
from holdfast.state.record import RunRecord
from holdfast.values.errors import JournalDamagedError, JournalVersionError, RunNotFoundError
from tests.support.durable import DurableRun, HeldLock, facts_of_success, journal_bytes, put_run, run_to_end

if TYPE_CHECKING:
    from holdfast.state.directory import StateDirectory


class TestReading:
    @pytest.mark.guard
    def test_from_start_to_end(self, state: StateDirectory) -> None:
        with DurableRun(state, ["sh", "-c", "echo ready; read line; exit 4"], stdin="pipe", name="n") as run:
            run.until_ready()
            with run.record() as record:
                assert (record.guard, record.unfinished, record.outcome.state) == ("alive", False, "running")
                report = record.report()
                assert (report["name"], report["output"]["stdout_bytes"]) == ("n", 6)
                os.write(run.handle.input or -1, b"\n")
                run.until_ended()
                record.read()
                assert (record.guard, record.unfinished, record.outcome.exit_code) == ("gone", False, 4)
                assert record.report()["state"] == "settled"

    def test_starting(self, state: StateDirectory) -> None:
        path = put_run(state, "one", journal_bytes("one", []))
        with HeldLock(path, byte=1), RunRecord(state, "one") as record:
            assert record.read().guard == "starting"
            assert not record.unfinished
        with RunRecord(state, "one") as record:
            assert record.read().unfinished

    def test_last_words_between_the_two_looks(self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        path = put_run(state, "one", journal_bytes("one", facts_of_success(0)[:1]))
        real = run_directory.guard_state

        def ends_meanwhile(journal: int, *, has_facts: bool) -> str:
            Path(path, "journal").write_bytes(journal_bytes("one"))
            return real(journal, has_facts=has_facts)

        monkeypatch.setattr(run_directory, "guard_state", ends_meanwhile)
        with RunRecord(state, "one") as record:
            record.read()
            assert (record.reader.ended, record.unfinished) == (True, False)

    def test_when_it_was_begun(self, state: StateDirectory) -> None:
        put_run(state, "one", journal_bytes("one", begun_ns=1_600_000_000_000_000_000))
        with RunRecord(state, "one") as record:
            assert record.read().begun_ns == 1_600_000_000_000_000_000
        path = put_run(state, "two", b"")
        os.utime(Path(path, "journal"), (5, 5))
        with RunRecord(state, "two") as record:
            assert record.read().begun_ns == 5_000_000_000

    def test_what_cannot_be_read(self, state: StateDirectory) -> None:
        put_run(state, "noise", b"x" * 100)
        put_run(state, "foreign", journal_bytes("foreign").replace(b"HOLDFAST\x01", b"HOLDFAST\x63", 1))
        os.mkdir(state.run_path("hollow"))
        for run_id, error in (("noise", JournalDamagedError), ("foreign", JournalVersionError)):
            with RunRecord(state, run_id) as record, pytest.raises(error, match=run_id) as raised:
                record.read()
            assert raised.value.run_id == run_id
            assert raised.value.remedy
        for run_id in ("hollow", "nobody"):
            with pytest.raises(RunNotFoundError, match=run_id):
                RunRecord(state, run_id)

    @pytest.mark.guard
    def test_output_stays_readable(self, state: StateDirectory) -> None:
        run_id = run_to_end(state, ["sh", "-c", "echo hello; echo error >&2"])
        with RunRecord(state, run_id) as record:
            record.read()
            assert (record.reader.collect("stdout"), record.reader.collect("stderr")) == (b"hello\n", b"error\n")
