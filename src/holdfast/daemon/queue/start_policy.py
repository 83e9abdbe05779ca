"""The policy when a queued run starts: the rules and the file system may have changed since the run was posted.

Both judgements see the same `PostedRun`: HTTP makes the first when a client posts a run, and the scheduler the second.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ...access.policy_check import PostedRun, check_run
from ...values.ladder import default_ladder, parse_ladder
from . import queue_rows
from .submission import Submission

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...config import Config
    from ...values.spec import RunSpec
    from ..store.store import Store


class Submitter(NamedTuple):
    """The client that posted a run, as the policy sees it; `uid`: its user, if it came over the Unix socket."""

    role: str
    uid: int | None


class StartPolicy:
    """Judges queued runs by the rules that are in force now."""

    def __init__(self, store: Store, settings: Callable[[], Config]) -> None:
        self._store = store
        self._settings = settings

    async def allowed(self, spec: RunSpec) -> RunSpec:
        """The spec with the highest limits where its client named none.

        PolicyError: a rule refuses the run. StateError: its row cannot be read.
        """
        config = self._settings()
        if config.policy.is_empty:
            return spec  # without an await: a run that may start at once starts in the same turn of the loop
        row = await self._store.read(lambda connection: queue_rows.queued_run(connection, spec.run_id))
        if row is None or row.role is None:
            return spec
        submission = msgspec.json.decode(row.submission, type=Submission)
        posted = posted_run(submission, config, row.uid)
        added = await asyncio.to_thread(check_run, config.policy.rules(row.role), posted)
        if not added:
            return spec
        return msgspec.structs.replace(submission, **added).spec(spec.run_id, spec.queued_at)


def posted_run(submission: Submission, config: Config, uid: int | None) -> PostedRun:
    """The fields that the policy judges, with the daemon's defaults. SpecError: the ladder is wrong."""
    limits = {
        name: getattr(config, f"default_{name}", None)
        if getattr(submission, name) is None
        else getattr(submission, name)
        for name in ("timeout_s", "cpu_time_s", "memory_bytes", "pids", "max_output_bytes", "priority")
    }
    grace_s = config.default_grace_s if submission.grace_s is None else submission.grace_s
    ladder = default_ladder(grace_s) if submission.ladder is None else parse_ladder(submission.ladder, grace_s=grace_s)
    return PostedRun(
        argv=tuple(submission.argv),
        cwd=submission.cwd,
        stdin=submission.stdin,
        env=submission.env or {},
        env_keep=tuple(submission.env_keep or ()),
        env_drop=tuple(submission.env_drop or ()),
        container=submission.in_container,
        runtime=submission.container_runtime,
        user=uid,
        limits=limits,
        max_timeout_s=submission.max_timeout_s,
        ending_s=sum(rung.wait_s for rung in ladder),
        usual_grace_s=config.default_grace_s,
        stragglers=submission.stragglers,
    )
