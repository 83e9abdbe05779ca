"""A gang: runs that are placed together, all or none, and end together.

Ray reserves the resources of all members in one step. When a member ends otherwise than by success, the others are
ended, because they would wait for it. The supervisor sees to that, so a gang does not outlive its supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from ..values.errors import HoldfastError, SpecError

if TYPE_CHECKING:
    from ..outcome import Outcome
    from ..values.fields import Duration
    from ..values.options import SpecOptions
    from .remote_run import RemoteRun

RANK, SIZE = "HOLDFAST_GANG_RANK", "HOLDFAST_GANG_SIZE"  # in the environment of each member
LABEL = "gang"  # the label of each member, with the id of the gang
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def check_gang(size: int, strategy: str, options: SpecOptions) -> None:
    """Refuse a gang that cannot be. SpecError names the option."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise SpecError(f"size is {size!r}", field="size", remedy="give a whole number of members, at least 1")
    if strategy not in _STRATEGIES:
        raise SpecError(f"strategy is {strategy!r}", field="strategy", remedy=f"use one of {', '.join(_STRATEGIES)}")
    if options.get("run_id") is not None:
        raise SpecError("a gang has one id for each member", field="run_id", remedy="leave it out")
    if options.get("lifetime", "owner") != "owner":
        remedy = "leave lifetime out: the supervisor keeps the members together"
        raise SpecError("a gang ends with its supervisor", field="lifetime", remedy=remedy)


def member_options(options: SpecOptions, gang_id: str, rank: int, size: int) -> SpecOptions:
    """The options of one member: with its rank and the size in the environment, and the gang's id as a label."""
    own: SpecOptions = {**options}
    own["env"] = {**(options.get("env") or {}), RANK: str(rank), SIZE: str(size)}
    own["labels"] = {**(options.get("labels") or {}), LABEL: gang_id}
    return own


class Gang:
    """The members of a gang, by rank."""

    def __init__(self, gang_id: str, runs: tuple[RemoteRun, ...]) -> None:
        self.gang_id = gang_id
        self.runs = runs

    def __repr__(self) -> str:
        return f"<Gang {self.gang_id} of {len(self.runs)}>"

    async def wait(self) -> tuple[Outcome, ...]:
        """Wait for the verdict of every member."""
        return tuple(await asyncio.gather(*(run.wait() for run in self.runs)))

    async def settled(self) -> tuple[dict[str, Any], ...]:
        """Wait until every member is settled, or its node is lost, and return the final reports."""
        return tuple(await asyncio.gather(*(run.settled() for run in self.runs)))

    async def gone(self) -> None:
        """Wait until no process of any member can be alive."""
        await asyncio.gather(*(run.gone() for run in self.runs))

    async def cancel(
        self, reason: str = "", *, cause: str = "user", now: bool = False, grace: Duration | None = None
    ) -> None:
        """Ask every member to end. A member whose node does not answer is left to its lease."""
        await asyncio.gather(*(_cancel(run, reason, cause, now, grace) for run in self.runs))

    async def keep_together(self) -> None:
        """End all members when one did not succeed; return when all are settled."""
        waiting = {asyncio.ensure_future(run.wait()): run for run in self.runs}
        try:
            for done in asyncio.as_completed(waiting):
                outcome = await done
                if outcome.status != "succeeded":
                    reason = f"a member of the gang {self.gang_id} ended as {outcome.status}/{outcome.cause}"
                    await self.cancel(reason, cause="session")
                    break
            await self.settled()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def _cancel(run: RemoteRun, reason: str, cause: str, now: bool, grace: Duration | None) -> None:
    with contextlib.suppress(HoldfastError):
        await run.cancel(reason, cause=cause, now=now, grace=grace)
