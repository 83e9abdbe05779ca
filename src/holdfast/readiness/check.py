"""The check whether a run is ready: each of its conditions, looked at by the process that waits.

Readiness is a property of the run that anybody can ask for, again and again. The guard does not know of it, and nothing
is recorded but the conditions: a server that was ready may have stopped listening since. A line that was written stays
written.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..proc.listeners import describe_listeners
from ..values.ready_condition import http_target, parse_condition
from .http_probe import problem_of
from .log_search import LogSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..proc.run_tree import RunTree
    from ..values.ready_condition import ReadyCondition

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.25


class ReadyCheck:
    """Looks at the conditions of one run. The caller closes it. JournalError: the output cannot be read.

    `journal` is a descriptor of the run's journal, which the check keeps and closes.
    """

    def __init__(self, run_id: str, conditions: Sequence[str], journal: int) -> None:
        self._journal = journal
        self._conditions = [parse_condition(text) for text in conditions]
        self._searches = {
            one.text: LogSearch(one.text, journal, run_id) for one in self._conditions if one.kind == "log"
        }
        self._tree: RunTree | None = None
        self._missing: Callable[[], str] = lambda: "nobody has looked yet"
        self.pause_s = FIRST_PAUSE_S

    def is_ready(self, tree: RunTree) -> bool:
        """Whether all conditions hold now. This may take a second for each `http` condition."""
        self._tree = tree
        self.pause_s = min(self.pause_s * 1.5, LONGEST_PAUSE_S)
        return all(self._holds(condition) for condition in self._conditions)

    def missing(self) -> str:
        """What the last look has missed, in words."""
        return self._missing()

    def _holds(self, condition: ReadyCondition) -> bool:
        if condition.kind == "port":
            return self._has_port(int(condition.text))
        if condition.kind == "log":
            self._missing = lambda: f"no line of its output matches {condition.text!r}"
            return self._searches[condition.text].is_found()
        problem = problem_of(http_target(condition.text))
        self._missing = lambda: problem or ""
        return problem is None

    def _has_port(self, port: int) -> bool:
        assert self._tree is not None
        listening = self._tree.listening()
        ports = None if listening is None else listening.ports
        self._missing = lambda: _no_port(port, is_known=ports is not None)
        return port in (ports or ())

    def close(self) -> None:
        """Close the journal."""
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1

    def __enter__(self) -> ReadyCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _no_port(port: int, *, is_known: bool) -> str:
    # Who else listens there is looked up only for the message: it takes a look at every process.
    if not is_known:
        return f"its processes cannot be seen, so nobody knows whether one of them listens on port {port}"
    if strangers := describe_listeners(port):
        return f"port {port} belongs to {strangers}, which is not of this run"
    return f"none of its processes listens on port {port}"
