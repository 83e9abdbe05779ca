"""The actor of one node: it owns the node's guards through the local library, and answers to the heads.

Theory of operation. Ray restarts this actor when it dies. The guards do not die with it: their runs have the lifetime
`detached`, and end with the node's lease (`lease.py`). A new actor adopts every run in the node's state directory, and
the local library finishes the records of runs whose guards are gone.

Invariants.
- A run starts only while the epoch of the request is the epoch of this node, and while the lease lasts.
- A run id starts once: the run's directory on this node is the proof, and the local library makes it atomically.
- A higher epoch in the cluster's store means that a head has declared this node lost. Then every live run of this node
  is ended, and the node takes the new epoch only when no run is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..journal.part import read_part
from ..journal.reader import JournalReader
from ..runs.supervisor import Supervisor
from ..state.directory import StateDirectory
from ..state.record import RunRecord
from ..values.errors import HoldfastError, ResourceError, RunExistsError, RunNotFoundError, StateError
from . import bindings
from .lease import Lease, now_ns
from .mailbox import Mailbox
from .messages import (
    DECIDED,
    SETTLED,
    STARTED,
    STARTING,
    NodeFencedError,
    NodeHello,
    OutputPart,
    OutputPlace,
    RunNews,
    StartAnswer,
    WatchAnswer,
)
from .node_room import NodeRoom
from .run_notes import RunNote, RunNotes

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from ..journal.part import JournalPart, JournalPlace
    from ..runs.run import Run
    from .messages import NodeSettings, StartRequest

_MOMENT_S = 0.02
_OUTPUT_AT_ONCE = 1 << 20
_LOST = "the head declared this node lost, or the node lost the head"


class NodeActor:
    """The runs of one node. Every method can be called by several heads at once."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        directory = Path(settings.state_dir).expanduser()
        directory.mkdir(parents=True, exist_ok=True)
        self._state = StateDirectory.open(str(directory / "state"))
        self._notes = RunNotes(directory / "notes.jsonl")
        self._lease = Lease(directory, settings.lease_s)
        self._room = NodeRoom.here(settings.slots)
        self._host = socket.gethostname()
        self._epoch = -1  # not known before the first contact with the cluster's store
        self._runs: dict[str, Run] = {}
        self._stages: dict[str, int] = {}
        self._live: set[str] = set()  # the ids of runs that are not settled
        self._budgets: dict[str, int] = {}  # the memory budgets of these runs, in bytes
        self._unstarted: dict[str, float] = {}  # runs whose start was not told yet, and when they were begun
        self._begun = asyncio.Event()  # there are such runs
        self._owners: dict[str, str] = {}  # run id to supervisor, of runs that end with their supervisor
        self._mailboxes: dict[str, Mailbox] = {}  # of each supervisor that was heard lately
        self._refused: set[str] = set()  # starts that a head has given up; a request that comes late finds its id here
        self._supervisor: Supervisor | None = None
        self._opened = asyncio.Event()
        self._failure: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._begin(self._serve())

    # The actor's own life.

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        try:
            async with Supervisor(state_dir=self._state.path) as self._supervisor:
                await self._renew()
                for run_id in {*self._state.live_ids(), *self._notes.all_ids()}:
                    await self._find_again(run_id)
                self._opened.set()
                self._begin(self._tell_starts())
                while True:
                    await asyncio.sleep(self._lease.length_s / 5)
                    await self._renew()
                    await self._end_unowned()
        except BaseException as error:
            self._failure = error
            self._opened.set()
            raise

    async def _renew(self) -> None:
        """Ask the cluster for this node's epoch, and renew the lease if it is still ours."""
        asked_ns = now_ns()
        try:
            epoch = await asyncio.to_thread(bindings.read_epoch, self._settings.node_id)
        except Exception:  # noqa: BLE001 - whatever Ray raises: without an answer the lease is not renewed
            return
        if self._epoch < 0 or (epoch > self._epoch and not self._live_runs):
            self._epoch = epoch
        if epoch == self._epoch:
            with contextlib.suppress(StateError):  # without a keeper no run starts here; the next renewal tries again
                await asyncio.to_thread(self._lease.renew, asked_ns)
            return
        for run in self._live_runs:
            await self._end(run)

    @property
    def _live_runs(self) -> list[Run]:
        return [self._runs[run_id] for run_id in self._live]

    async def _find_again(self, run_id: str) -> None:
        assert self._supervisor is not None
        try:
            run = await self._supervisor.adopt(run_id)
        except HoldfastError:
            self._give_back(run_id)  # its start failed, or its record cannot be read
            return
        self._keep(run)

    async def _end_unowned(self) -> None:
        """End the runs of supervisors that were silent for a whole lease, and forget the ends that nobody awaits."""
        silent_since = time.monotonic() - self._lease.length_s
        for owner in [owner for owner, mailbox in self._mailboxes.items() if mailbox.heard < silent_since]:
            del self._mailboxes[owner]
        for run_id, owner in tuple(self._owners.items()):
            if owner not in self._mailboxes and (run := self._runs.get(run_id)) is not None:
                await self._end(run)
        for run_id in tuple(self._runs):
            self._forget(run_id)

    async def _end(self, run: Run) -> None:
        with contextlib.suppress(HoldfastError):
            await run.cancel(_LOST, cause="owner")

    def _keep(self, run: Run) -> None:
        run_id = run.run_id
        owner, _, budget = self._notes.read(run_id)
        self._runs[run_id] = run
        self._stages[run_id] = STARTING
        self._live.add(run_id)
        self._unstarted[run_id] = time.monotonic()
        self._begun.set()
        if budget:
            self._budgets[run_id] = budget
        if owner is not None:
            self._owners[run_id] = owner
            self._mailbox(owner)
        self._begin(self._follow(run))

    def _mailbox(self, owner: str) -> Mailbox:
        if owner not in self._mailboxes:
            self._mailboxes[owner] = Mailbox()
        return self._mailboxes[owner]

    async def _follow(self, run: Run) -> None:
        try:
            await run.wait()
            self._reached(run.run_id, DECIDED)
            await run.settled()
        finally:
            self._owners.pop(run.run_id, None)
            self._live.discard(run.run_id)
            self._budgets.pop(run.run_id, None)
            self._give_back(run.run_id)
            self._reached(run.run_id, SETTLED)

    async def _tell_starts(self) -> None:
        """Tell the start of runs that live for a moment. A shorter run is told once, with its verdict."""
        while True:
            if not self._unstarted:
                self._begun.clear()
            await self._begun.wait()
            await asyncio.sleep(_MOMENT_S)
            before = time.monotonic() - _MOMENT_S
            for run_id in [run_id for run_id, begun in self._unstarted.items() if begun < before]:
                if self._runs[run_id].outcome.started is not None:
                    self._reached(run_id, STARTED)

    def _reached(self, run_id: str, stage: int) -> None:
        self._stages[run_id] = stage
        self._unstarted.pop(run_id, None)
        for mailbox in self._mailboxes.values():
            mailbox.put(run_id)

    def _give_back(self, run_id: str) -> None:
        """Give back the resources that Ray reserved for a run, and forget the note of the run."""
        placement_group = self._notes.read(run_id).placement_group
        if placement_group is not None:
            bindings.remove_placement_group(placement_group)
        self._notes.remove(run_id)

    # What heads ask.

    async def _ready(self) -> None:
        """Wait until the runs of the last actor are adopted. HoldfastError: the state directory cannot be used."""
        await self._opened.wait()
        if self._failure is not None:
            raise StateError(f"the node {self._host} cannot run anything: {self._failure}")

    async def hello(self) -> NodeHello:
        """Say who this is. HoldfastError: the node's state directory cannot be used."""
        await self._ready()
        from importlib.metadata import version

        return NodeHello(
            node_id=self._settings.node_id,
            host=self._host,
            version=version("holdfast"),
            epoch=self._epoch,
            lease_s=self._lease.length_s,
            lease_left_s=self._lease.left_s,
            slots=self._room.slots,
            pid=os.getpid(),
            live=len(self._live),
            refuses=self._room.refusal(len(self._live), sum(self._budgets.values()), 0),
        )

    async def start_all(self, owner: str, introduction: int, requests: list[StartRequest]) -> StartAnswer:
        """Start several runs, one after the other, and tell news of the runs of this supervisor.

        The errors are those of `Supervisor.start_spec`, and NodeFencedError: another epoch, or no lease. Nothing is
        left of a run that was not started, and its reservation stays the caller's.
        """
        await self._ready()
        errors: list[HoldfastError | None] = []
        for request in requests:
            errors.append(await self._attempt(request))
            await asyncio.sleep(0)  # the runs that are there go on meanwhile
        return StartAnswer(errors, self._news_of(self._mailbox(owner).take(introduction)))

    async def _attempt(self, request: StartRequest) -> HoldfastError | None:
        try:
            await self._start(request)
        except HoldfastError as error:
            return error
        except OSError as error:
            return StateError(f"the node {self._host} cannot start the run: {error}", run_id=request.spec.run_id)
        return None

    async def _start(self, request: StartRequest) -> None:
        assert self._supervisor is not None
        spec = request.spec
        if request.epoch != self._epoch:
            remedy = "ask the node for its epoch again"
            message = f"the node was declared lost: its epoch is {self._epoch}, not {request.epoch}"
            raise NodeFencedError(message, run_id=spec.run_id, remedy=remedy)
        if refusal := self._room.refusal(len(self._live), sum(self._budgets.values()), spec.memory_bytes or 0):
            raise ResourceError(f"the node {self._host} {refusal}", errno=errno.EAGAIN, run_id=spec.run_id)
        owner = request.owner if spec.lifetime == "owner" else None
        if spec.run_id in self._refused:
            raise NodeFencedError("this start was given up", run_id=spec.run_id, remedy="start it with a new id")
        kept = spec._replace(lifetime="detached", starter=self._lease.starter)
        if self._state.has(spec.run_id):  # before the note is written: the note of a live run must stay as it is
            remedy = "choose another id, or leave it out"
            raise RunExistsError("there is a run of this id already", run_id=spec.run_id, remedy=remedy)
        self._notes.write(spec.run_id, RunNote(owner, request.placement_group, spec.memory_bytes or 0))
        try:
            run = await self._supervisor.start_spec(kept, window_size=request.window_size)
        except BaseException:
            self._notes.remove(spec.run_id)
            raise
        self._mailbox(request.owner).follow(spec.run_id)
        self._keep(run)

    async def adopt(self, run_id: str) -> RunNews:
        """Tell about a run of this node, live or over. RunNotFoundError: it was not started here."""
        await self._ready()
        return self._news(await self._run(run_id))

    async def watch(
        self, owner: str, introduction: int, seen: dict[str, int] | None, done: list[str], wait_s: float
    ) -> WatchAnswer:
        """Tell which runs of a supervisor got further; wait at most `wait_s` for the first.

        A run that is started during the call counts, too. `seen` names all runs of the supervisor and how far it knows
        them; None: it got all answers since it named them, with this `introduction`. `done` are runs whose end the
        supervisor knows: this actor forgets them, and their records stay on the node.
        """
        await self._ready()
        mailbox = self._mailbox(owner)
        if seen is not None:
            mailbox.introduction = introduction
        elif mailbox.introduction != introduction:
            return WatchAnswer([], [], is_known=False)
        for run_id in done:
            mailbox.unfollow(run_id)
            self._forget(run_id)
        missing = [run_id for run_id in seen or () if not await self._is_here(run_id)]
        for run_id, stage in (seen or {}).items():
            if run_id not in missing:
                mailbox.follow(run_id)
                if self._stages[run_id] > stage:
                    mailbox.put(run_id)
        return WatchAnswer(self._news_of(await mailbox.wait(introduction, 0 if missing else wait_s)), missing)

    def _news_of(self, run_ids: list[str]) -> list[RunNews]:
        return [self._news(self._runs[run_id]) for run_id in run_ids if run_id in self._runs]

    async def _is_here(self, run_id: str) -> bool:
        try:
            await self._run(run_id)
        except HoldfastError:
            return False
        return True

    async def read_output(
        self, run_id: str, place: OutputPlace, wait_s: float, most: int = _OUTPUT_AT_ONCE
    ) -> OutputPart:
        """Read output from a place on, about `most` bytes; wait at most `wait_s` for the first byte."""
        await self._ready()
        run = self._runs.get(run_id)  # None: the run is over and was forgotten, or it was never here
        with RunRecord(self._state, run_id) as record:
            reader = JournalReader(record.fd, run_id=run_id)
            if place.position:
                reader.start_at(place.position, place.passed, place.last_gap)
            over = run is None or run.state == "settled"  # before the read: then the read finds everything
            chunks = reader.read(most)
            if not chunks and not over and run is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await run.more_output(reader.position)
                chunks = reader.read(most)
            after = OutputPlace(reader.position, tuple(reader.passed), reader.last_gap)
            return OutputPart(chunks, after, over and not chunks)

    async def read_journal(self, run_id: str, place: JournalPlace, wait_s: float) -> JournalPart:
        """Read the journal from a place on, about a megabyte at most; wait at most `wait_s` for something new."""
        run = await self._run(run_id)
        with RunRecord(self._state, run_id) as record:
            part = read_part(record.fd, place, _OUTPUT_AT_ONCE, run_id)
            if not part.pieces and wait_s > 0 and run.state != "settled":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await run.more_output(place.position)
                part = read_part(record.fd, place, _OUTPUT_AT_ONCE, run_id)
            return part

    async def give_up(self, run_id: str) -> bool:
        """Whether this run was started here. If it was not, it never will be: a request that comes late is refused."""
        await self._ready()
        if self._state.has(run_id):
            return True
        self._refused.add(run_id)
        return False

    async def report(self, run_id: str) -> RunNews:
        """Tell everything about a run as of now."""
        return self._news(await self._run(run_id))

    async def cancel(self, run_id: str, reason: str, cause: str, now: bool, grace: float | None) -> None:
        """As `Run.cancel`."""
        await (await self._run(run_id)).cancel(reason, cause=cause, now=now, grace=grace)

    async def extend(self, run_id: str, seconds: float) -> None:
        """As `Run.extend`."""
        await (await self._run(run_id)).extend(seconds)

    async def signal(self, run_id: str, signal: str | int, tree: bool) -> None:
        """As `Run.signal`."""
        await (await self._run(run_id)).signal(signal, tree=tree)

    async def write_stdin(self, run_id: str, data: bytes) -> bool:
        """As `Run.write_stdin`."""
        return await (await self._run(run_id)).write_stdin(data)

    async def close_stdin(self, run_id: str) -> None:
        """As `Run.close_stdin`."""
        await (await self._run(run_id)).close_stdin()

    async def resize(self, run_id: str, rows: int, columns: int) -> None:
        """As `Run.resize`."""
        await (await self._run(run_id)).resize(rows, columns)

    async def _run(self, run_id: str) -> Run:
        await self._ready()
        if run_id in self._runs:
            return self._runs[run_id]
        if not self._state.has(run_id):
            raise RunNotFoundError(f"the node {self._host} has no such run", run_id=run_id)
        assert self._supervisor is not None
        run = await self._supervisor.adopt(run_id)
        if run_id not in self._runs:  # two heads may ask at once
            self._keep(run)
        return self._runs[run_id]

    def _forget(self, run_id: str) -> None:
        """Forget a run that is over, unless another supervisor follows it."""
        if self._stages.get(run_id) != SETTLED or any(
            run_id in mailbox.follows for mailbox in self._mailboxes.values()
        ):
            return
        self._stages.pop(run_id, None)
        run = self._runs.pop(run_id, None)
        if run is not None:
            run.close()

    def _news(self, run: Run) -> RunNews:
        report = {**run.report, "host": self._host}
        return RunNews(run.run_id, self._stages.get(run.run_id, 0), report, run.settle_bound_s, run.takes_input)
