"""What goes over the wire, each thing once: decoding, encoding and the OpenAPI document are made from these.

The report's words that come out of a journal stay plain text: a newer guard may know words that are not listed here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ....projections.report import report as project

MOST_LISTED = 1000
LONGEST_WAIT_S = 3600.0
LARGEST_OFFSET = 1 << 53  # what JavaScript still counts exactly

Time = Annotated[str, Meta(description="RFC 3339, UTC", extra_json_schema={"format": "date-time"})]
State = Literal["queued", "starting", "running", "stopping", "settled"]
Status = Literal["succeeded", "failed", "timed_out", "cancelled", "lost"]
CommandCause = Literal["exit", "signal", "spawn", "oom", "limit"]
TimerCause = Literal["deadline", "idle", "queue"]
StopCause = Literal["user", "shutdown", "parent", "session", "owner", "superseded"]
LostCause = Literal["guard", "host"]
Cause = Literal[CommandCause, TimerCause, StopCause, LostCause]
Stream = Literal["all", "stdout", "stderr"]
Reason = Annotated[str, Meta(max_length=1000)]
Filter = Annotated[str, Meta(min_length=1, max_length=4096)]
Cursor = Annotated[str, Meta(pattern="^[0-9]{1,19}\\..", max_length=4096)]
Label = Annotated[str, Meta(pattern="^[^=]+=", max_length=1100, description="NAME=VALUE")]
Evidence = Annotated[
    dict[str, Any],
    Meta(
        description="One fact: when (seconds since the journal was begun), which, and its details.",
        extra_json_schema={
            "required": ["at_s", "fact"],
            "properties": {"at_s": {"type": ["number", "null"]}, "fact": {"type": "string"}},
        },
    ),
]


class Output(msgspec.Struct):
    """Bytes of output; null where nobody counted."""

    stdout_bytes: int | None
    stderr_bytes: int | None
    late_bytes: int | None
    dropped_bytes: int | None
    complete: bool | None


class Usage(msgspec.Struct):
    """What the tree used."""

    cpu_user_s: float | None
    cpu_system_s: float | None
    max_rss_bytes: int | None


class Report(msgspec.Struct, kw_only=True):
    """A run as it is now. What is not known is null; `status` and `cause` are null before the verdict."""

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
    waiting_for_input: bool | None = None  # blocked reading its pty or stdin pipe; null: not live, or not known
    problem: str | None = None  # why there is no more to say, of a run whose record is broken


def to_report(found: dict[str, Any]) -> Report:
    """The report as it is sent. One whose journal makes no sense is a run with a problem, and never stops a list."""
    try:
        return msgspec.convert(found, Report)
    except msgspec.ValidationError as error:
        problem = f"what its journal says makes no sense: {error}"
        nothing = {**project(None, None, ()), "run_id": str(found.get("run_id")), "state": None, "problem": problem}
        return msgspec.convert(nothing, Report)


T = TypeVar("T")


def given(value: T | UnsetType) -> T | None:
    """A parameter, None when it was not given."""
    return None if isinstance(value, UnsetType) else value


class RunPage(msgspec.Struct):
    """Some of the runs, newest first; `cursor` continues after them and is null at the end."""

    runs: list[Report]
    cursor: str | None


class EvidenceList(msgspec.Struct):
    """The facts so far, in order."""

    run_id: str
    evidence: list[Evidence]


# Parameters that were not given are UNSET and not None: a parameter has no null, and `session=null` is a session.
class RunsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which runs; of several statuses, causes or states one must fit, of several labels all. `until` is exclusive."""

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
    """What to wait for, and for how long."""

    until: Literal["verdict", "settled"] = "verdict"
    timeout_s: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)] = 30.0


class OutputQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which bytes. `offset` counts the bytes of the chosen stream; one below 0 counts back from the end."""

    stream: Stream = "all"
    offset: Annotated[int, Meta(ge=-LARGEST_OFFSET, le=LARGEST_OFFSET)] = 0
    limit: Annotated[int, Meta(ge=0, le=LARGEST_OFFSET)] | UnsetType = UNSET
    follow: bool = False
    late: bool = False


class OutputFrame(msgspec.Struct):
    """One piece of output: `offset` is where it begins in what was asked for, `data` is base64."""

    stream: Annotated[str, Meta(extra_json_schema={"enum": ["stdout", "stderr"]})]
    offset: int
    at: Time | None
    late: bool
    data: bytes


class Stop(msgspec.Struct, forbid_unknown_fields=True):
    """Why, and whether to go to the last rung at once."""

    reason: Reason = ""
    now: bool = False


class Input(msgspec.Struct, forbid_unknown_fields=True):
    """Text for stdin, or bytes in base64; then perhaps its end."""

    text: str | None = None
    data: bytes | None = None
    eof: bool = False


class InputQuery(msgspec.Struct, forbid_unknown_fields=True):
    """For a body that is the input itself."""

    eof: bool = False


class Extend(msgspec.Struct, forbid_unknown_fields=True):
    """How much later the deadline shall be."""

    seconds: Annotated[float, Meta(gt=0, le=1e9)]


class SendSignal(msgspec.Struct, forbid_unknown_fields=True):
    """Which signal, by name or number; to the command, or to all of the tree."""

    signal: Annotated[str, Meta(min_length=1, max_length=20)] | Annotated[int, Meta(ge=1, le=64)]
    tree: bool = False


class Resize(msgspec.Struct, forbid_unknown_fields=True):
    """The size of the run's terminal."""

    rows: Annotated[int, Meta(ge=1, le=65535)]
    columns: Annotated[int, Meta(ge=1, le=65535)]


class Session(msgspec.Struct):
    """A session: how many of its runs wait, live and have ended, and whether it takes more."""

    name: str
    queued: int
    live: int
    ended: int
    closed: bool
    closed_at: Time | None
    reason: str | None


class SessionList(msgspec.Struct):
    """Every session with runs or a closing mark."""

    sessions: list[Session]


class Closing(msgspec.Struct):
    """What closing did: the runs whose tree is confirmed gone, has survivors, or is unknown."""

    session: str
    confirmed: list[str]
    survivors: list[str]
    unknown: list[str]
    problems: list[str]


class Health(msgspec.Struct):
    """How the daemon is. `runs`: how many are queued, starting, running and stopping, and the bounds."""

    status: str
    version: str
    pid: int
    started_at: Time
    runs: dict[str, int]


class Delivery(msgspec.Struct):
    """How a webhook stands: waiting for the verdict, pending, delivered or failed. Its address may hold a secret."""

    delivery_id: str
    state: str
    origin: str
    tries: int
    next_try_at: Time | None
    ended_at: Time | None
    last_error: str | None


class DeliveryList(msgspec.Struct):
    """The deliveries of a run; none when nobody asked for one."""

    run_id: str
    deliveries: list[Delivery]


class Finding(msgspec.Struct):
    """One thing that was looked at."""

    level: str
    topic: str
    what: str
    run_id: str | None
    pids: list[int]
    remedy: str | None
    needs_action: bool


class Repair(msgspec.Struct):
    """What `holdfast doctor --reap` would do."""

    kind: str
    what: str
    run_id: str | None
    pids: list[int]
    path: str | None


class Doctor(msgspec.Struct):
    """What `holdfast doctor --json` says, and how the daemon is."""

    healthy: bool
    findings: list[Finding]
    repairs: list[Repair]
    daemon: Health
