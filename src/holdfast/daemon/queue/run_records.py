"""Records of runs for the scheduler: write the record of a run that ended in the queue, read the report of any run.

A run that ended in the queue gets a directory with a finished journal, as every other run has. So history, reports and
the command line need to know nothing of the queue: there is one kind of record. The directory appears whole, with its
end in it, or not at all. A crash before that leaves the run queued. A crash after it leaves a row whose run has a
directory, and the directory says that the run is over.

Both operations try again while the host has no descriptor, thread or disk space for them.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeVar

from ...journal.unstarted import journal_of
from ...state import run_directory
from ...state.directory import state_error
from ...state.index.summary import broken_summary, read_summary
from ...values.errors import HoldfastError, RunExistsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...journal.unstarted import Ending
    from ...state.directory import StateDirectory
    from ...values.spec import RunSpec
    from ..process.log import Log

T = TypeVar("T")
_RETRY_S = 1.0
_TEMPORARY = (HoldfastError, OSError, RuntimeError)  # RuntimeError: no thread can be started


class RunRecords:
    """The records in one state directory."""

    def __init__(self, state: StateDirectory, log: Log) -> None:
        self._state = state
        self._log = log

    def has(self, run_id: str) -> bool:
        """Whether the run has a directory."""
        return self._state.has(run_id)

    async def end_unstarted(self, spec: RunSpec, ending: Ending) -> None:
        """Write the record of a run that is never started; returns when it is on disk."""
        # The row stays until then: after a crash now the run is still queued, and the next daemon ends or starts it.
        await self._until_done("its end cannot be recorded", spec.run_id, lambda: record(self._state, spec, ending))

    async def report(self, run_id: str) -> dict[str, Any]:
        """The report of a run as its directory has it."""
        return await self._until_done("its record cannot be read", run_id, lambda: _report(self._state, run_id))

    async def _until_done(self, failed: str, run_id: str, work: Callable[[], T]) -> T:
        while True:
            try:
                return await asyncio.to_thread(work)
            except _TEMPORARY as error:
                self._log.warning(f"{failed}: {error}", run_id=run_id)
                await asyncio.sleep(_RETRY_S)


def record(state: StateDirectory, spec: RunSpec, ending: Ending) -> None:
    """Write the record, unless the run has one already. StateError: it cannot be written."""
    try:
        prepared = run_directory.prepare(state, spec.run_id, journal_of(spec, ending))
    except RunExistsError:
        if state.has(spec.run_id):
            return
        raise  # another process is making a run of this id
    try:
        os.fsync(prepared.journal)
        os.unlink(os.path.join(prepared.path, run_directory.SOCKET))  # no guard will ever listen there
    except OSError as error:
        raise state_error(error, prepared.path, spec.run_id) from None
    finally:
        prepared.close()


def _report(state: StateDirectory, run_id: str) -> dict[str, Any]:
    found = read_summary(state, run_id) or broken_summary(state, run_id, "its directory is gone", final=True)
    return found.report
