"""Notes of runs that are on other hosts: the daemon that placed them keeps a copy of each journal here.

    STATE/elsewhere/RUN_ID   the host that was asked to start the run, as JSON

Guaranteed order: the note is written, the other host is asked to start the run, the copy of its journal appears in
`runs`, the copy gets its end, the note is removed. So a run without a guard on this host is not lost while it has a
note: nobody here may finish its record, except the daemon that follows it. A note without a copy belongs to a run whose
start was asked for, and of which nothing is known yet.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from .directory import state_error
from .owned_files import write_atomically

if TYPE_CHECKING:
    from .directory import StateDirectory


class HostNote(NamedTuple):
    """The host of a run: the id of the node, its host name, the run's public spec, and the epoch of the request."""

    node_id: str
    host: str
    spec: dict[str, Any]
    epoch: int = 0


def write_note(state: StateDirectory, run_id: str, note: HostNote) -> None:
    """Note that a host is about to be asked to start this run. StateError: the note cannot be written."""
    path = state.elsewhere_path(run_id)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_atomically(path, json.dumps(note._asdict()).encode())
    except OSError as error:
        raise state_error(error, path, run_id) from None


def read_note(state: StateDirectory, run_id: str) -> HostNote | None:
    """The note of a run; None: there is none, or it cannot be read."""
    try:
        with open(state.elsewhere_path(run_id), "rb") as file:
            return HostNote(**json.loads(file.read()))
    except (OSError, ValueError, TypeError):
        return None


def remove_note(state: StateDirectory, run_id: str) -> None:
    """Remove the note of a run that is over, or was not started. A missing note is fine."""
    try:
        os.unlink(state.elsewhere_path(run_id))
    except FileNotFoundError:
        pass


def noted_ids(state: StateDirectory) -> list[str]:
    """The ids of all runs that have a note."""
    try:
        return sorted(name for name in os.listdir(os.path.dirname(state.elsewhere_path("x"))) if name[0] != ".")
    except FileNotFoundError:
        return []
