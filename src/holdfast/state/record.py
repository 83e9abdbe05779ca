"""The record of one run: its journal, its outcome, and whether its guard is alive, or on another host."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .. import outcome as outcomes
from ..journal.reader import JournalReader
from ..proc.input_wait import NO_STDIN, Stdin
from ..proc.run_tree import NO_TREE, RunTree
from ..projections.report import output_seen, report
from ..values.errors import JournalError, RunNotFoundError
from . import run_directory

if TYPE_CHECKING:
    from ..outcome import Outcome
    from .directory import StateDirectory


class RunRecord:
    """The record of one run, read from its directory. Use as a context manager: it holds the journal open.

    RunNotFoundError: the run directory does not exist, or holds no journal. JournalError: from `read`.
    """

    __slots__ = ("_state", "fd", "guard", "path", "reader", "run_id")

    def __init__(self, state: StateDirectory, run_id: str) -> None:
        self.run_id = run_id
        self._state = state
        self.path = state.run_path(run_id)
        try:
            self.fd = run_directory.open_journal(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise RunNotFoundError(
                "there is no such run", run_id=run_id, remedy=f"holdfast ps --all lists those in {state.path}"
            ) from None
        self.reader = JournalReader(self.fd, run_id=run_id)
        self.guard = "gone"

    def read(self) -> RunRecord:
        """Read what is new in the journal, then check the guard, so that no fact of a dead guard is missed."""
        self.reader.scan()
        if not self.reader.ended:
            self.guard = run_directory.guard_state(self.fd, has_facts=bool(self.reader.facts))
            if self.guard == "gone":
                self.reader.scan()  # again: the guard may have written facts between the scan and the check
                if self._state.is_elsewhere(self.run_id):
                    self.guard = "elsewhere"  # a note that goes right after the end was written changes nothing
        if self.reader.ended:
            self.guard = "gone"
        return self

    @property
    def unfinished(self) -> bool:
        """Whether the guard is gone and the journal has no end: `recovery` has to finish it."""
        return self.guard == "gone" and not self.reader.ended

    @property
    def outcome(self) -> Outcome:
        """The outcome, as far as the journal decides it."""
        return outcomes.decide(self.reader.facts)

    @property
    def begun_ns(self) -> int:
        """When the run was begun, in wall-clock nanoseconds; without a header, when the journal was last changed."""
        try:
            wall_ns = (self.reader.header or {}).get("wall_ns")
        except (JournalError, RecursionError):
            wall_ns = None
        is_time = isinstance(wall_ns, int) and 0 <= wall_ns < 1 << 63
        return int(wall_ns or 0) if is_time else os.fstat(self.fd).st_mtime_ns

    @property
    def stdin(self) -> Stdin:
        """The run's stdin, which tells whether the run waits for input. JournalDamagedError as `report`."""
        if self.guard == "elsewhere":
            return NO_STDIN
        return Stdin.of(self.reader.header, self.reader.spec, self.outcome)

    @property
    def tree(self) -> RunTree:
        """The live processes of the run, and the ports on which they listen."""
        if self.guard == "elsewhere":
            return NO_TREE
        return RunTree.of(self.run_id, self.reader.header, self.outcome)

    def report(self) -> dict[str, Any]:
        """The run's report. JournalDamagedError: the beginning of the journal, with the spec, cannot be read."""
        reader = self.reader
        return report(reader.header, reader.spec, reader.facts, output_seen(reader))

    def close(self) -> None:
        """Close the journal."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
