"""The supervisor of runs on many hosts: `holdfast.ray.Supervisor`, from inside any program that uses Ray."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
import uuid
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from ..values.errors import HoldfastError, ResourceError, RunExistsError, RunNotFoundError, SpecError, StateError
from ..values.run_id import new_run_id
from ..values.spec_cache import new_spec
from . import bindings
from .bindings import NodeUnreachableError
from .gang import Gang, check_gang, member_options
from .messages import SETTLED, NodeFencedError, NodeHello, NodeSettings, StartRequest, unseen_news
from .node_link import NodeLink, NodeLostError
from .output_copy import OutputCopy
from .placement import Placement, candidates, check
from .remote_run import RemoteRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
    from types import TracebackType
    from typing import Unpack

    from ..values.fields import Text
    from ..values.options import SpecOptions
    from ..values.spec import RunSpec

DEFAULT_LEASE_S = 30.0
_LEAST_LEASE_S = 2.0
_POLL_S = 1.0
_FIRST_IN_LINE = 64  # runs with the same needs that are being started at once
_COPIES_AT_ONCE = 32 << 20  # bytes that all copies of output on this host may have under way
_LEAST_OF_A_COPY = 64 << 10
_LIST_S = 1.0  # how old a list of nodes may be


class _Reservation:
    """A placement group of Ray, and the links to its nodes. `group` is None when it is another's to give back."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.links: list[NodeLink] = []


