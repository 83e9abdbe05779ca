"""What a head and a node's actor tell each other. The values are pickled, so they are made of plain values only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..guard.conversation import settle_bound_s
from ..projections.report import report
from ..values.errors import StateError
from ..values.spec import public_spec

if TYPE_CHECKING:
    from ..journal.reader import Chunk
    from ..values.errors import HoldfastError
    from ..values.spec import RunSpec

# The stages of a run, in order. A node tells the head when a run gets to the next one.
STARTING, STARTED, DECIDED, SETTLED = range(4)


class NodeFencedError(StateError):
    """The node takes no run now: a head has declared it lost, or its lease is over. Nothing was started."""


class NodeSettings(NamedTuple):
    """What a node's actor is started with. It stays the same over all restarts of the actor."""

    node_id: str
    state_dir: str
    lease_s: float
    slots: int | None = None  # how many runs may be alive on the node; None: as many as its limits allow


class NodeHello(NamedTuple):
    """What a node's actor says about itself."""

    node_id: str
    host: str
    version: str  # of Holdfast
    epoch: int
    lease_s: float
    lease_left_s: float
    slots: int
    pid: int
    live: int
    refuses: str | None = None  # why the node takes no run now, in one sentence


class StartRequest(NamedTuple):
    """A run to be started on a node. The node refuses it if its epoch is another."""

    epoch: int
    spec: RunSpec
    owner: str  # the supervisor that asks
    placement_group: str | None  # in hex: the reservation that the node gives back at the end of the run
    window_size: tuple[int, int] | None = None


class RunNews(NamedTuple):
    """How far a run has come."""

    run_id: str
    stage: int
    report: dict[str, Any]
    settle_bound_s: float
    takes_input: bool


def unseen_news(spec: RunSpec, host: str) -> RunNews:
    """News of a run of which its node has told nothing yet."""
    empty = report({"run_id": spec.run_id}, public_spec(spec), ())
    takes_input = spec.pty or spec.stdin == "pipe"
    return RunNews(spec.run_id, STARTING, {**empty, "host": host}, settle_bound_s(spec), takes_input)


class WatchAnswer(NamedTuple):
    """News of a supervisor's runs, and the ids of runs that the node does not have.

    `is_known` is false if the actor does not know the supervisor: then the supervisor names all its runs.
    """

    news: list[RunNews]
    missing: list[str]
    is_known: bool = True


class StartAnswer(NamedTuple):
    """The error of each run that was not started, None for the others, and news of the supervisor's runs."""

    errors: list[HoldfastError | None]
    news: list[RunNews]


class OutputPlace(NamedTuple):
    """A place in the output of a run, from which a reader goes on."""

    position: int = 0
    passed: tuple[int, ...] = (0, 0, 0, 0)
    last_gap: int = -1


class OutputPart(NamedTuple):
    """Some output, and the place after it. `over`: there will be no more."""

    chunks: list[Chunk]
    place: OutputPlace
    over: bool
