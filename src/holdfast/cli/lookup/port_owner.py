"""Find the run that listens on a port, so that `cancel --port` ends this run and no stranger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...proc.listeners import describe_listeners, listeners_of
from ...state.index.summary import Filters
from ...values.errors import AmbiguousRunError, RunNotFoundError
from .selection import live_entries

if TYPE_CHECKING:
    from ...state.directory import StateDirectory


def run_on_port(state: StateDirectory, port: int) -> str:
    """The id of the live run that listens on this port; of nested runs, the inner one.

    RunNotFoundError: no run of this state directory does; it names the process that does, if that can be seen.
    AmbiguousRunError: several runs do, on different addresses.
    """
    owners: dict[int, tuple[int, str]] = {}  # for each listening process, the size of the run's tree, and the run
    for entry in live_entries(state, Filters()):
        pids = entry.tree.pids() or []
        for listener in listeners_of(pids).found:
            if listener.port == port:
                # The tree of a nested run is a part of the outer run's tree, and does not have all of it.
                owner = (len(pids), entry.run_id)
                owners[listener.pid] = min(owners.get(listener.pid, owner), owner)
    found = sorted({run_id for _, run_id in owners.values()})
    if not found:
        raise _nobody(state, port)
    if len(found) > 1:
        what = f"{len(found)} runs listen on port {port}: {', '.join(found)}"
        raise AmbiguousRunError(f"{what}; nothing was signalled", remedy="name the run: holdfast cancel ID")
    return found[0]


def _nobody(state: StateDirectory, port: int) -> RunNotFoundError:
    what = f"no run in {state.path} listens on port {port}"
    if strangers := describe_listeners(port):
        remedy = "it is not ours to end: look at it, and end it yourself if it is yours"
        return RunNotFoundError(f"{what}: {strangers} does; nothing was signalled", remedy=remedy)
    remedy = "holdfast ps lists the ports of the runs"
    return RunNotFoundError(f"{what}, and no process that you can see does; nothing was signalled", remedy=remedy)