class RaySupervisor:
    """Starts runs on the nodes of a Ray cluster. Use as `async with holdfast.ray.Supervisor() as supervisor`."""

    def __init__(
        self,
        *,
        address: str | None = None,
        state_dir: str | None = None,
        output_dir: str | None = None,
        lease: float = DEFAULT_LEASE_S,
        slots: int | None = None,
    ) -> None:
        """`address` is the cluster's; a program that is connected already needs none, and the default is `auto`.

        `state_dir` is a directory on every node, in which each node makes its own. `lease` is how long a node goes on
        without contact with the cluster, in seconds. `slots` is how many runs may be alive on a node; the default is
        what its limits allow. Both count when the actor of a node is made for the first time.
        `output_dir` is a directory on this host, for output that is kept on the head.
        """
        if not isinstance(lease, int | float) or not _LEAST_LEASE_S <= lease < 86400:
            remedy = f"give a number of seconds, at least {_LEAST_LEASE_S:g}"
            raise SpecError(f"lease is {lease!r}", field="lease", remedy=remedy)
        if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
            raise SpecError(f"slots is {slots!r}", field="slots", remedy="give a whole number, at least 1")
        bindings.load()
        self._address = address
        self._base = state_dir or os.path.join("~", ".local", "state", "holdfast", "ray")
        self._output_dir = os.path.expanduser(output_dir or os.path.join(self._base, "output"))
        self._lease_s = float(lease)
        self._slots = slots
        self._copies: set[asyncio.Task[None]] = set()
        self._owner = uuid.uuid4().hex
        self._links: dict[str, NodeLink] = {}
        self._runs: dict[str, RemoteRun] = {}
        self._lost: dict[str, NodeLink] = {}  # nodes that were declared lost, and may still be listed as alive
        self._lines: WeakValueDictionary[tuple[object, ...], asyncio.Semaphore] = WeakValueDictionary()
        self._room = asyncio.Event()  # a run is over
        self._gangs: set[asyncio.Task[None]] = set()
        self._listed: list[bindings.ClusterNode] = []
        self._listed_at = -_LIST_S  # when the cluster was asked for its nodes
        self._before_asking: dict[str, Callable[[bindings.ClusterNode, int], None]] = {}  # by run, while it is started
        self._is_open = self._has_connected = False

    async def __aenter__(self) -> Self:
        """Connect to the cluster. HoldfastError: no cluster answers."""
        if self._is_open:
            raise HoldfastError("this supervisor was used before", remedy="make a new one for each `async with`")
        self._has_connected = await asyncio.to_thread(bindings.connect, self._address)
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        owned = [run for run in self.runs if run.ends_with_us]
        try:
            await asyncio.shield(asyncio.gather(*map(self._end, reversed(owned))))
        finally:
            for task in (*self._gangs, *self._copies):
                task.cancel()
            await asyncio.gather(*self._gangs, *self._copies, return_exceptions=True)
            await asyncio.gather(*(link.close() for link in (*self._links.values(), *self._lost.values())))
            if self._has_connected:
                await asyncio.to_thread(bindings.disconnect)

    async def _end(self, run: RemoteRun) -> None:
        with contextlib.suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(run.settle_bound_s + 15.0):
                await run.cancel("the supervisor was left", cause="shutdown")
                await run.settled()

    @property
    def runs(self) -> tuple[RemoteRun, ...]:
        """The runs that are not settled, oldest first."""
        self._runs = {run_id: run for run_id, run in self._runs.items() if run.stage < SETTLED}
        return tuple(self._runs.values())

    async def hosts(self) -> list[NodeHello]:
        """What every live node says about itself; a node that does not answer is left out."""
        nodes = await self._nodes(now=True)
        answers = await asyncio.gather(*(self._link(node).hello() for node in nodes), return_exceptions=True)
        return [answer for answer in answers if isinstance(answer, NodeHello)]

    async def hello(self, node: bindings.ClusterNode) -> NodeHello:
        """What one node says about itself. HoldfastError: it does not answer, or cannot be used."""
        return await self._link(node).hello()

    # Starting.

    async def start(
        self,
        argv: Sequence[Text],
        *,
        cpus: float = 0.0,
        gpus: float = 0.0,
        resources: Mapping[str, float] | None = None,
        node_labels: Mapping[str, str] | None = None,
        host: str | None = None,
        wait: bool = True,
        keep_output: str = "node",
        window_size: tuple[int, int] | None = None,
        **options: Unpack[SpecOptions],
    ) -> RemoteRun:
        """Start a run on a node that has these resources and labels. The other options are those of `make_spec`.

        If the resources are in use, or no node has them yet, this waits; with `wait=False` it is a ResourceError.
        With `keep_output="head"` the output is also copied to this host as it comes, and survives the node.
        Otherwise fails as `holdfast.Supervisor.start` does, and nothing is left.
        """
        placement = Placement(cpus, gpus, resources or {}, node_labels or {}, host)
        spec = new_spec(argv, options)
        if options.get("run_id") is None:
            return await self.start_spec(spec, placement, wait=wait, keep_output=keep_output, window_size=window_size)
        # An id that the caller chose may be in use on any node. So it is taken in the cluster's store first.
        self._check_open()
        if not await asyncio.to_thread(bindings.claim, spec.run_id):
            remedy = "choose another id, or leave it out"
            raise RunExistsError("the cluster has a run of this id already", run_id=spec.run_id, remedy=remedy)
        try:
            return await self.start_spec(spec, placement, wait=wait, keep_output=keep_output, window_size=window_size)
        except HoldfastError as error:
            if not isinstance(error, NodeUnreachableError):  # otherwise it may have started on the node that was lost
                await asyncio.to_thread(bindings.give_claim_back, spec.run_id)
            raise

    async def start_spec(
        self,
        spec: RunSpec,
        placement: Placement | None = None,
        *,
        wait: bool = True,
        keep_output: str = "node",
        window_size: tuple[int, int] | None = None,
        before_asking: Callable[[bindings.ClusterNode, int], None] | None = None,
    ) -> RemoteRun:
        """Start a run whose spec was made before. Otherwise as `start`.

        `before_asking` is called before each node that is asked to start the run. A node that refused has not started
        it; the last one that was asked may have, if this is cancelled.
        """
        if keep_output not in ("node", "head"):
            remedy = "give node or head"
            raise SpecError(f"keep_output is {keep_output!r}", field="keep_output", run_id=spec.run_id, remedy=remedy)
        self._check_open()
        _check_remote(spec)
        placement = placement or Placement()
        check(placement, spec.run_id)
        bundle = placement.bundle(spec)
        request = StartRequest(0, spec, self._owner, None, window_size)
        copy = self._new_copy(spec.run_id) if keep_output == "head" else None
        if before_asking is not None:
            self._before_asking[spec.run_id] = before_asking
        try:
            async with self._line(placement, bundle):
                if bundle:
                    run = await self._start_reserved(request, placement, bundle, wait=wait)
                else:
                    run = await self._start_somewhere(request, placement, wait=wait)
        except BaseException:
            if copy is not None:
                copy.discard()
            raise
        finally:
            self._before_asking.pop(spec.run_id, None)
        if copy is not None:
            _track(self._copies, run.copy_output(copy, self._most_of_a_copy))
        return run

    def _new_copy(self, run_id: str) -> OutputCopy:
        try:
            os.makedirs(self._output_dir, mode=0o700, exist_ok=True)
            return OutputCopy(os.path.join(self._output_dir, run_id))
        except OSError as error:
            remedy = "give another output_dir, or keep the output on the node"
            raise StateError(f"the output cannot be kept here: {error}", run_id=run_id, remedy=remedy) from None

    def _most_of_a_copy(self) -> int:
        """How much output one answer may have, so that all copies together need bounded memory."""
        return max(_LEAST_OF_A_COPY, _COPIES_AT_ONCE // max(1, len(self._copies)))

    def _line(self, placement: Placement, bundle: Mapping[str, float]) -> asyncio.Semaphore:
        """The line of runs with the same needs. The first ones are being started, and the others wait in order."""
        needs = (placement.host, *sorted(placement.node_labels.items()), *sorted(bundle.items()))
        line = self._lines.get(needs)
        if line is None:
            line = self._lines[needs] = asyncio.Semaphore(bindings.RESERVATIONS_AT_ONCE if bundle else _FIRST_IN_LINE)
        return line

    async def _start_somewhere(self, request: StartRequest, placement: Placement, *, wait: bool) -> RemoteRun:
        """Start on the node that has the fewest of our runs and room."""
        while True:
            nodes = candidates(await self._nodes(), placement, {})
            refused: HoldfastError | None = None
            for link in sorted(map(self._link, nodes), key=lambda link: link.load):
                if wait and not link.has_room:
                    continue
                try:
                    return await self._start_on(link, request)
                except ResourceError as error:
                    link.note_refusal()
                    refused = error
                except (NodeUnreachableError, NodeFencedError) as error:
                    refused = error
            if not wait:
                raise refused or bindings.no_node({}, placement.node_labels, placement.host, request.spec.run_id)
            await self._room_or_poll()

    async def _room_or_poll(self) -> None:
        """Wait until a run is over, or a second."""
        self._room.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_S):
                await self._room.wait()

    def _wake(self) -> None:
        self._room.set()

    async def _start_reserved(
        self, request: StartRequest, placement: Placement, bundle: dict[str, float], *, wait: bool
    ) -> RemoteRun:
        """Start on the node on which Ray reserves the resources."""
        detached = request.spec.lifetime != "owner"
        while True:
            async with self._reserved(placement, bundle, request.spec, detached=detached, wait=wait) as reserved:
                if reserved.links:
                    with contextlib.suppress(NodeUnreachableError, NodeFencedError):
                        asked = request._replace(placement_group=bindings.group_id(reserved.group))
                        run = await self._start_on(reserved.links[0], asked)
                        reserved.group = None  # the node gives it back
                        return run

    @contextlib.asynccontextmanager
    async def _reserved(
        self,
        placement: Placement,
        bundle: dict[str, float],
        spec: RunSpec,
        *,
        wait: bool,
        detached: bool = False,
        size: int = 1,
        strategy: str = "PACK",
    ) -> AsyncIterator[_Reservation]:
        """A reservation, tried for a second: with links to its nodes if it was made. It is given back if it is ours.

        ResourceError: it cannot be made, and `wait` is false.
        """
        nodes = candidates(await self._nodes(), placement, bundle)
        if not nodes and not wait:
            raise bindings.no_node(bundle, placement.node_labels, placement.host, spec.run_id)
        if not nodes:
            await asyncio.sleep(_POLL_S)  # a node that has it may come
            yield _Reservation(None)
            return
        labels = dict(placement.node_labels)
        if placement.host is not None:
            labels["ray.io/node-id"] = nodes[0].node_id
        reserved = _Reservation(bindings.reserve(bundle, labels, detached=detached, size=size, strategy=strategy))
        try:
            node_ids = await bindings.reserved_on(reserved.group, _POLL_S)
            if node_ids is not None:
                known = {node.node_id: node for node in await self._nodes(now=True)}
                if all(node_id in known for node_id in node_ids):  # otherwise a node was lost just now
                    reserved.links = [self._link(known[node_id]) for node_id in node_ids]
            elif not wait:
                message = "the resources are in use now"
                raise ResourceError(message, run_id=spec.run_id, remedy="wait for them (wait=True)")
            yield reserved
        finally:
            if reserved.group is not None:
                bindings.remove_placement_group(bindings.group_id(reserved.group))

    # Gangs.

    async def start_gang(
        self,
        argv: Sequence[Text],
        size: int,
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        resources: Mapping[str, float] | None = None,
        node_labels: Mapping[str, str] | None = None,
        strategy: str = "PACK",
        wait: bool = True,
        **options: Unpack[SpecOptions],
    ) -> Gang:
        """Start `size` runs of one command together: all or none. They end together when one does not succeed.

        The resources are those of one member. `strategy` is Ray's: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD. Each
        member finds its rank and the size in HOLDFAST_GANG_RANK and HOLDFAST_GANG_SIZE, and has the label `gang`.
        If a member cannot be started, the others are ended. Otherwise fails as `start` does.
        """
        self._check_open()
        check_gang(size, strategy, options)
        placement = Placement(cpus, gpus, resources or {}, node_labels or {}, None)
        gang_id = uuid.uuid4().hex[:12]
        specs = [new_spec(argv, member_options(options, gang_id, rank, size)) for rank in range(size)]
        for spec in specs:
            _check_remote(spec)
        check(placement, specs[0].run_id)
        bundle = placement.bundle(specs[0])
        if not bundle:
            remedy = "give cpus, gpus or resources for each member"
            raise SpecError("a gang needs something that Ray can reserve", field="cpus", remedy=remedy)
        while True:
            needs = (placement, bundle, specs[0])
            async with self._reserved(*needs, wait=wait, size=size, strategy=strategy) as reserved:
                if reserved.links:
                    runs = await self._start_members(specs, reserved.links)
                    if runs is not None:
                        return self._form(Gang(gang_id, runs), reserved)

    async def _start_members(self, specs: list[RunSpec], links: list[NodeLink]) -> tuple[RemoteRun, ...] | None:
        """Start every member, or none; None: a node was lost, and no member runs. Raises the first other error."""
        requests = [StartRequest(0, spec, self._owner, None) for spec in specs]
        starts = [self._start_on(link, request) for link, request in zip(links, requests, strict=True)]
        answers = await asyncio.gather(*starts, return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        runs = tuple(answer for answer in answers if isinstance(answer, RemoteRun))
        if not errors:
            return runs
        gang = Gang("", runs)
        await gang.cancel("another member of its gang did not start", cause="session", now=True)
        await gang.gone()
        other = [error for error in errors if not isinstance(error, NodeUnreachableError | NodeFencedError)]
        if other:
            raise other[0]
        specs[:] = [spec._replace(run_id=new_run_id()) for spec in specs]
        return None

    def _form(self, gang: Gang, reserved: _Reservation) -> Gang:
        """Keep the members together from now on, and give the reservation back when all are settled."""
        group, reserved.group = bindings.group_id(reserved.group), None

        async def keep() -> None:
            try:
                await gang.keep_together()
            finally:
                bindings.remove_placement_group(group)

        _track(self._gangs, keep())
        return gang

    async def _start_on(self, link: NodeLink, request: StartRequest) -> RemoteRun:
        spec = request.spec
        tell = self._before_asking.get(spec.run_id)
        try:
            news = await link.start(request, None if tell is None else functools.partial(tell, link.node))
        except NodeLostError:  # it may have started: to start it on another node now could make it live twice
            run = RemoteRun(link, unseen_news(spec, link.host), spec.lifetime)
            run.lose(link.gone_by)
            return run
        run = RemoteRun(link, news, spec.lifetime)
        if run.stage < SETTLED:
            self._runs[run.run_id] = run
            link.add_started(run)
        return run

    async def adopt(self, run_id: str) -> RemoteRun:
        """Go on with a run that another supervisor started, or read one that is over. Every live node is asked.

        The run does not end with this supervisor's block. RunNotFoundError: no live node has it.
        """
        self._check_open()
        nodes = await self._nodes()
        for link in map(self._link, nodes):
            with contextlib.suppress(RunNotFoundError, NodeUnreachableError):
                await link.open()
                run = RemoteRun(link, await link.request("adopt", run_id), "session")
                if run.stage < SETTLED:
                    link.add(run)
                self._runs[run_id] = run
                return run
        raise RunNotFoundError("no live node of the cluster has this run", run_id=run_id)

    async def adopt_on(self, run_id: str, node_id: str, epoch: int) -> RemoteRun:
        """Go on with a run that this node was asked to start in this epoch. As `adopt`, but nobody else is asked.

        RunNotFoundError: the node has not started it, and never will. NodeLostError: the node is lost; its epoch is
        higher than this one then, so that the run ends with its lease. Runs of a later epoch go on.
        StoreUnreachableError: nobody knows; ask again.
        """
        self._check_open()
        node = next((one for one in await self._nodes(now=True) if one.node_id == node_id), None)
        if node is None:
            await asyncio.to_thread(bindings.raise_epoch, node_id, epoch)
            raise NodeLostError("its node is gone", run_id=run_id)
        link = self._link(node)
        while True:
            try:
                if not await link.request("give_up", run_id):
                    raise RunNotFoundError("the node has not started this run", run_id=run_id)
                run = RemoteRun(link, await link.request("adopt", run_id), "session")
                break
            except NodeUnreachableError:
                await link.find_out(epoch)
            if link.is_lost:
                raise NodeLostError(f"the node {link.host} is lost", run_id=run_id)
        if run.stage < SETTLED:
            link.add(run)
        self._runs[run_id] = run
        return run

    def _check_open(self) -> None:
        if not self._is_open:
            raise HoldfastError("this supervisor is not open", remedy="use it inside `async with Supervisor()`")

    # Nodes.

    async def _nodes(self, *, now: bool = False) -> list[bindings.ClusterNode]:
        """The live nodes of the cluster, as of a moment ago. `now`: ask the cluster."""
        if now or time.monotonic() > self._listed_at + _LIST_S:
            self._listed = await asyncio.to_thread(bindings.live_nodes)
            self._listed_at = time.monotonic()
        return [node for node in self._listed if not self._is_lost(node.node_id)]

    def _is_lost(self, node_id: str) -> bool:
        """Whether a node was declared lost, and may still have runs of which that was said."""
        link = self._lost.get(node_id)
        return link is not None and not link.is_over

    def _link(self, node: bindings.ClusterNode) -> NodeLink:
        link = self._links.get(node.node_id)
        if link is None:
            place = os.path.join(self._base, node.node_id)
            settings = NodeSettings(node.node_id, place, self._lease_s, self._slots)
            link = self._links[node.node_id] = NodeLink(node, settings, self._owner, self._on_lost, self._wake)
        return link

    def _on_lost(self, link: NodeLink) -> None:
        self._lost[link.node.node_id] = link
        self._links.pop(link.node.node_id, None)


def _check_remote(spec: RunSpec) -> None:
    """Refuse options that only make sense on the caller's own host."""
    for field, value in (("stdin", spec.stdin), ("stdout", spec.stdout), ("stderr", spec.stderr)):
        if isinstance(value, int) or value == "inherit":
            remedy = "use a pipe, or capture it"
            raise SpecError(f"{field} of this process is not there on another host", field=field, remedy=remedy)
    for field, given in (("foreign", spec.foreign), ("starter", spec.starter), ("lifetime", _is_left(spec))):
        if given:
            raise SpecError(f"{field} is not possible on another host", field=field, remedy="leave it out")


def _is_left(spec: RunSpec) -> bool:
    return spec.stragglers == "session"


def _track(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Start a task and hold it until it is done."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
