"""The audit log over HTTP: who did what from where, newest first."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ....access.audit_reader import AuditFilter, read_page
from ....values.timestamps import format_timestamp
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import MOST_LISTED, Filter, Time, given
from .filters import ns_of

if TYPE_CHECKING:
    from starlette.responses import Response


_AuditCursor = Annotated[str, Meta(pattern=r"^[0-9-]{10}\.[0-9]{5,9}\.[0-9]{1,15}$")]


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters for records. `action`: a part of it. `refused`: only what was refused. `until` is exclusive."""

    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET
    token: Filter | UnsetType = UNSET
    by: Filter | UnsetType = UNSET
    run_id: Filter | UnsetType = UNSET
    action: Filter | UnsetType = UNSET
    refused: bool = False
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 50
    cursor: _AuditCursor | UnsetType = UNSET


class AuditEntry(msgspec.Struct, omit_defaults=True):
    """One record. `suppressed`: refusals like it that were only counted. `lost`: records that could not be written."""

    id: str
    at: Time
    action: str
    by: str
    token: str | None
    user: int | None
    pid: int | None
    address: str | None
    status: int | None
    problem: str | None
    run_id: str | None
    about: str | None
    suppressed: int = 0
    lost: int = 0


class AuditList(msgspec.Struct):
    """A page of records, newest first; `cursor` leads to older ones and is null at the end."""

    records: list[AuditEntry]
    cursor: str | None


async def listing(call: OperationCall) -> Response:
    """List a page of records. ProblemError, SpecError: a wrong time or cursor."""
    query: AuditQuery = call.query
    wanted = AuditFilter(
        since=_text(given(query.since), "since"),
        until=_text(given(query.until), "until"),
        token=given(query.token),
        by=given(query.by),
        run_id=given(query.run_id),
        action=given(query.action),
        refused=query.refused,
    )
    state_path = os.path.dirname(call.request.app.state.audit.path)
    page = await asyncio.to_thread(read_page, state_path, wanted, query.limit, given(query.cursor))
    return answer(AuditList(msgspec.convert(page.records, list[AuditEntry]), page.cursor))


def _text(time: str | None, field: str) -> str | None:
    """A time in the form of the records."""
    at_ns = ns_of(time, field)
    return None if at_ns is None else format_timestamp(max(0, at_ns))


OPERATIONS = (
    Operation("GET", "/v1/audit", listing, "Who did what, newest first.", AuditList, query=AuditQuery, errors=(503,)),
)
