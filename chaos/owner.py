"""`python -m chaos.owner live|supervisor STATE`: start the runs that come on stdin, and print what happens to each.

`ready` is its first word. One JSON line per run comes in; `begun ID GUARD_PID`, then `settled ID STATUS CAUSE EXIT_CODE
SIGNAL` go out, or `refused ID WHY`, or `error ID WHY`. Ends when stdin does and its runs are settled; or when it is
killed.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import TYPE_CHECKING, Any

from holdfast.runs.durable import start_durable
from holdfast.runs.guard_watch import ms_until, watch
from holdfast.runs.live import LiveRun
from holdfast.state.directory import StateDirectory
from holdfast.values.errors import HoldfastError, SessionClosedError
from holdfast.values.spec_cache import new_spec

if TYPE_CHECKING:
    from holdfast.outcome import Outcome


def say(*words: object) -> None:
    """One line to the driver, at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def tell(run_id: str, outcome: Outcome) -> None:
    """Print how a run ended, as this owner sees it."""
    say("settled", run_id, outcome.status, outcome.cause, outcome.exit_code, outcome.signal)


class Owner:
    """An owner without a scheduler: one poll loop for all its runs."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)
        self.runs: dict[int, LiveRun] = {}
        self.is_open = True
        self.rest = b""

    def run(self) -> None:
        """Run until stdin is closed and no run is left."""
        while self.is_open or self.runs:
            looks = [live.watchdog.next_at for live in self.runs.values()]
            for fd, _events in self.poll.poll(ms_until(min(looks)) if looks else None):
                if fd == 0:
                    self._take_orders()
                else:
                    self._look(fd)
            for fd, live in list(self.runs.items()):
                if watch(live):
                    self._end(fd)

    def _take_orders(self) -> None:
        data = os.read(0, 1 << 16)
        if not data:
            self.is_open = False
            self.poll.unregister(0)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self._start(json.loads(line))

    def _start(self, order: dict[str, Any]) -> None:
        run_id = order["options"]["run_id"]
        try:
            live = start_durable(self.state, new_spec(order["argv"], order["options"]))
        except SessionClosedError as error:
            say("refused", run_id, error)
            return
        except HoldfastError as error:
            say("error", run_id, error)
            return
        say("begun", run_id, live.guard_pid)
        self.runs[live.control.fileno()] = live
        self.poll.register(live.control.fileno(), select.POLLIN)

    def _look(self, fd: int) -> None:
        live = self.runs[fd]
        live.hear_guard()
        if live.ended:
            self._end(fd)

    def _end(self, fd: int) -> None:
        live = self.runs.pop(fd)
        self.poll.unregister(fd)
        tell(live.spec.run_id, live.outcome)
        live.reap(wait=True)
        live.close()


async def supervise(state_path: str) -> None:
    """The same work with a Supervisor: one task for each run."""
    import anyio

    from holdfast import Supervisor

    async def one(supervisor: Supervisor, order: dict[str, Any]) -> None:
        run_id = order["options"]["run_id"]
        try:
            run = await supervisor.start(order["argv"], **order["options"])
        except SessionClosedError as error:
            say("refused", run_id, error)
            return
        except HoldfastError as error:
            say("error", run_id, error)
            return
        say("begun", run_id, run.guard_pid)
        await run.settled()
        tell(run_id, run.outcome)
        run.close()

    async with Supervisor(state_dir=state_path) as supervisor, anyio.create_task_group() as group:
        rest = b""
        say("ready")
        while True:
            await anyio.wait_readable(0)
            data = os.read(0, 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                group.start_soon(one, supervisor, json.loads(line))


def main() -> None:
    """Be the owner that the arguments describe."""
    how, state_path = sys.argv[1:]
    if how == "live":
        owner = Owner(StateDirectory.open(state_path))
        say("ready")
        owner.run()
        return
    import anyio

    anyio.run(supervise, state_path)


if __name__ == "__main__":
    main()
