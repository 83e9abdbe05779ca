"""The link of a supervisor to the actor of one node: requests, news, and whether the node is lost.

One call is always under way: `watch` returns news, or nothing after a second. If it fails, the link finds out why.
- The node's raylet refuses connections: the node is gone, and its runs are lost at once.
- The raylet does not answer at all: the node is lost 6 s after its last answer, or at the next look.
- The raylet answers: Ray restarts the actor, and the link waits for it, until the lease of the node is over.

The link declares a node lost in this order: it raises the node's epoch in the cluster's store, and then its runs are
lost. From the first step on the node cannot renew its lease. So one lease later no process of those runs is alive. If
the store does not answer, the runs are lost all the same, and the lease of the node counts from the moment at which the
store has the new epoch: perhaps only we are cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Protocol

from ..values.errors import HoldfastError, RunExistsError, RunNotFoundError
from . import bindings
from .bindings import NodeUnreachableError
from .messages import SETTLED, NodeFencedError, StartAnswer, unseen_news
from .node_actor import NodeActor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from .bindings import ClusterNode
    from .messages import NodeHello, NodeSettings, RunNews, StartRequest, WatchAnswer

_POLL_S = 1.0
_SILENT_S = 3.0  # beyond the time that a poll takes
_PROBE_S = 1.0
_LOST_AFTER_S = 6.0
_OPEN_S = 60.0  # a worker of Ray has to start and to import Holdfast
_CLOCK_DRIFT = 1.05
_AT_ONCE = 16  # starts in one call
_CALLS_AT_ONCE = 2  # with starts: while the node works on one, the next one comes


class NewsTaker(Protocol):
    """A run that takes news from its node: `RemoteRun` is one."""

    run_id: str

    @property
    def stage(self) -> int: ...
    def take(self, news: RunNews) -> None: ...
    def lose(self, gone_by: Callable[[], Awaitable[float]]) -> None: ...
    def fail(self) -> None: ...


class NodeLostError(NodeUnreachableError):
    """The node was lost while it was asked to start a run: nobody knows whether the run started."""


class NodeLink:
    """A supervisor's link to one node."""

    def __init__(
        self,
        node: ClusterNode,
        settings: NodeSettings,
        owner: str,
        on_lost: Callable[[NodeLink], None],
        on_room: Callable[[], None],
    ) -> None:
        self.node = node
        self.host = node.hostname
        self.runs: dict[str, NewsTaker] = {}
        self.is_lost = False
        self._settings = settings
        self._owner = owner
        self._on_lost = on_lost
        self._on_room = on_room
        self._actor: Any = None
        self._hello: NodeHello | None = None
        self._heard = time.monotonic()
        self._lost = asyncio.Event()
        self._fenced: asyncio.Task[float] | None = None  # since the node is lost: when its lease is over, on our clock
        self._done: list[str] = []
        self._full_until = 0.0
        self._is_introduced = False  # the actor knows all our runs
        self._introduction = 0  # how often we have named them
        self._asked: list[StartRequest] = []  # starts to be sent
        self._answers: dict[str, asyncio.Future[HoldfastError | None]] = {}  # of starts, by run id
        self._early: dict[str, RunNews | None] = {}  # runs that are being started, and news of them
        self._sending: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()  # of runs whose callers were cancelled
        self._watching: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    async def open(self) -> NodeHello:
        """Make or find the actor of the node. HoldfastError: it cannot work there. NodeUnreachableError: it is gone."""
        async with self._opening:
            if self._hello is None:
                if await self._probe() is False:  # the cluster lists a dead node for a while
                    raise NodeUnreachableError(f"the node {self.host} is gone")
                self._actor = bindings.node_actor(NodeActor, self._settings)
                self._hello = await self._greet(_OPEN_S)
            return self._hello

    async def _greet(self, within_s: float) -> NodeHello:
        from importlib.metadata import version

        hello: NodeHello = await bindings.call(self._actor, "hello", within_s=within_s)
        if hello.version != version("holdfast"):
            remedy = "install the same version on every node"
            message = f"the node {hello.host} has Holdfast {hello.version}, and this is {version('holdfast')}"
            raise HoldfastError(message, remedy=remedy)
        self._heard = time.monotonic()
        return hello

    async def hello(self) -> NodeHello:
        """Ask the node about itself now."""
        await self.open()
        return await self._greet(_PROBE_S * 5)

    @property
    def load(self) -> int:
        """How many runs this supervisor has on the node, also while they are being started."""
        return len(self.runs) + len(self._early)

    @property
    def has_room(self) -> bool:
        """Whether the node may take one more run, as far as this supervisor knows."""
        return (self._hello is None or self.load < self._hello.slots) and time.monotonic() >= self._full_until

    def note_refusal(self) -> None:
        """The node has refused a run: ask it again after a second, or when one of its runs is over."""
        self._full_until = time.monotonic() + _POLL_S

    async def start(self, request: StartRequest, before_asking: Callable[[int], None] | None = None) -> RunNews:
        """Start a run on this node. Fails as `NodeActor.start_all`. NodeUnreachableError: the run was not started.

        `before_asking` is called with the epoch of each request, before it is sent.
        NodeLostError: the node was lost before it answered, so the run may have started there. If only the answer was
        lost, the link asks the node again, and a run of this id is this run. The caller adds the run at once.
        """
        run_id = request.spec.run_id
        self._early[run_id] = None
        try:
            news = await self._start(request, before_asking or _nothing)
        except asyncio.CancelledError:
            self._abandon(run_id)
            raise
        finally:
            del self._early[run_id]
        if news.stage == SETTLED:
            self._done.append(run_id)
        return news

    def _abandon(self, run_id: str) -> None:
        """End a run whose caller was cancelled while the node was asked to start it."""

        async def end() -> None:
            with contextlib.suppress(HoldfastError):
                await asyncio.gather(*self._sending, return_exceptions=True)
                await self.request("cancel", run_id, "its start was cancelled", "owner", True, None)

        task = asyncio.get_running_loop().create_task(end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _start(self, request: StartRequest, before_asking: Callable[[int], None]) -> RunNews:
        hello = await self.open()  # if this fails, nothing was asked
        try:
            return await self._ask_start(request, hello, before_asking)
        except NodeFencedError:  # perhaps by the epoch, which may be newer than ours
            self._hello = await self._greet(_OPEN_S)
            return await self._ask_start(request, self._hello, before_asking)
        except NodeUnreachableError:
            await self._find_out()
        while not self.is_lost:
            self._is_introduced = False  # a new actor knows the run, and not that we follow it
            try:
                with contextlib.suppress(RunNotFoundError):
                    return await self._ask_adopt(request.spec.run_id)
                with contextlib.suppress(RunExistsError):  # the first request came after our question
                    return await self._ask_start(request, await self.open(), before_asking)
                return await self._ask_adopt(request.spec.run_id)
            except NodeUnreachableError:
                await self._find_out()
        raise NodeLostError(f"the node {self.host} was lost", run_id=request.spec.run_id)

    async def _ask_start(
        self, request: StartRequest, hello: NodeHello, before_asking: Callable[[int], None]
    ) -> RunNews:
        run_id = request.spec.run_id
        before_asking(hello.epoch)
        answered: asyncio.Future[HoldfastError | None] = asyncio.get_running_loop().create_future()
        self._answers[run_id] = answered
        self._asked.append(request._replace(epoch=hello.epoch))
        if len(self._sending) < _CALLS_AT_ONCE:
            task = asyncio.get_running_loop().create_task(self._send())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        error = await answered
        if error is not None:
            raise error
        return self._early.get(run_id) or unseen_news(request.spec, self.host)

    async def _send(self) -> None:
        """Send the starts that are asked for: while calls are under way, the next starts gather for one call."""
        while self._asked:
            sent, self._asked = self._asked[:_AT_ONCE], self._asked[_AT_ONCE:]
            asked = (self._owner, self._introduction, sent)
            try:
                answer: StartAnswer = await bindings.call(self._actor, "start_all", *asked, within_s=_OPEN_S)
            except HoldfastError as error:
                self._is_introduced = False  # news may be lost with the answer
                answer = StartAnswer([error] * len(sent), [])
            for request, error_of_it in zip(sent, answer.errors, strict=True):
                self._answer(request.spec.run_id, error_of_it)
            for news in answer.news:
                self._deliver(news)

    def _answer(self, run_id: str, error: HoldfastError | None) -> None:
        answered = self._answers.pop(run_id, None)
        if answered is not None and not answered.done():  # otherwise there was news of the run, or nobody waits
            answered.set_result(error)

    async def _ask_adopt(self, run_id: str) -> RunNews:
        news: RunNews = await bindings.call(self._actor, "adopt", run_id, within_s=_OPEN_S)
        return news

    async def request(self, method: str, *arguments: object) -> Any:
        """Ask something of a run. While Ray restarts the actor, this waits. NodeUnreachableError: the node is lost."""
        await self.open()
        while True:
            if self.is_lost:
                raise NodeUnreachableError(f"the node {self.host} is lost")
            try:
                return await self._unless_lost(bindings.call(self._actor, method, *arguments))
            except NodeUnreachableError:
                if method == "write_stdin":
                    raise  # nobody knows how much of it was written
                await self._find_out()

    async def _unless_lost(self, asking: Coroutine[Any, Any, Any]) -> Any:
        """The answer. NodeUnreachableError: also when the node is declared lost before it answers."""
        loop = asyncio.get_running_loop()
        answer, lost = loop.create_task(asking), loop.create_task(self._lost.wait())
        try:
            await asyncio.wait([answer, lost], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise NodeUnreachableError(f"the node {self.host} is lost")
            return answer.result()
        finally:
            for task in (answer, lost):
                task.cancel()
            await asyncio.gather(answer, lost, return_exceptions=True)

    def add(self, run: NewsTaker) -> None:
        """Follow a run of this node that another supervisor started."""
        self._is_introduced = False
        self.add_started(run)

    def add_started(self, run: NewsTaker) -> None:
        """Follow a run that `start` has started, from now on."""
        self.runs[run.run_id] = run
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    def check(self) -> None:
        """HoldfastError: the supervisor was left, and nobody will tell about the runs of this node."""
        if self._is_closed:
            raise HoldfastError("the supervisor was left", remedy="adopt the run with another one")

    async def close(self) -> None:
        """Follow no more."""
        self._is_closed = True
        if self._ending:
            await asyncio.wait(self._ending, timeout=_OPEN_S)
        tasks = [*self._sending, *(task for task in (self._watching, self._fenced) if task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for run in self.runs.values():
            run.fail()

    async def find_out(self, epoch: int = 0) -> None:
        """Return when the actor of the node answers, or when the node is declared lost, at least in this epoch."""
        if self._actor is None:
            self._actor = bindings.node_actor(NodeActor, self._settings)
        await self._find_out(epoch)

    async def gone_by(self) -> float:
        """When the lease of this lost node is over, on our clock. This waits until the cluster's store is told."""
        assert self._fenced is not None
        return await asyncio.shield(self._fenced)

    @property
    def is_over(self) -> bool:
        """Whether the lease of this lost node is over: if the node is there again, it has none of the old runs."""
        done = self._fenced if self._fenced is not None and self._fenced.done() else None
        return done is not None and not done.cancelled() and done.result() <= time.monotonic()

    # News, and the loss of the node.

    async def _watch(self) -> None:
        while not self.is_lost:
            # A supervisor names its runs only when it is new to the actor: it may have hundreds.
            seen = None
            if not self._is_introduced:
                seen = {run_id: run.stage for run_id, run in self.runs.items()}
                self._is_introduced = True
                self._introduction += 1
            done, self._done = self._done, []
            asked = (self._owner, self._introduction, seen, done, _POLL_S)
            try:
                answer: WatchAnswer = await bindings.call(self._actor, "watch", *asked, within_s=_POLL_S + _SILENT_S)
            except HoldfastError:
                self._done = done + self._done
                self._is_introduced = False
                await self._find_out()
                continue
            self._heard = time.monotonic()
            if not answer.is_known:
                self._is_introduced = False
            for news in answer.news:
                self._deliver(news)
            for run_id in answer.missing:
                if (run := self.runs.pop(run_id, None)) is not None:
                    run.lose(_at_once)

    def _deliver(self, news: RunNews) -> None:
        run = self.runs.get(news.run_id)
        if run is None:
            if news.run_id in self._early:  # the answer to its start is under way
                self._early[news.run_id] = news
                self._answer(news.run_id, None)
            return
        run.take(news)
        if news.stage == SETTLED:
            del self.runs[news.run_id]
            self._done.append(news.run_id)
            self._full_until = 0.0
            self._on_room()

    async def _find_out(self, epoch: int = 0) -> None:
        """Return when the actor answers again, or when the node is declared lost."""
        while not self.is_lost:
            there = await self._probe()
            silent_s = time.monotonic() - self._heard
            lease_s = self._settings.lease_s if self._hello is None else self._hello.lease_s
            if there is False or silent_s > (lease_s if there else _LOST_AFTER_S):
                await self._lose(epoch)
                return
            try:
                self._hello = await self._greet(_SILENT_S if there else _PROBE_S)
                return
            except NodeUnreachableError:
                await asyncio.sleep(0.1)

    async def _probe(self) -> bool | None:
        """Whether the node's raylet takes connections; None: no answer at all."""
        try:
            async with asyncio.timeout(_PROBE_S):
                _, writer = await asyncio.open_connection(self.node.address, self.node.port)
        except ConnectionRefusedError:
            return False
        except (TimeoutError, OSError):
            return None
        writer.close()
        return True

    async def _lose(self, epoch: int) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        epoch = epoch if self._hello is None else max(epoch, self._hello.epoch)
        self._fenced = asyncio.get_running_loop().create_task(self._fence(epoch))
        await asyncio.wait([self._fenced], timeout=_PROBE_S)
        self._lost.set()
        for run in self.runs.values():
            run.lose(self.gone_by)
        self.runs.clear()
        self._on_lost(self)

    async def _fence(self, epoch: int) -> float:
        """Raise the epoch of the node, and return when its lease is over. This tries until the store answers."""
        lease_s = self._settings.lease_s if self._hello is None else self._hello.lease_s
        while True:
            try:
                await asyncio.to_thread(bindings.raise_epoch, self.node.node_id, epoch)
            except Exception:  # noqa: BLE001 - whatever Ray raises: without an answer nobody knows
                await asyncio.sleep(_POLL_S)
            else:
                return time.monotonic() + lease_s * _CLOCK_DRIFT + 1.0


def _nothing(_: int) -> None:
    """Nobody wants to know the epoch."""


async def _at_once() -> float:
    """The node itself says that it has no such run."""
    return time.monotonic()
