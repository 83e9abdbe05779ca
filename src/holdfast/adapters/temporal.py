"""Temporal: a command in an activity, which heartbeats, cancels, and is found again. Needs the extra `temporal`.

```python
@activity.defn
async def build() -> CommandEnd:
    return await run_in_activity(["make", "all"], state_dir="/var/lib/worker/runs", timeout="1h")
```

The run belongs to the activity and not to the worker. If the worker is restarted or killed, the run goes on, with its
own clocks; the next attempt on this host adopts it and gets its result. Only an attempt that finds no run, or one that
did not succeed, starts the command. So a command that succeeded is not run twice because a worker died in between.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import anyio
from temporalio import activity

from ..runs.supervisor import Supervisor
from ..values.errors import RunNotFoundError
from .command_end import CommandEnd, end_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from ..runs.run import Run
    from ..values.options import SpecOptions

__all__ = ["CommandEnd", "run_in_activity"]

_HEARTBEAT_S = 10.0


async def run_in_activity(argv: Sequence[str], *, state_dir: str, **options: Unpack[SpecOptions]) -> CommandEnd:
    """Run a command as the current activity, or go on with the run of an earlier attempt. The options are of a run.

    A cancelled activity ends the run by its ladder. A worker that shuts down leaves it to the next attempt: give a
    `timeout`, so that a run nobody comes back for ends, too.
    """
    async with Supervisor(state_dir=state_dir) as supervisor:
        run = await _adopt(supervisor)
        if run is None:
            here: SpecOptions = {**options, "run_id": _run_id(activity.info().attempt), "lifetime": "detached"}
            run = await supervisor.start(argv, **here)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_beat, run)
                result = await run.result()
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            if not _worker_leaves():
                with anyio.CancelScope(shield=True):
                    await run.cancel("the activity was cancelled")
                    await run.settled()
            raise
    return end_of(result)


async def _adopt(supervisor: Supervisor) -> Run | None:
    """The run of the latest attempt that started one, if it still runs or has succeeded."""
    for attempt in range(activity.info().attempt, 0, -1):
        try:
            run = await supervisor.adopt(_run_id(attempt))
        except RunNotFoundError:
            continue
        return run if run.status in (None, "succeeded") else None
    return None


def _run_id(attempt: int) -> str:
    """The id of the run that an attempt starts: the same on every worker, and different for every activity."""
    info = activity.info()
    name = "\0".join((info.namespace, info.workflow_id or "", info.workflow_run_id or "", info.activity_id))
    return f"temporal-{hashlib.sha256(name.encode()).hexdigest()[:32]}-{attempt}"


async def _beat(run: Run) -> None:
    """Heartbeat three times in each heartbeat timeout, so that a cancellation arrives, too."""
    timeout = activity.info().heartbeat_timeout
    every_s = _HEARTBEAT_S if timeout is None else timeout.total_seconds() / 3
    while True:
        activity.heartbeat({"run_id": run.run_id, "state": run.state})
        await anyio.sleep(every_s)


def _worker_leaves() -> bool:
    details = activity.cancellation_details()
    return details is not None and details.worker_shutdown
