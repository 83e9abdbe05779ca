"""The summary of one run for lists, read from the run's directory, and the filters of such lists."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ...proc.input_wait import NO_STDIN, Stdin
from ...proc.run_tree import NO_TREE, RunTree
from ...projections.report import report as project
from ...values.errors import HoldfastError, JournalDamagedError, RunNotFoundError
from .. import recovery, run_directory
from ..record import RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..directory import StateDirectory

_NO_JOURNAL = "its directory holds no journal: look at it, then remove it (holdfast prune, or by hand)"
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)


class RunSummary(NamedTuple):
    """A run in a list. `final`: nothing about it will change any more, so the index may hold it."""

    run_id: str
    begun_ns: int
    report: dict[str, Any]
    problem: str | None
    journal_bytes: int
    disk_bytes: int
    guard: str = "gone"
    final: bool = True
    stdin: Stdin = NO_STDIN
    tree: RunTree = NO_TREE

    def shown(self) -> dict[str, Any]:
        """The report with `waiting_for_input` and `ports` as of now: null when the run is over, or they are unknown."""
        return {**self.report, "waiting_for_input": self.stdin.is_waited_for(), "ports": self.tree.ports()}


class Filters(NamedTuple):
    """Filters for runs; a filter that is not given passes every run. A run must have all given labels."""

    session: str | None = None
    parent: str | None = None
    name: str | None = None
    statuses: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None

    def matches(self, entry: RunSummary) -> bool:
        """Whether a run passes the filters. For runs that are not in the index; the index does the same in SQL."""
        report = entry.report
        own_labels = report.get("labels") or {}
        return (
            all(wanted in (None, report.get(field)) for field, wanted in self.columns().items())
            and (not self.statuses or report.get("status") in self.statuses)
            and (not self.causes or report.get("cause") in self.causes)
            and all(own_labels.get(label) == value for label, value in self.labels)
            and (self.since_ns is None or entry.begun_ns >= self.since_ns)
            and (self.until_ns is None or entry.begun_ns < self.until_ns)
        )

    def columns(self) -> Mapping[str, str | None]:
        """The filters that compare one column with one value."""
        return {"session": self.session, "parent": self.parent, "name": self.name}


def read_summary(state: StateDirectory, run_id: str) -> RunSummary | None:
    """Read one run, and first finish its record if its guard is gone; None when the run does not exist (yet).

    If something is wrong with the run, the summary has a problem. OSError: no descriptors or memory are left.
    """
    for _ in range(2):  # a run that is being made may appear, with its journal, just after the first try
        try:
            return _finished(state, run_id)
        except RunNotFoundError:
            if not state.has(run_id):
                return None
        except HoldfastError as error:
            return broken_summary(state, run_id, str(error), final=isinstance(error, JournalDamagedError))
        except OSError as error:
            if error.errno in _PASSING:
                raise
            return broken_summary(state, run_id, f"it cannot be read: {error.strerror or error}", final=False)
    # The directory holds no journal and never will, unless the run is being removed at this moment.
    entry = broken_summary(state, run_id, _NO_JOURNAL, final=True)
    return entry if state.has(run_id) else None


def read_live_summaries(state: StateDirectory) -> Iterator[RunSummary]:
    """The summaries of all marked runs, as they are now. This does not use the index, so it waits for no lock."""
    for run_id in state.live_ids():
        if (entry := read_summary(state, run_id)) is not None:
            yield entry


def newest_first(entries: Iterable[RunSummary]) -> list[RunSummary]:
    """The runs in the order of lists: the newest first."""
    return sorted(entries, key=lambda entry: (entry.begun_ns, entry.run_id), reverse=True)


def broken_summary(state: StateDirectory, run_id: str, problem: str, *, final: bool) -> RunSummary:
    """The summary of a run that cannot be read. Not final while it has a guard: a newer Holdfast may be writing it."""
    path = state.run_path(run_id)
    guard, begun_ns, size, on_disk = "gone", 0, 0, 0
    try:
        begun_ns = os.stat(path).st_mtime_ns
        on_disk = run_directory.disk_bytes(path)
        journal = run_directory.open_journal(path)
        try:
            size = os.fstat(journal).st_size
            guard = run_directory.guard_state(journal, has_facts=True)
            if guard == "gone" and state.is_elsewhere(run_id):
                guard = "elsewhere"
        finally:
            os.close(journal)
    except OSError:
        pass  # the summary names the problem already
    report = _marked(_nothing(run_id), problem)
    return RunSummary(run_id, begun_ns, report, problem, size, on_disk, guard, final and guard == "gone")


def _finished(state: StateDirectory, run_id: str) -> RunSummary:
    try:
        entry = _read(state, run_id)
        if entry.guard != "gone" or entry.final:
            return entry
    except JournalDamagedError:
        pass  # not even the beginning is readable; `recovery` may still put a journal with an end in its place
    recovery.finish(state, run_id)
    return _read(state, run_id)


def _read(state: StateDirectory, run_id: str) -> RunSummary:
    with RunRecord(state, run_id) as record:
        record.read()
        reader = record.reader
        try:
            report = record.report()
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            # The frames are whole, but no Holdfast wrote their content. One such run must not stop the others.
            message = f"what its journal says makes no sense ({type(error).__name__}: {error})"
            raise JournalDamagedError(message, run_id=run_id, remedy="look who wrote it; prune removes it") from None
        problem = _problem(record, report.get("run_id"))
        report["run_id"] = run_id  # readers find a run by the name of its directory
        return RunSummary(
            run_id,
            record.begun_ns,
            _marked(report, problem),
            problem,
            os.fstat(record.fd).st_size,
            run_directory.disk_bytes(record.path),
            record.guard,
            reader.ended,
            NO_STDIN if reader.ended else record.stdin,
            NO_TREE if reader.ended else record.tree,
        )


def _problem(record: RunRecord, named: object) -> str | None:
    if named not in (None, record.run_id):
        return f"its journal is that of run {named}: was the directory copied?"
    if record.reader.damage is not None:
        return f"its journal is damaged {record.reader.damage}; what came before that is shown"
    kept = os.path.join(record.path, recovery.DAMAGED)
    return f"its journal was damaged; as it was found, it is in {kept}" if os.path.exists(kept) else None


def _nothing(run_id: str) -> dict[str, Any]:
    return {**project(None, None, ()), "run_id": run_id, "state": None}


def _marked(report: dict[str, Any], problem: str | None) -> dict[str, Any]:
    return report if problem is None else {**report, "problem": problem}
