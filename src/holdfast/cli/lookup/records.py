"""Read the record of a run for a command: finish it first if its guard is gone, and say how it is damaged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...runs.durable import recover
from ...state import recovery, run_directory
from ...state.record import RunRecord
from ...values.errors import JournalDamagedError
from ..printing import messages

if TYPE_CHECKING:
    from ...state.directory import StateDirectory


def read_record(state: StateDirectory, run_id: str) -> RunRecord:
    """The record of a run, finished if its guard is gone. The caller closes it. JournalError: it cannot be read."""
    record = RunRecord(state, run_id)
    try:
        _read(state, record)
    except BaseException:
        record.close()
        raise
    return record


def damage_of(record: RunRecord) -> str | None:
    """How the journal of this run is damaged, and the remedy; None when the journal is not damaged."""
    kept = os.path.join(record.path, recovery.DAMAGED)
    if record.reader.damage is not None:
        what = f"the journal is damaged {record.reader.damage}"
        return f"{what} (run {record.run_id}): what came before that is shown; doctor looks at the rest"
    if os.path.exists(kept):
        return f"the journal was damaged (run {record.run_id}): what was found is kept in {kept}"
    return None


def _read(state: StateDirectory, record: RunRecord) -> None:
    try:
        record.read()
    except JournalDamagedError:
        # The beginning of the journal cannot be read. If the run's guard is gone, `finish` records the run as lost in a
        # new journal, and keeps the damaged file beside it.
        if (
            run_directory.guard_state(record.fd, has_facts=True) != "gone"
            or recovery.finish(state, record.run_id) is None
        ):
            raise
        record.read()
    if record.unfinished:
        try:
            recover(state, record.run_id)
        except OSError as error:
            # Another user's run, or a read-only directory: show what the journal has.
            messages.say(f"the record cannot be finished (run {record.run_id}): {error.strerror}")
        record.read()
