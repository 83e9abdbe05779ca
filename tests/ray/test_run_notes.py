"""The notes of a node's actor: they outlive the actor, wherever it was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.ray import run_notes
from holdfast.ray.run_notes import RunNote, RunNotes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GROUPED = RunNote("head", "abcd")
NONE = RunNote(None, None)


def test_the_next_actor_finds_the_notes_of_live_runs(tmp_path: Path) -> None:
    first = RunNotes(tmp_path / "notes")
    first.write("one", GROUPED)
    first.write("two", NONE)
    first.write("three", RunNote("head", None))
    first.remove("three")
    first.remove("never")
    second = RunNotes(tmp_path / "notes")
    assert second.all_ids() == ["one", "two"]
    assert (second.read("one"), second.read("three")) == (GROUPED, NONE)
    first.close()
    second.close()


def test_a_line_that_was_cut_is_no_note(tmp_path: Path) -> None:
    first = RunNotes(tmp_path / "notes")
    first.write("one", GROUPED)
    first.write("two", GROUPED)
    first.close()
    path = tmp_path / "notes"
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        notes = RunNotes(path)
        assert notes.all_ids() == ["one", "two"][: whole[: size + 1].count(b"\n")], size
        notes.close()


def test_the_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_notes, "_LINES_BEYOND", 10)
    notes = RunNotes(tmp_path / "notes")
    notes.write("stays", GROUPED)
    for number in range(100):
        notes.write(f"run-{number}", NONE)
        notes.remove(f"run-{number}")
    assert len((tmp_path / "notes").read_bytes().splitlines()) < 20
    notes.close()
    again = RunNotes(tmp_path / "notes")
    assert again.all_ids() == ["stays"]
    again.close()
