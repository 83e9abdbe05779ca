"""Reading the audit log: records that match filters, newest first, page by page."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ..values.errors import SpecError
from .audit_log import DIRECTORY, SUFFIX, list_files

if TYPE_CHECKING:
    from collections.abc import Iterator


class AuditFilter(NamedTuple):
    """Which records to show. None in a field: all."""

    since: str | None = None  # RFC 3339 in UTC with microseconds, as in the records: compared as text
    until: str | None = None
    token: str | None = None
    by: str | None = None
    run_id: str | None = None
    action: str | None = None  # a part of the action
    refused: bool = False  # only what was refused

    def matches(self, record: dict[str, Any]) -> bool:
        """Whether this record is asked for."""
        at, status = record["at"], record.get("status")
        return (
            (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and self.token in (None, record.get("token"))
            and self.by in (None, record.get("by"))
            and self.run_id in (None, record.get("run_id"))
            and (self.action is None or self.action in record["action"])
            and (not self.refused or status in (401, 403, 429))
        )


class AuditPage(NamedTuple):
    """Records, newest first, each with its `id`; `cursor` leads to older ones, None at the end."""

    records: list[dict[str, Any]]
    cursor: str | None


def read_page(state_path: str, wanted: AuditFilter, limit: int, cursor: str | None = None) -> AuditPage:
    """A page of the audit log. SpecError: the cursor is not one of ours. OSError: a file cannot be read."""
    found: list[dict[str, Any]] = []
    for record in _backwards(os.path.join(state_path, DIRECTORY), None if cursor is None else _parse(cursor)):
        if wanted.since is not None and record["at"][:10] < wanted.since[:10]:
            break  # files are of one day each: nothing older can match
        if not wanted.matches(record):
            continue
        if len(found) == limit:
            return AuditPage(found, found[-1]["id"])
        found.append(record)
    return AuditPage(found, None)


def _backwards(path: str, before: tuple[str, int] | None) -> Iterator[dict[str, Any]]:
    """Every record before this place (its file and offset), newest first. Lines that are no record are left out."""
    for name in reversed(list_files(path)):
        stem = name.removesuffix(SUFFIX)
        if before is not None and stem > before[0]:
            continue
        try:
            with open(os.path.join(path, name), "rb") as file:
                data = file.read(before[1] if before is not None and stem == before[0] else -1)
        except FileNotFoundError:
            continue  # the retention has just removed it
        end = len(data)
        while end > 0:
            begin = data.rfind(b"\n", 0, end - 1) + 1
            record = _record(data[begin:end])
            if record is not None:
                yield {"id": f"{stem}.{begin}", **record}
            end = begin


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None  # the end of a line that a full disk has torn
    is_ours = isinstance(found, dict) and isinstance(found.get("at"), str) and isinstance(found.get("action"), str)
    return found if is_ours else None


def _parse(cursor: str) -> tuple[str, int]:
    stem, _, offset = cursor.rpartition(".")
    if not (stem and offset.isascii() and offset.isdigit() and len(offset) < 16):
        raise SpecError("the cursor is not one of ours", field="cursor", remedy="send back the cursor of the last page")
    return stem, int(offset)
