"""The output feed: output of live runs as run.output events, while a client listens to them.

The feed reads the journals, so it never holds up a run. A run can write a gigabyte a second. So one turn gives a
bounded number of bytes, there is a pause between two turns, and when the journal is far ahead the feed skips to its
end. The offset of the next event then shows the gap, and the bytes are in the journal.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from ..journal.reader import JournalReader
from ..state import run_directory
from ..values.errors import HoldfastError

if TYPE_CHECKING:
    from ..state.directory import StateDirectory
    from .engines.engine import EngineRun
    from .events.event_log import EventLog
    from .queue.scheduled_run import ScheduledRun
    from .queue.scheduler import Scheduler

_LOOK_S = 0.2  # how soon a client that begins to listen is served
_AT_ONCE = 256 << 10
_TURN_S = 0.02
_TOO_FAR = 4 << 20  # bytes of the journal that are skipped instead of read


class OutputFeed:
    """Feeds output to the event log. One task looks for listeners; each run that has one gets a task of its own."""

    def __init__(self, state: StateDirectory, scheduler: Scheduler, events: EventLog) -> None:
        self._state = state
        self._scheduler = scheduler
        self._events = events
        self._fed: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for listeners."""
        self._looking = asyncio.create_task(self._look(), name="output feed")

    async def stop(self) -> None:
        """Stop feeding."""
        tasks = [*self._fed.values(), *([] if self._looking is None else [self._looking])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, scheduled: ScheduledRun) -> None:
        """Feed the output of a run that has just started, from its beginning, if a client listens already."""
        self._feed(scheduled, from_begin=True)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._events.wants_output():
                for scheduled in list(self._scheduler.runs.values()):
                    self._feed(scheduled, from_begin=False)

    def _feed(self, scheduled: ScheduledRun, *, from_begin: bool) -> None:
        run_id, run = scheduled.run_id, scheduled.run
        if run is None or run_id in self._fed or not self._events.wants_output(run_id):
            return
        task = asyncio.create_task(self._follow(run, from_begin=from_begin), name=f"output of {run_id}")
        self._fed[run_id] = task
        task.add_done_callback(lambda _: self._fed.pop(run_id, None))

    async def _follow(self, run: EngineRun, *, from_begin: bool) -> None:
        try:
            journal = run_directory.open_journal(self._state.run_path(run.run_id))
        except OSError:
            return  # pruned
        try:
            reader = JournalReader(journal, run_id=run.run_id)
            if not from_begin:
                reader.scan()
            goes_on = True
            while self._events.wants_output(run.run_id):
                if os.fstat(journal).st_size - reader.position > _TOO_FAR:
                    await asyncio.to_thread(reader.scan)
                elif self._give(reader, run.run_id):
                    await asyncio.sleep(_TURN_S)
                elif goes_on:
                    goes_on = await run.more_output(reader.position)
                else:
                    break
        except HoldfastError:
            pass  # the journal cannot be read; the scheduler logs that
        finally:
            os.close(journal)

    def _give(self, reader: JournalReader, run_id: str) -> bool:
        offsets = {"stdout": reader.stdout_bytes, "stderr": reader.stderr_bytes}
        chunks = reader.read(_AT_ONCE)
        session = (reader.spec or {}).get("session")
        for chunk in chunks:
            self._events.output(run_id, session, chunk.stream, offsets[chunk.stream], chunk.data, late=chunk.late)
            offsets[chunk.stream] += len(chunk.data)
        return bool(chunks)
