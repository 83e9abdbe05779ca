"""Runs over HTTP: submit, list, show, spec, wait, cancel, send input, extend, signal, resize."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec

from ....journal.reader import JournalReader
from ....projections.http import http_headers
from ....projections.report import outcome_of
from ....web.problems import INVALID, ProblemError
from ....web.request_body import BYTES, JSON
from ...queue.submission import Submission
from ..access.asker import check_outside
from ..access.policy import allowed, check_extension, submitter_of
from ..access.run_access import bounded, key_of
from ..wire.idempotency_key import LONGEST_KEY, idempotency_key
from ..wire.operation import Header, Operation, OperationCall, answer
from ..wire.types import (
    Delivery,
    DeliveryList,
    EvidenceList,
    Extend,
    Input,
    InputQuery,
    Report,
    Resize,
    RunPage,
    RunsQuery,
    SendSignal,
    Stop,
    WaitQuery,
    given,
    to_report,
)
from .filters import filters_of

if TYPE_CHECKING:
    from starlette.responses import Response


class RunSpec(msgspec.Struct):
    """The spec of a run, by the public names of its fields, without the values of its environment."""

    run_id: str
    spec: dict[str, Any]


async def create(call: OperationCall) -> Response:
    """Submit a run: 201 with its report, or 200 with the report of the earlier run that has the same key."""
    key = key_of(call.caller, idempotency_key(call.request))
    asked = await bounded(call.service, call.caller, call.body)
    submission = await allowed(call.request, asked)
    found, created = await call.service.submit(
        submission, idempotency_key=key, asked=asked, submitter=submitter_of(call.request)
    )
    location = {"Location": f"/v1/runs/{found['run_id']}"}
    return _report(found, 201 if created else 200, location)


async def listing(call: OperationCall) -> Response:
    """List a page of runs."""
    query: RunsQuery = call.query
    found, cursor = await call.service.list(
        filters_of(query, call.caller), states=tuple(query.state), cursor=given(query.cursor), limit=query.limit
    )
    return answer(RunPage([to_report(report) for report in found], cursor))


async def show(call: OperationCall) -> Response:
    """Show one run."""
    return _report(await call.service.show(call.run_id))


async def spec(call: OperationCall) -> Response:
    """The spec of a run, from its journal or from the queue. RunNotFoundError."""
    return answer(RunSpec(call.run_id, await _spec_of(call)))


async def _spec_of(call: OperationCall) -> dict[str, Any]:
    fd = call.service.journal(call.run_id)
    if fd < 0:
        return call.service.queued_spec(call.run_id)
    return await asyncio.to_thread(_recorded, fd, call.run_id)


def _recorded(fd: int, run_id: str) -> dict[str, Any]:
    try:
        reader = JournalReader(fd, run_id=run_id)
        reader.read(1)  # the spec comes before all output
        return reader.spec or {}
    finally:
        os.close(fd)


async def wait(call: OperationCall) -> Response:
    """Wait until the run has its verdict (or is settled) or the time is up, and answer with the report.

    `status` (or `state`) in the report tells whether the time was enough.
    """
    query: WaitQuery = call.query
    waiting = call.service.wait(call.run_id, until=query.until, timeout_s=query.timeout_s)
    return _report(await call.while_connected(waiting))


async def evidence(call: OperationCall) -> Response:
    """The facts of a run."""
    return answer(EvidenceList(call.run_id, await call.service.evidence(call.run_id)))


async def deliveries(call: OperationCall) -> Response:
    """The webhook deliveries of a run."""
    found = await call.service.delivery(call.run_id)
    return answer(DeliveryList(call.run_id, [] if found is None else [msgspec.convert(found, Delivery)]))


async def cancel(call: OperationCall) -> Response:
    """Ask a run to end. A run that is over stays as it is."""
    asked: Stop = call.body
    return _report(await call.service.cancel(call.run_id, reason=asked.reason, now=asked.now, grace=asked.grace_s))


async def send_input(call: OperationCall) -> Response:
    """Write to stdin: the raw body, or the text or data of a JSON body."""
    if isinstance(call.body, bytes):
        data, eof = call.body, call.query.eof
    else:
        asked: Input = call.body
        if asked.text is not None and asked.data is not None:
            raise ProblemError(INVALID, "there are both text and data", field="data", remedy="send one of them")
        data = (asked.text or "").encode() if asked.data is None else asked.data
        eof = asked.eof or call.query.eof
    return _report(await call.service.send_input(call.run_id, data, eof=eof))


async def extend(call: OperationCall) -> Response:
    """Add time to the deadline."""
    asked: Extend = call.body
    spec = await _spec_of(call)
    if spec.get("max_timeout_s") is None:  # a ceiling is the right to use the time up to it
        await check_outside(call.request.scope, await call.service.guards_of(call.run_id), call.run_id)
    async with call.service.turn(call.run_id):  # the guard records an extension before it answers
        check_extension(call.request, spec, await call.service.report(call.run_id), asked.seconds)
        return _report(await call.service.extend(call.run_id, asked.seconds))


async def send_signal(call: OperationCall) -> Response:
    """Send a signal. It is not a request to end: the outcome stays the command's own."""
    asked: SendSignal = call.body
    return _report(await call.service.signal(call.run_id, asked.signal, tree=asked.tree))


