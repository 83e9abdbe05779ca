"""Wire types of the HTTP API: they decode requests, encode answers, and are the schemas of the OpenAPI document.

Fields of the report whose words come from the journal are plain text: a newer guard may use words that are not listed
here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ....projections.report import report as project
from ....values.report import Cause, State, Status

MOST_LISTED = 1000
LONGEST_WAIT_S = 3600.0
LARGEST_OFFSET = 1 << 53  # JavaScript counts exactly up to here

Time = Annotated[str, Meta(description="RFC 3339, UTC", extra_json_schema={"format": "date-time"})]
Stream = Literal["all", "stdout", "stderr"]
Reason = Annotated[str, Meta(max_length=1000)]
Filter = Annotated[str, Meta(min_length=1, max_length=4096)]
Cursor = Annotated[str, Meta(pattern="^[0-9]{1,19}\\..", max_length=4096)]
Label = Annotated[str, Meta(pattern="^[^=]+=", max_length=1100, description="NAME=VALUE")]
Evidence = Annotated[
    dict[str, Any],
    Meta(
        description="One fact: `at_s` in seconds since the journal was begun, the kind of fact, and its details.",
        extra_json_schema={
            "required": ["at_s", "fact"],
            "properties": {"at_s": {"type": ["number", "null"]}, "fact": {"type": "string"}},
        },
    ),
]


class Output(msgspec.Struct):
    """Bytes of output by kind; null where they were not counted."""

    stdout_bytes: int | None
    stderr_bytes: int | None
    late_bytes: int | None
    dropped_bytes: int | None
    complete: bool | None


class Usage(msgspec.Struct):
    """Resources that the process tree used."""

    cpu_user_s: float | None
    cpu_system_s: float | None
    max_rss_bytes: int | None


class SpecInForce(msgspec.Struct):
    """The spec that was in force: limits, budgets and the directory; null where there is none. No environment."""

    cwd: str | None = None
    timeout_s: float | None = None
    max_timeout_s: float | None = None
    idle_timeout_s: float | None = None
    grace_s: float | None = None
    ladder: str | None = None
    stragglers: str | None = None
    lifetime: str | None = None
    memory_bytes: int | None = None
    pids: int | None = None
    cpu_time_s: float | None = None
    max_output_bytes: int | None = None
    on_max_output: str | None = None
    priority: int | None = None  # in the queue of a daemon


class QueuePlace(msgspec.Struct):
    """The place of a queued run. `position` is by priority and time, from 1; null: the run is about to start, or waits
    for what `waits_for` names before it has a place in the line.

    A run behind it may start earlier, when a key of this run has no free slot.
    """

    position: int | None
    priority: int
    waits_for: str


class Report(msgspec.Struct, kw_only=True):
    """A run as it is now. Unknown values are null; `status` and `cause` are null before the verdict."""

    run_id: str
    state: State | None
    name: str | None
    argv: list[str] | None
    session: str | None
    parent: str | None
    labels: dict[str, str]
    status: Status | None
    cause: str | None
    reason: str | None
    exit_code: int | None
    signal: int | None
    pid: int | None
    queued_at: Time | None
    started_at: Time | None
    verdict_at: Time | None
    exited_at: Time | None
    settled_at: Time | None
    duration_s: float | None
    escalated: bool | None
    containment: str | None
    tree: str | None
    survivors: list[int] | None
    stragglers: int | None
    output: Output
    usage: Usage
    evidence: list[Evidence]
    limit: str | None = None  # the budget that was spent: memory, processes, output, cpu
    host: str | None = None  # the name of the host on which it was started; null: queued, or not recorded
    ports: list[int] | None = None  # TCP ports on which it listens; null: not live, not looked for, or unknown
    waiting_for_input: bool | None = None  # blocked on reading its terminal or stdin pipe; null: not live, or unknown
    spec: SpecInForce | None = None  # null: the beginning of its journal cannot be read, or is of an old version
    queue: QueuePlace | None = None  # while it is queued; null: it is not
    problem: str | None = None  # why the record of this run cannot be read


def to_report(found: dict[str, Any]) -> Report:
    """The report as a wire type. A report with wrong types becomes an empty one with a `problem`; no list breaks."""
    try:
        return msgspec.convert(found, Report)
    except msgspec.ValidationError as error:
        problem = f"its journal holds a value of the wrong type: {error}"
        nothing = {**project(None, None, ()), "run_id": str(found.get("run_id")), "state": None, "problem": problem}
        return msgspec.convert(nothing, Report)


T = TypeVar("T")


def given(value: T | UnsetType) -> T | None:
    """The value of a parameter; None when it was not given."""
    return None if isinstance(value, UnsetType) else value


class RunPage(msgspec.Struct):
    """A page of runs, newest first; `cursor` leads to the next page and is null on the last one."""

    runs: list[Report]
    cursor: str | None


class EvidenceList(msgspec.Struct):
    """The facts of a run so far, in order."""

    run_id: str
    evidence: list[Evidence]


# A parameter that was not given is UNSET, not None: a query has no null, and `session=null` names a session.
class RunsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters for runs: any of the given states, statuses and causes, all of the given labels. `until` is exclusive."""

    session: Filter | UnsetType = UNSET
    parent: Filter | UnsetType = UNSET
    name: Filter | UnsetType = UNSET
    state: list[State] = []
    status: list[Status] = []
    cause: list[Cause] = []
    label: list[Label] = []
    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 50
    cursor: Cursor | UnsetType = UNSET


class WaitQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to wait for, and how long."""

    until: Literal["verdict", "settled"] = "verdict"
    timeout_s: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)] = 30.0


class OutputQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A range of output. `offset` counts bytes of the chosen stream; a negative one counts back from the end."""

    stream: Stream = "all"
    offset: Annotated[int, Meta(ge=-LARGEST_OFFSET, le=LARGEST_OFFSET)] = 0
    limit: Annotated[int, Meta(ge=0, le=LARGEST_OFFSET)] | UnsetType = UNSET
    follow: bool = False
    late: bool = False


class OutputFrame(msgspec.Struct, omit_defaults=True):
    """One piece of output: `offset` is its place in the chosen stream, `data` is base64.

    `missing_bytes`: so many bytes of this stream came before it and were not kept, because the output rolled.
    """

    stream: Annotated[str, Meta(extra_json_schema={"enum": ["stdout", "stderr"]})]
    offset: int
    at: Time | None
    late: bool
    data: bytes
    missing_bytes: int = 0


class Stop(msgspec.Struct, forbid_unknown_fields=True):
    """A stop: its reason, whether to go to the last rung of the ladder at once, and a grace of its own.

    `grace_s`: SIGKILL comes after this time at the latest. It never makes the grace of the run longer.
    """

    reason: Reason = ""
    now: bool = False
    grace_s: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class Input(msgspec.Struct, forbid_unknown_fields=True):
    """Input for stdin as text, or as bytes in base64; `eof` closes stdin after it."""

    text: str | None = None
    data: bytes | None = None
    eof: bool = False


class InputQuery(msgspec.Struct, forbid_unknown_fields=True):
    """`eof`: close stdin after the input in the body."""

    eof: bool = False


class Extend(msgspec.Struct, forbid_unknown_fields=True):
    """How many seconds to add to the deadline."""

    seconds: Annotated[float, Meta(gt=0, le=1e9)]


class SendSignal(msgspec.Struct, forbid_unknown_fields=True):
    """A signal by name or number, for the command or, with `tree`, for its whole process tree."""

    signal: Annotated[str, Meta(min_length=1, max_length=20)] | Annotated[int, Meta(ge=1, le=64)]
    tree: bool = False


class Resize(msgspec.Struct, forbid_unknown_fields=True):
    """The new size of the run's terminal."""

    rows: Annotated[int, Meta(ge=1, le=65535)]
    columns: Annotated[int, Meta(ge=1, le=65535)]


class Session(msgspec.Struct):
    """A session: how many of its runs are queued, live and ended, and whether it is closed."""

    name: str
    queued: int
    live: int
    ended: int
    closed: bool
    closed_at: Time | None
    reason: str | None


class SessionList(msgspec.Struct):
    """Every session that has runs or is closed."""

    sessions: list[Session]


class Closing(msgspec.Struct):
    """The result of closing a session: its runs whose tree is confirmed gone, has survivors, or is unknown."""

    session: str
    confirmed: list[str]
    survivors: list[str]
    unknown: list[str]
    problems: list[str]


class Opening(msgspec.Struct):
    """The result of opening a session again: it takes runs, and whether it was closed before."""

    session: str
    was_closed: bool


class Health(msgspec.Struct):
    """The state of the daemon. `runs`: how many are queued, starting, running and stopping, and the limits.

    `degraded`: the daemon works, but is short of something, which `reasons` names.
    """

    status: Literal["ok", "degraded", "draining"]
    reasons: list[str]
    version: str
    pid: int
    started_at: Time
    runs: dict[str, int]


class Delivery(msgspec.Struct):
    """A webhook delivery. Of its URL only the `origin` is shown, because the rest may be secret."""

    delivery_id: str
    state: str
    origin: str
    tries: int
    next_try_at: Time | None
    ended_at: Time | None
    last_error: str | None


class DeliveryList(msgspec.Struct):
    """The webhook deliveries of a run; empty when none was asked for."""

    run_id: str
    deliveries: list[Delivery]


class Finding(msgspec.Struct):
    """One finding of the doctor."""

    level: str
    topic: str
    what: str
    run_id: str | None
    pids: list[int]
    remedy: str | None
    needs_action: bool


class Repair(msgspec.Struct):
    """One repair that `holdfast doctor --reap` would make."""

    kind: str
    what: str
    run_id: str | None
    pids: list[int]
    path: str | None


class Doctor(msgspec.Struct):
    """The answer of `holdfast doctor --json`, and the state of the daemon."""

    healthy: bool
    findings: list[Finding]
    repairs: list[Repair]
    daemon: Health
