"""One run of a supervisor: read what is known of it, wait for it, send requests to it. Only `Supervisor` makes one."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from ..guard.conversation import extension_refused
from ..proc.input_wait import Stdin
from ..values.durations import parse_duration
from ..values.errors import HoldfastError, RequestError, SpecError
from ..values.signals import parse_signal
from .live import CHUNKS_BYTES
from .output import RunOutput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import Any

    from ..journal.facts import Fact
    from ..outcome import Outcome
    from ..proc.run_tree import RunTree
    from ..values.fields import Duration
    from ..values.report import Cause, Report, State, Status
    from .live import LiveRun
    from .progress import Progress
    from .result import Result
    from .watched_run import WatchedRun

_END_OF_FILE = b"\x04"
_FIRST_PAUSE_S = 0.002
_LAST_PAUSE_S = 0.1


class Run:
    """A run, live or over. What is known of it stays known when the supervisor's block has ended."""

    __slots__ = ("__weakref__", "_is_streamed", "_live", "_watched", "_writing", "ends_with_us", "run_id")

    def __init__(self, watched: WatchedRun) -> None:
        self.run_id = watched.live.spec.run_id
        self._watched = watched
        self._live = watched.live
        self._writing: anyio.Lock | None = None
        self._is_streamed = False
        self.ends_with_us = self._live.spec.lifetime == "owner"

    def __repr__(self) -> str:
        outcome = self._live.outcome
        verdict = "" if outcome.status is None else f" {outcome.status}/{outcome.cause}"
        return f"<Run {self.run_id} {outcome.state}{verdict}>"

    # What is known now.

    @property
    def outcome(self) -> Outcome:
        """The outcome as recorded up to this moment, also when the event loop was blocked."""
        return self._up_to_date().outcome

    @property
    def state(self) -> State:
        """`starting`, `running`, `stopping` or `settled`."""
        return self.outcome.state

    @property
    def status(self) -> Status | None:
        """The status of the outcome; None before the verdict."""
        return self.outcome.status

    @property
    def cause(self) -> Cause | None:
        """The cause of the outcome; None before the verdict."""
        return self.outcome.cause

    @property
    def pid(self) -> int | None:
        """The command's process id; None before its start. To signal it use `signal`: the number may be reused."""
        started = self.outcome.started
        return None if started is None else int(started.detail["pid"])

    @property
    def guard_pid(self) -> int:
        """The process id of this run's guard."""
        return self._live.guard_pid

    @property
    def sentinel_pid(self) -> int:
        """The process id of the sentinel above this run's guard; 0 when another process started the run."""
        return self._live.sentinel_pid

    @property
    def settle_bound_s(self) -> float:
        """How long the run may take from the request to stop until it is settled, when its guard is well."""
        return self._live.settle_bound_s()

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The evidence so far, in order."""
        return self._up_to_date().facts

    @property
    def report(self) -> Report:
        """The report as of now, ready for JSON."""
        made: Any = self._up_to_date().report()
        report: Report = made
        return report

    @property
    def waiting_for_input(self) -> bool | None:
        """Whether the command is blocked reading its pty or stdin pipe now; None when that cannot be known."""
        return self.input.is_waited_for()

    @property
    def ports(self) -> list[int] | None:
        """The TCP ports on which the run listens now; None when it is not live, or they cannot be known."""
        return self.tree.ports()

    @property
    def tree(self) -> RunTree:
        """The live processes of the run."""
        return self._up_to_date().tree

    @property
    def takes_input(self) -> bool:
        """Whether the run was started with a pty or a stdin pipe. This does not read the journal."""
        return self._live.spec.pty or self._live.spec.stdin == "pipe"

    @property
    def input(self) -> Stdin:
        """What the command reads: a pty, a pipe, or nothing of ours."""
        live = self._up_to_date()
        return Stdin.of(live.reader.header, live.reader.spec, live.outcome)

    # Waiting.

    async def wait(self) -> Outcome:
        """Wait for the verdict and return the outcome. The tree may live on for a while. JournalError as `settled`."""
        if self._live.outcome.status is not None:
            await checkpoint()
        while self._live.outcome.status is None and not self._live.ended:
            await self._watched.changed()
        return self._live.outcome

    async def settled(self) -> Report:
        """Wait until the run is settled and return the final report. JournalError: the journal cannot be read."""
        await self._until_settled()
        return self.report

    async def result(self) -> Result:
        """Wait until the run is settled and return outcome, output and report. JournalError as `settled`."""
        await self._until_settled()
        self._live.check_open()
        reader = self._live.reader
        if not self._live.windowed and reader.stdout_bytes + reader.stderr_bytes > CHUNKS_BYTES:
            return await anyio.to_thread.run_sync(self._live.result)  # a thread: copying a gigabyte takes a second
        return self._live.result()

    async def started(self) -> None:
        """Wait until the command was started, or never will be. JournalError as `settled`."""
        await checkpoint()
        pause_s = _FIRST_PAUSE_S
        while self._up_to_date().outcome.started is None and self._live.outcome.status is None and not self._live.ended:
            # A guard does not wake the owner of an ephemeral run for its start, so we look again by ourselves.
            with anyio.move_on_after(pause_s):
                await self._watched.changed()
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def ready(self, timeout: Duration | None = None) -> None:  # noqa: ASYNC109 - as `AsyncClient.wait`
        """Wait until all conditions hold that the run was started with (`ready=`).

        NotReadyError: the run ended before, or `timeout` has passed, and the run goes on; or it has no condition.
        JournalError as `settled`.
        """
        from .ready_wait import wait_ready

        within_s = None if timeout is None else parse_duration(timeout, field="timeout")
        await wait_ready(self._live, self._watched, within_s)

    async def more_output(self, seen: int) -> bool:
        """Wait until the journal may hold more than `seen` bytes, or anything else changed; False at the end.

        For a caller with its own journal reader: read, wait, read again; after False read once more.
        """
        await checkpoint()
        live = self._live
        if live.ended:
            return False
        live.arm_output(seen)
        live.refresh()  # after arming: the guard wakes nobody for what it recorded before
        if live.reader.position <= seen and not live.ended:
            await self._watched.changed()
        return not live.ended

    def output(self, *, late: bool = False) -> RunOutput:
        """The output as it comes, from the beginning, also when the run is over.

        With `late`, the output after the verdict as well. HoldfastError: the run was closed; or it was started with
        `keep_output=False` and has a consumer already.
        """
        self._live.check_open()
        if self._live.windowed and self._is_streamed:
            remedy = "start it with keep_output=True to read it more than once"
            raise HoldfastError("the output has a consumer already", run_id=self.run_id, remedy=remedy)
        self._is_streamed = True
        return RunOutput(self._watched, late=late)

    def lines(self, stream: str = "stdout", *, encoding: str = "utf-8") -> AsyncIterator[str]:
        """The lines of one stream as text, as they come, without line ends. Fails as `output` does."""
        from .lines import lines_of

        return lines_of(self.output(), stream, encoding)

    def progress(self, every: Duration = 1.0) -> AsyncIterator[Progress]:
        """What the run has done so far: now, after each interval, and when it is settled."""
        from .progress import progress_of

        return progress_of(self, every)

    # Asking.

    async def cancel(
        self, reason: str = "", *, cause: str = "user", now: bool = False, grace: Duration | None = None
    ) -> None:
        """Ask the run to end and return when that is recorded. `now` kills at once, `grace` after this time at most.

        A run that is ending already keeps its grace, and the request is only recorded; a shorter `grace` shortens what
        is left of it. Does nothing when the run is over. RequestError when the guard does not take the request.
        HoldfastError when the supervisor was left, and the run goes on without it: another one may adopt it.
        """
        if self._live.ended:
            await checkpoint()
            return
        try:
            await self._watched.answered(self._live.ask_stop(cause, reason, now=now, grace=grace))
        except RequestError as error:
            if error.errno != errno.ESRCH:  # ESRCH: it is over, or about to end
                raise
            if not self._live.ended:
                self._watched.check()  # or nobody here is connected to its guard any more

    async def extend(self, seconds: Duration) -> None:
        """Move the deadline by this much. RequestError: it has passed, there is none, or the ceiling is lower."""
        try:
            await self._watched.done(lambda: self._live.ask_extend(seconds))
        except RequestError as error:
            raise extension_refused(error) from None

    async def signal(self, signal: str | int, *, tree: bool = False) -> None:
        """Send one signal to the command, or to every process of the run. RequestError: the run is over."""
        try:
            number = parse_signal(signal)
        except SpecError as error:
            raise SpecError(error.message, field=error.field, run_id=self.run_id, remedy=error.remedy) from None
        await self._watched.done(lambda: self._live.ask_signal(number, tree=tree))

    async def write_stdin(self, data: bytes) -> bool:
        """Write to the command's stdin and return when all is written; False when we or the command have closed it.

        RequestError when the run has no stdin to write to.
        """
        await checkpoint()
        live = self._live
        if live.spec.stdin != "pipe":
            raise live.refused("has no stdin to write to", errno.EBADF, 'start it with stdin="pipe"')
        if self._writing is None:
            self._writing = anyio.Lock()
        left = memoryview(data)
        async with self._writing:  # the pieces of two writers are not mixed
            while left:
                written = live.write_input(left)
                if written is None:
                    return False
                left = left[written:]
                if left and not await self._room_in_stdin():
                    return False
        return True

    async def close_stdin(self) -> None:
        """End the command's stdin; on a terminal this types the end-of-file character. Twice does no harm."""
        if self._live.spec.pty:
            await self.write_stdin(_END_OF_FILE)
            return
        await checkpoint()
        self._watched.close_stdin()
        if self._live.spec.lifetime != "owner" and not self._live.ended:
            try:
                await self._watched.answered(self._live.ask_close_input())
            except RequestError as error:
                # The run is over, or its stdin was closed before: that is what the caller wants.
                if self._live.spec.stdin != "pipe" or error.errno not in (errno.ESRCH, errno.ENOENT):
                    raise

    async def resize(self, rows: int, columns: int) -> None:
        """Tell the run's terminal its size. RequestError: the run has no terminal, or the terminal is gone."""
        await checkpoint()
        self._live.resize(rows, columns)

    def close(self) -> None:
        """Close the descriptors of a settled run. The outcome stays. HoldfastError: the run is not settled."""
        if not self._live.ended and not self._watched.has_failed:
            raise HoldfastError("the run is not settled", run_id=self.run_id, remedy="cancel it and await settled()")
        self._live.close_journal()  # the other descriptors are closed, or stay with the poller until it reaps the guard

    def start_task(self, task: Callable[..., Coroutine[Any, Any, None]], *arguments: object, name: str) -> None:
        """Start a task in the supervisor's task group: it outlives the caller's scope and ends with the supervisor."""
        self._watched.group.start_soon(task, *arguments, name=name)

    async def take_input(self) -> None:
        """Get the command's stdin or terminal from the guard of an adopted run, if the guard has it."""
        live = self._live
        if live.ended or live.spec.stdin != "pipe":
            return
        try:
            await self._watched.answered(live.ask_input())
        except RequestError:
            pass  # it was closed, or the run is over: a later write says that there is nothing to write to

    async def _room_in_stdin(self) -> bool:
        """Wait until stdin takes more; False when it was closed meanwhile."""
        try:
            await anyio.wait_writable(self._live.input)
        except anyio.ClosedResourceError:
            return False
        return True

    def _up_to_date(self) -> LiveRun:
        if not self._live.ended and self._live.journal >= 0:
            self._live.refresh()
        return self._live

    async def _until_settled(self) -> None:
        if self._live.ended:
            await checkpoint()
        while not self._live.ended:
            await self._watched.changed()
