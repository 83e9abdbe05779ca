"""Every request of a client as a value: what is sent, and how long the answer may take.

The blocking and the asynchronous client send the same values and differ only in how they wait.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict
from urllib.parse import quote

from ..values.durations import parse_duration
from ..values.errors import RunNotFoundError, SpecError
from ..values.run_id import check_run_id
from .answers import Page, Report
from .posting import posted

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from ..values.fields import Duration, Text
    from .posting import SubmitOptions

Stream = Literal["stdout", "stderr", "all"]
Until = Literal["verdict", "settled"]
SLICE_S = 20.0  # one long poll; the client asks again after it, so that it notices a daemon that is gone
_PAGE = 500
QUIET_S = 60.0  # the daemon writes to an event stream more often than this


class ClientCall(NamedTuple):
    """One request. `repeats`: sending it twice does no harm. `patience_s`: how long the daemon may wait on purpose."""

    method: str
    path: str
    params: Mapping[str, Any] = {}
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = {}
    patience_s: float | None = 0.0
    repeats: bool = True


class RunFilters(TypedDict, total=False):
    """Which runs to list. A run must have every given label and, for each other filter, one of the given values."""

    state: str | Iterable[str]
    status: str | Iterable[str]
    cause: str | Iterable[str]
    session: str
    parent: str
    name: str
    label: str | Iterable[str]
    since: str
    until: str


class EventFilters(TypedDict, total=False):
    """Which events to send. `output` adds `run.output` with the bytes; `late` adds output after the verdict."""

    types: str | Iterable[str]
    run_id: str
    session: str
    output: bool
    late: bool


def submit(argv: Sequence[Text], options: SubmitOptions, idempotency_key: str | None) -> ClientCall:
    """Post a run. SpecError: an option is wrong, and nothing is sent."""
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    repeats = idempotency_key is not None
    return ClientCall("POST", "/v1/runs", json=posted(argv, options), headers=headers, repeats=repeats)


def about(run_id: str, what: str = "") -> ClientCall:
    """Get the report of a run, or its `evidence`."""
    return ClientCall("GET", _run(run_id, what))


def listing(filters: RunFilters, cursor: str | None, limit: int | None) -> ClientCall:
    """Get a page of the runs."""
    given: dict[str, Any] = {**filters, "cursor": cursor, "limit": limit}
    lists = {
        name: value if isinstance(value, (str, int)) else list(value)
        for name, value in given.items()
        if value is not None
    }
    return ClientCall("GET", "/v1/runs", lists)


def page_of(answer: dict[str, Any]) -> Page:
    """The page in an answer."""
    return Page(answer["runs"], answer.get("cursor"))


def all_pages(filters: RunFilters) -> Generator[ClientCall, dict[str, Any], list[Report]]:
    """Get page after page, and return the runs of all pages."""
    return (yield from some_pages(filters, None)).runs


def some_pages(filters: RunFilters, most: int | None) -> Generator[ClientCall, dict[str, Any], Page]:
    """Get page after page until there are `most` runs, or no more; the cursor says which."""
    found: list[Report] = []
    cursor: str | None = None
    while True:
        page = page_of((yield listing(filters, cursor, _PAGE if most is None else min(_PAGE, most - len(found)))))
        found += page.runs
        cursor = page.cursor
        if cursor is None or len(found) == most:
            return Page(found, cursor)


def wait_once(run_id: str, until: str, slice_s: float) -> ClientCall:
    """One long poll: the daemon answers when `until` is reached, or after this long."""
    return ClientCall("GET", _run(run_id, "wait"), {"until": until, "timeout_s": round(slice_s, 3)}, patience_s=slice_s)


def waiting(run_id: str, until: Until, timeout: Duration | None) -> Generator[ClientCall, Report, Report]:
    """Poll until `until` is reached or the time is over; returns the report as it is then."""
    left_s = None if timeout is None else parse_duration(timeout, field="timeout")
    deadline = None if left_s is None else time.monotonic() + left_s
    while True:
        slice_s = SLICE_S if deadline is None else max(0.0, min(SLICE_S, deadline - time.monotonic()))
        report = yield wait_once(run_id, until, slice_s)
        reached = report["state"] == "settled" or (until == "verdict" and report["status"] is not None)
        if reached or (deadline is not None and time.monotonic() >= deadline):
            return report


def ask(run_id: str, what: str, body: Mapping[str, Any]) -> ClientCall:
    """Send a live run a request: `signal`, `resize`."""
    return ClientCall("POST", _run(run_id, what), json=body, repeats=False)


def cancel(run_id: str, reason: str, *, now: bool, grace: Duration | None) -> ClientCall:
    """Ask a run to end."""
    grace_s = {} if grace is None else {"grace_s": parse_duration(grace, field="grace")}
    return ask(run_id, "cancel", {"reason": reason, "now": now, **grace_s})


def extend(run_id: str, seconds: Duration) -> ClientCall:
    """Move the deadline of a run."""
    return ask(run_id, "extend", {"seconds": parse_duration(seconds, field="seconds")})


def send_input(run_id: str, data: bytes, *, eof: bool) -> ClientCall:
    """Write bytes to stdin."""
    headers = {"Content-Type": "application/octet-stream"}
    params = {"eof": _word(eof)}
    return ClientCall("POST", _run(run_id, "input"), params, content=data, headers=headers, repeats=False)


def output(run_id: str, stream: Stream, offset: int, *, follow: bool, late: bool) -> ClientCall:
    """Read the output of a run from an offset; `follow`: until the run is settled."""
    params = {"stream": stream, "offset": offset, "follow": _word(follow), "late": _word(late)}
    return ClientCall("GET", _run(run_id, "output"), params, patience_s=None if follow else 0.0)


def events(wanted: EventFilters, last_id: str | None) -> ClientCall:
    """Open the stream of events after the event `last_id`, or from now on."""
    params: dict[str, Any] = {name: _word(value) if value is True else value for name, value in wanted.items() if value}
    if not isinstance(types := params.get("types", ""), str):
        params["types"] = ",".join(types)
    headers = {"Accept": "text/event-stream"} | ({} if last_id is None else {"Last-Event-ID": last_id})
    return ClientCall("GET", "/v1/events", params, headers=headers, patience_s=QUIET_S)


def close_session(name: str, reason: str, *, now: bool, grace: Duration | None = None) -> ClientCall:
    """Close a session; the daemon answers when its runs are over."""
    params: dict[str, Any] = {"reason": reason, "now": _word(now)}
    if grace is not None:
        params["grace_s"] = parse_duration(grace, field="grace")
    return ClientCall("DELETE", f"/v1/sessions/{quote(name, safe='')}", params, patience_s=None)


def open_session(name: str) -> ClientCall:
    """Open a closed session again."""
    return ClientCall("POST", f"/v1/sessions/{quote(name, safe='')}/open")


def simple(path: str) -> ClientCall:
    """Get `sessions`, `doctor`, `hosts` or `health`."""
    return ClientCall("GET", f"/v1/{path}", patience_s=60.0 if path in ("doctor", "hosts") else 0.0)


def _run(run_id: str, what: str = "") -> str:
    try:
        check_run_id(run_id)
    except SpecError as error:  # no run has such an id, and in a URL it could be another path
        raise RunNotFoundError(error.message, remedy=error.remedy) from None
    return f"/v1/runs/{run_id}" + (f"/{what}" if what else "")


def _word(flag: bool) -> str:
    return "true" if flag else "false"
