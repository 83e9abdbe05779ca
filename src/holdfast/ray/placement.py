"""Placement: what a run needs of its node, and which node Ray gives it.

A run that needs resources gets a reservation of Ray (a placement group with one bundle). The node gives it back when
the run is settled. A run that needs none goes to the node with the fewest runs of this supervisor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..values.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..values.spec import RunSpec
    from .bindings import ClusterNode


class Placement(NamedTuple):
    """What a run needs of its node. `host` is a node id, a host name or an address."""

    cpus: float = 0.0
    gpus: float = 0.0
    resources: Mapping[str, float] = {}
    node_labels: Mapping[str, str] = {}
    host: str | None = None

    def bundle(self, spec: RunSpec) -> dict[str, float]:
        """The resources that Ray must reserve; empty if the run needs none. A memory budget is reserved, too."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        bundle = {name: float(amount) for name, amount in wanted.items() if amount}
        if bundle and spec.memory_bytes:
            bundle["memory"] = float(spec.memory_bytes)
        return bundle


def check(placement: Placement, run_id: str) -> None:
    """Refuse amounts that cannot be reserved. SpecError names the option."""
    amounts = {"cpus": placement.cpus, "gpus": placement.gpus, **placement.resources}
    for name, amount in amounts.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < float("inf"):
            remedy = "give a number that is not negative"
            raise SpecError(f"{name} is {amount!r}", field=name, run_id=run_id, remedy=remedy)


def candidates(nodes: Iterable[ClusterNode], placement: Placement, bundle: Mapping[str, float]) -> list[ClusterNode]:
    """The nodes that have all of it in total, whether or not it is free now."""
    return [
        node
        for node in nodes
        if placement.host in (None, node.node_id, node.hostname, node.address)
        and all(node.labels.get(name) == value for name, value in placement.node_labels.items())
        and all(node.resources.get(name, 0.0) >= amount for name, amount in bundle.items())
    ]
