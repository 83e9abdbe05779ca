"""Notes of a node's actor about its runs that the local library does not keep: one file, one line for each change.

A note is written before its run is started and removed after its run is settled. So the next actor of the node finds
the note of every live run. A note without a run belongs to a start that failed. A change is one small write at the end
of the file, so the death of the actor cuts at most the last line, and a run whose line was cut was not started.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_LINES_BEYOND = 10_000  # lines of runs that are over, before the file is written anew


class RunNote(NamedTuple):
    """What a node's actor must know of a run. `owner` is None if the run goes on without its supervisor."""

    owner: str | None
    placement_group: str | None
    memory_bytes: int = 0  # the budget of the run


_NONE = RunNote(None, None)


class RunNotes:
    """The notes in one file. One process at a time writes them: the actor of the node."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._notes = _read(path)
        self._lines = 0
        self._file = -1
        self._write_anew()

    def write(self, run_id: str, note: RunNote) -> None:
        """Write the note of a run that is about to be started. OSError: it cannot be written."""
        self._add([run_id, *note])
        self._notes[run_id] = note

    def read(self, run_id: str) -> RunNote:
        """The note of a run; a run without a readable note has no owner and no placement group."""
        return self._notes.get(run_id, _NONE)

    def remove(self, run_id: str) -> None:
        """Remove the note of a run that is over. OSError: the file cannot be written."""
        if self._notes.pop(run_id, None) is not None:
            self._add([run_id])
            if self._lines > len(self._notes) + _LINES_BEYOND:
                self._write_anew()

    def all_ids(self) -> list[str]:
        """The ids of all runs that have a note."""
        return sorted(self._notes)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _add(self, line: list[str | int | None]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")
        self._lines += 1

    def _write_anew(self) -> None:
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text("".join(json.dumps([run_id, *note]) + "\n" for run_id, note in self._notes.items()))
        os.replace(new, self._path)
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._lines = len(self._notes)


def _read(path: Path) -> dict[str, RunNote]:
    notes: dict[str, RunNote] = {}
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return notes
    for line in lines:
        try:
            run_id, *note = json.loads(line)
        except ValueError:
            continue  # the last line of an actor that was killed while it wrote
        if note:
            notes[run_id] = RunNote(*note)
        else:
            notes.pop(run_id, None)
    return notes
