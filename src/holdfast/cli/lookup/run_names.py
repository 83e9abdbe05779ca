"""Which run a text on the command line names: `@last`, `@failed`, an id, a name, or a part of an id.

The first of these rules that fits decides, so a whole id is never taken for anything else:

1. `@last` is the run that was begun last, `@failed` the last one that failed, timed out or was lost.
2. A whole id.
3. A whole name. Several runs may have the same name: the only one that has not ended is meant.
4. A part of one id. New ids begin with their time, so runs of one minute begin alike: the end of an id is the short way
   to name it. A text at either end of an id is preferred to one in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.index.summary import Filters, newest_first, read_live_summaries
from ...values.errors import AmbiguousRunError, RunNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...state.directory import StateDirectory
    from ...state.index.index import Index
    from ...state.index.summary import RunSummary

LAST, FAILED = "@last", "@failed"
_NOT_WELL = ("failed", "timed_out", "lost")
_SHOWN = 5


class RunNames:
    """The runs of a state directory by what users call them: those with a directory, and those in the queue."""

    def __init__(self, state: StateDirectory, index: Index | None, queued: Iterable[RunSummary]) -> None:
        self._state = state
        self._index = index  # None: it cannot be opened, for example in a read-only directory
        self._queued = list(queued)

    def find(self, text: str) -> str:
        """The id of the run that the text names. RunNotFoundError: no run. AmbiguousRunError: several."""
        if text in (LAST, FAILED):
            return self._newest(text)
        wanted = text.lower()
        if self._state.has(wanted) or wanted in self._queued_ids():
            return wanted
        if (named := self._named(text)) is not None:
            return named
        found = self._with_part(wanted) if wanted else []
        if not found:
            raise self._nobody(f"there is no run {text!r}")
        return _only(found, f"{text!r} is a part of the ids of")

    def _newest(self, word: str) -> str:
        found = self._matching(Filters(statuses=_NOT_WELL) if word == FAILED else Filters())
        if not found:
            raise self._nobody("there is no run yet" if word == LAST else "no run has failed")
        return found[0].run_id

    def _named(self, name: str) -> str | None:
        found = self._matching(Filters(name=name))
        current = [entry for entry in found if not entry.final]
        run_ids = [entry.run_id for entry in current or found]
        return _only(run_ids, f"{name!r} is the name of") if run_ids else None

    def _with_part(self, text: str) -> list[str]:
        """The ids with this part. If it is at an end of some of them, only those."""
        ended = self._state.all_ids() if self._index is None else self._index.find_part(text)
        found = sorted({run_id for run_id in (*ended, *self._state.live_ids(), *self._queued_ids()) if text in run_id})
        return [run_id for run_id in found if run_id.startswith(text) or run_id.endswith(text)] or found

    def _matching(self, filters: Filters) -> list[RunSummary]:
        """The runs that match, newest first: of the ended ones only the newest."""
        found = (
            {} if self._index is None else {one.run_id: one for one in self._index.list(filters, _SHOWN + 1).entries}
        )
        marked = (one for one in (*read_live_summaries(self._state), *self._queued) if filters.matches(one))
        return newest_first({**found, **{one.run_id: one for one in marked}}.values())

    def _queued_ids(self) -> list[str]:
        return [entry.run_id for entry in self._queued]

    def _nobody(self, what: str) -> RunNotFoundError:
        return RunNotFoundError(what, remedy=f"holdfast ps --all lists those in {self._state.path}")


def _only(found: list[str], what: str) -> str:
    """The one run that was found. AmbiguousRunError: they are several; it names the first ones."""
    if len(found) == 1:
        return found[0]
    shown = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    count = len(found) if len(found) <= _SHOWN else f"more than {_SHOWN}"
    raise AmbiguousRunError(f"{what} {count} runs: {shown}", remedy="give the end of one of these ids, or more of it")
