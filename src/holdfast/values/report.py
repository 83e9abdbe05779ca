"""The types of a report: `Status`, `Cause` and `State` are literals, and `Report` is a TypedDict.

A misspelt status or field is an error for a type checker. `tests/values/test_report.py` holds these types to the schema
of the sidecar, which describes the report for every language. Nothing of `holdfast run` imports this module.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

State = Literal["queued", "starting", "running", "stopping", "settled"]
Status = Literal["succeeded", "failed", "timed_out", "cancelled", "lost"]
CommandCause = Literal["exit", "signal", "spawn", "oom", "limit"]
TimerCause = Literal["deadline", "idle", "queue"]
StopCause = Literal["user", "shutdown", "parent", "session", "owner", "superseded"]
LostCause = Literal["guard", "host", "unseen"]
Cause = Literal[CommandCause, TimerCause, StopCause, LostCause]
# None is possible, and a type checker does not ask for a check at each use: most callers know that the run is over.
MaybeNone: TypeAlias = Any


class OutputCounts(TypedDict):
    """Bytes of output by kind; None where they were not counted."""

    stdout_bytes: int | MaybeNone
    stderr_bytes: int | MaybeNone
    late_bytes: int | MaybeNone
    dropped_bytes: int | MaybeNone
    complete: bool | MaybeNone


class Usage(TypedDict):
    """Resources that the process tree used; None where nobody saw them."""

    cpu_user_s: float | MaybeNone
    cpu_system_s: float | MaybeNone
    max_rss_bytes: int | MaybeNone


class SpecInForce(TypedDict):
    """The spec that was in force, without the environment; None where nothing was set."""

    cwd: str | None
    timeout_s: float | None
    max_timeout_s: float | None
    idle_timeout_s: float | None
    grace_s: float | None
    ladder: str | None
    stragglers: str | None
    lifetime: str | None
    memory_bytes: int | None
    pids: int | None
    cpu_time_s: float | None
    max_output_bytes: int | None
    on_max_output: str | None
    priority: int | None


class Report(TypedDict):
    """A run as it is now. Unknown values are None; `status` and `cause` are None before the verdict."""

    run_id: str
    state: State
    name: str | MaybeNone
    argv: list[str] | MaybeNone
    session: str | MaybeNone
    parent: str | MaybeNone
    labels: dict[str, str]
    status: Status | None
    cause: Cause | None
    reason: str | MaybeNone
    exit_code: int | MaybeNone
    signal: int | MaybeNone
    limit: Literal["memory", "processes", "output", "cpu"] | None
    pid: int | MaybeNone
    host: str | MaybeNone
    ports: list[int] | MaybeNone
    queued_at: str | MaybeNone
    started_at: str | MaybeNone
    verdict_at: str | MaybeNone
    exited_at: str | MaybeNone
    settled_at: str | MaybeNone
    duration_s: float | MaybeNone
    escalated: bool
    containment: str | MaybeNone
    tree: Literal["gone", "survivors", "unknown"]
    survivors: list[int] | MaybeNone
    stragglers: int | MaybeNone
    output: OutputCounts
    usage: Usage
    spec: SpecInForce | None
    evidence: list[dict[str, Any]]