async def resize(call: OperationCall) -> Response:
    """Set the size of the run's terminal."""
    asked: Resize = call.body
    return _report(await call.service.resize(call.run_id, asked.rows, asked.columns))


def _report(found: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    report = to_report(found)
    about: dict[str, str] = {"Holdfast-Run": report.run_id, "Holdfast-State": str(report.state)}
    if report.status is not None:  # before the verdict there is no outcome to decide from the evidence
        about |= http_headers(outcome_of(found), report.run_id)
    return answer(report, status, {**about, **(headers or {})})


_KEY = Header(
    "Idempotency-Key",
    "The same key with the same body gives the same run; with another body, 409.",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[ -~]+$"},
)
_WHERE = Header("Location", "The path of the run.", {"type": "string"})
_RUN = "/v1/runs/{run_id}"

OPERATIONS = (
    Operation(
        "POST",
        "/v1/runs",
        create,
        "Queue a run; 200 when the idempotency key was used for it before.",
        Report,
        201,
        (200,),
        body=Submission,
        errors=(409, 429, 503),
        sends=(_KEY,),
        returns=(_WHERE,),
    ),
    Operation("GET", "/v1/runs", listing, "List runs, newest first.", RunPage, query=RunsQuery, errors=(503,)),
    Operation("GET", _RUN, show, "Show a run.", Report),
    Operation("GET", f"{_RUN}/spec", spec, "The spec of a run.", RunSpec),
    Operation(
        "GET", f"{_RUN}/wait", wait, "Wait for the verdict, or until the run is settled.", Report, query=WaitQuery
    ),
    Operation("GET", f"{_RUN}/evidence", evidence, "The facts of a run, in order.", EvidenceList),
    Operation("GET", f"{_RUN}/deliveries", deliveries, "The webhook deliveries of a run.", DeliveryList, errors=(503,)),
    Operation("POST", f"{_RUN}/cancel", cancel, "Ask a run to end.", Report, body=Stop, errors=(409, 503, 504)),
    Operation(
        "POST",
        f"{_RUN}/input",
        send_input,
        "Write to the command's stdin.",
        Report,
        query=InputQuery,
        body=Input,
        takes=(JSON, BYTES),
        errors=(409, 503, 504),
    ),
    Operation(
        "POST", f"{_RUN}/extend", extend, "Add time to the deadline.", Report, body=Extend, errors=(409, 503, 504)
    ),
    Operation("POST", f"{_RUN}/signal", send_signal, "Send a signal.", Report, body=SendSignal, errors=(409, 503, 504)),
    Operation(
        "POST", f"{_RUN}/resize", resize, "Resize the run's terminal.", Report, body=Resize, errors=(409, 503, 504)
    ),
)
