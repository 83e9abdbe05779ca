"""Runs that never started: one set of facts, whether it is kept in a journal or only reported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.journal.reader import JournalReader
from holdfast.journal.unstarted import Ending, expired, facts_of, journal_of, not_started, signalled, stopped
from holdfast.outcome import decide
from holdfast.projections.report import report
from holdfast.values.spec import make_spec, public_spec

if TYPE_CHECKING:
    from pathlib import Path

ENDINGS = {
    ("timed_out", "queue"): expired(1.5),
    ("cancelled", "session"): stopped("session", "its session was closed"),
    ("cancelled", "user"): signalled(2),
    ("cancelled", "shutdown"): stopped("shutdown", ""),
    ("failed", "spawn"): not_started(12),
}


@pytest.mark.parametrize(("verdict", "ending"), ENDINGS.items())
def test_the_journal_holds_the_same_facts(tmp_path: Path, verdict: tuple[str, str], ending: Ending) -> None:
    spec = make_spec(["true"], name="one")
    path = tmp_path / "journal"
    path.write_bytes(journal_of(spec, ending))
    fd = os.open(path, os.O_RDONLY)
    try:
        reader = JournalReader(fd)
        assert list(reader.read()) == []
    finally:
        os.close(fd)
    made = facts_of(ending)
    assert [(fact.kind, fact.detail) for fact in reader.facts] == [(fact.kind, fact.detail) for fact in made]
    assert reader.ended
    outcome = decide(reader.facts)
    assert (outcome.status, outcome.cause, outcome.state) == (*verdict, "settled")
    reported = report(reader.header, public_spec(spec), reader.facts)
    assert (reported["run_id"], reported["started_at"], reported["tree"]) == (spec.run_id, None, "gone")
    assert reported["output"] == {
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "late_bytes": 0,
        "dropped_bytes": 0,
        "complete": True,
    }
