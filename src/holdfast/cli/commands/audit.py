"""`holdfast audit`: show who asked the daemon for what, and what was refused; needs no daemon."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...access.audit_reader import AuditFilter, read_page
from ...values.durations import parse_duration
from ...values.timestamps import format_timestamp
from ..parsing.command import JSON, Command, no_words, open_state, show_json
from ..parsing.options import Option, UsageError
from ..printing import messages
from ..printing.table import Column, show_table

if TYPE_CHECKING:
    from ..parsing.options import CommandLine

_COLUMNS = (
    Column("TIME"),
    Column("WHO"),
    Column("FROM"),
    Column("STATUS", right=True),
    Column("ACTION", cut=True),
    Column("ABOUT", cut=True),
)
_MOST = 50


def act(given: CommandLine) -> int:
    no_words(given, "audit")
    since = given.last("--since")
    ago = None if since is None else parse_duration(since, field="--since")
    wanted = AuditFilter(
        since=None if ago is None else format_timestamp(time.time_ns() - round(ago * 1e9)),
        token=given.last("--token"),
        run_id=given.last("--run"),
        action=given.last("--action"),
        refused=given.has("--refused"),
    )
    page = read_page(open_state(given).path, wanted, _limit(given))
    if given.has("--json"):
        show_json(page.records)
        return 0
    show_table(_COLUMNS, [_row(record) for record in page.records])
    if page.cursor is not None:
        messages.say("there are older records: give --limit, or filters")
    return 0


def _limit(given: CommandLine) -> int:
    text = given.last("--limit") or str(_MOST)
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):
        raise UsageError(f"--limit {text!r} is not a number", remedy="give how many records to show")
    return int(text)


def _row(record: dict[str, Any]) -> list[str]:
    user = record.get("user")
    who = record.get("token") or (record["by"] if user is None else f"{record['by']} of {_user_name(user)}")
    place = record.get("address") or ("" if record.get("pid") is None else f"pid {record['pid']}")
    about = [record.get("about"), record.get("problem")]
    about += [f"{record[name]} {name}" for name in ("suppressed", "lost") if record.get(name)]
    status = record.get("status")
    told = ", ".join(str(one) for one in about if one)
    return [f"{record['at'][:19]}Z", who, place, "" if status is None else str(status), record["action"], told]


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


COMMAND = Command(
    "audit [OPTIONS]",
    "Show who asked the daemon for what, newest first: requests that change something, and refused ones.",
    (
        Option("--since", "DURATION", "only the records of this long"),
        Option("--token", "NAME", "only requests with this token"),
        Option("--run", "ID", "only requests about this run"),
        Option("--action", "TEXT", "only actions with this text in them, such as cancel"),
        Option("--refused", None, "only refused requests"),
        Option("--limit", "COUNT", f"show at most this many records (default {_MOST})"),
        JSON,
    ),
    act,
)
