"""The engine of many hosts: Ray chooses the node of a run, and the daemon follows a copy of its journal.

Guaranteed order. A note names the node before the node is asked (`state/elsewhere.py`). The copy appears after the node
has answered. The note goes after the copy has its end. So a daemon that was killed at any moment leaves a note, and the
next one asks exactly that node. A node that says "not started" refuses a request that comes later, so the run may then
be queued again. Runs of this host that other processes started stay with the local engine.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ...journal.part import JournalPlace
from ...ray.bindings import NodeUnreachableError, live_nodes
from ...ray.messages import NodeHello
from ...ray.node_link import NodeLostError
from ...ray.placement import Placement, candidates
from ...state.elsewhere import HostNote, read_note, remove_note, write_note
from ...state.journal_copy import JournalCopy
from ...values.errors import HoldfastError, RunExistsError, RunNotFoundError, SpecError
from ...values.spec import public_spec
from ..engines.engine import NoRoomError, host_entry
from .ray_run import RayRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...ray.bindings import ClusterNode
    from ...ray.remote_run import RemoteRun
    from ...ray.supervisor import RaySupervisor
    from ...state.directory import StateDirectory
    from ...values.spec import RunSpec
    from ..engines.engine import Engine, EngineRun, Needs
    from ..process.log import Log


class RayEngine:
    """Runs on the nodes of a Ray cluster. The supervisor stays open while the engine is used."""

    name = "ray"

    def __init__(self, state: StateDirectory, supervisor: RaySupervisor, local: Engine, log: Log) -> None:
        self._state = state
        self._supervisor = supervisor
        self._local = local
        self._log = log
        self._runs: WeakSet[RayRun] = WeakSet()

    async def close(self) -> None:
        """Follow no run any more. Call this before the supervisor is left: afterwards every node looks lost."""
        await asyncio.gather(*(run.closed() for run in tuple(self._runs)))

    async def check(self, needs: Needs) -> None:
        """As Engine.check: a need that no node has at all is only refused if the client does not want to wait."""
        if not needs.no_wait:
            return
        placement = _placement(needs)
        nodes = await asyncio.to_thread(live_nodes)
        bundle = {"CPU": needs.cpus, "GPU": needs.gpus, **needs.resources}
        if not candidates(nodes, placement, {name: amount for name, amount in bundle.items() if amount}):
            from ...ray.bindings import no_node

            error = no_node(bundle, needs.node_labels, needs.host, "")
            raise NoRoomError(error.message, remedy=error.remedy)

    async def start(self, spec: RunSpec, needs: Needs) -> EngineRun:
        """As Engine.start."""

        def note(node: ClusterNode, epoch: int) -> None:
            write_note(self._state, spec.run_id, HostNote(node.node_id, node.hostname, public_spec(spec), epoch))

        try:
            remote = await self._supervisor.start_spec(spec, _placement(needs), wait=False, before_asking=note)
        except (SpecError, RunExistsError):
            remove_note(self._state, spec.run_id)
            raise
        except HoldfastError as error:  # a node is full, fenced, being restarted, or not fit for runs
            remove_note(self._state, spec.run_id)
            raise NoRoomError(error.message, run_id=spec.run_id, remedy=error.remedy) from None
        return await self._follow(remote, None)

    async def adopt(self, run_id: str) -> EngineRun:
        """As Engine.adopt. RunNotFoundError: also when the node that was asked has not started it, and never will."""
        note = read_note(self._state, run_id)
        if note is None:
            return await self._local.adopt(run_id)
        copy = JournalCopy.open(self._state, run_id) if self._state.has(run_id) else None
        if copy is not None and copy.ended:
            remove_note(self._state, run_id)
            return RayRun(self._state, copy, None, self._warner(run_id))
        try:
            remote = await self._supervisor.adopt_on(run_id, note.node_id, note.epoch)
        except NodeLostError:
            return self._lost(run_id, copy)
        except RunNotFoundError:
            if copy is not None:  # it was there: the node has lost its record
                return self._lost(run_id, copy)
            remove_note(self._state, run_id)
            raise
        except BaseException:
            if copy is not None:
                copy.close()
            raise
        return await self._follow(remote, copy)

    async def hosts(self) -> list[dict[str, Any]]:
        """As Engine.hosts: every node that the cluster believes to be alive, and what its actor says."""
        nodes = await asyncio.to_thread(live_nodes)
        told = await asyncio.gather(*(self._supervisor.hello(node) for node in nodes), return_exceptions=True)
        runs = [(run.node_id, run.run_id) for run in self._supervisor.runs]
        return [
            {**_entry(node, hello), "runs": [run_id for node_id, run_id in runs if node_id == node.node_id]}
            for node, hello in zip(nodes, told, strict=True)
        ]

    async def _follow(self, remote: RemoteRun, copy: JournalCopy | None) -> RayRun:
        try:
            if copy is None:
                first = await remote.read_journal(JournalPlace(), 0.0)
                copy = JournalCopy.make(self._state, remote.run_id, first)
        except (NodeUnreachableError, RunNotFoundError):
            return self._lost(remote.run_id, None)
        if copy.ended:  # a short run: the first part of its journal was all of it, and no more will come
            remove_note(self._state, remote.run_id)
        run = RayRun(self._state, copy, remote, self._warner(remote.run_id))
        self._runs.add(run)
        return run

    def _lost(self, run_id: str, copy: JournalCopy | None) -> RayRun:
        """The run of a lost node: what is known of it decides."""
        if copy is None:
            note = read_note(self._state, run_id) or HostNote("", "", {"run_id": run_id})
            copy = JournalCopy.make_lost(self._state, run_id, note)
        else:
            copy.end_lost("host")
        remove_note(self._state, run_id)
        return RayRun(self._state, copy, None, self._warner(run_id))

    def _warner(self, run_id: str) -> Callable[[str], None]:
        return lambda text: self._log.warning(text, run_id=run_id)


def _placement(needs: Needs) -> Placement:
    return Placement(needs.cpus, needs.gpus, needs.resources, needs.node_labels, needs.host)


def _entry(node: ClusterNode, told: NodeHello | BaseException) -> dict[str, Any]:
    known = {
        "node_id": node.node_id,
        "address": node.address,
        "resources": {name: amount for name, amount in node.resources.items() if not name.startswith("node:")},
        "labels": dict(node.labels),
    }
    if not isinstance(told, NodeHello):
        return host_entry(node.hostname, "unreachable", **known, problem=str(told))
    names = ("version", "slots", "live", "lease_s", "lease_left_s", "epoch")
    return host_entry(node.hostname, "alive", **known, **{name: getattr(told, name) for name in names})
