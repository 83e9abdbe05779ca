"""The record of a run that ended in the queue: a directory with a finished journal, as every other run has.

So history, reports and the command line need to know nothing of the queue: there is one kind of record. The directory
appears whole, with its end in it, or not at all; a crash before that leaves the run queued, one after it leaves a row
whose run has a directory, which says that the run is over.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...journal.unstarted import journal_of
from ...state import run_directory
from ...state.directory import state_error
from ...values.errors import RunExistsError

if TYPE_CHECKING:
    from ...journal.unstarted import Ending
    from ...state.directory import StateDirectory
    from ...values.spec import RunSpec


def record(state: StateDirectory, spec: RunSpec, ending: Ending) -> None:
    """Write the record; nothing to do when it is there already. StateError: it cannot be written, and nothing is."""
    try:
        prepared = run_directory.prepare(state, spec, journal_of(spec, ending))
    except RunExistsError:
        if state.has(spec.run_id):
            return
        raise  # somebody is making a run of this id
    try:
        os.fsync(prepared.journal)
        os.unlink(os.path.join(prepared.path, run_directory.SOCKET))  # there never is a guard to talk to
    except OSError as error:
        raise state_error(error, prepared.path, spec.run_id) from None
    finally:
        prepared.close()
