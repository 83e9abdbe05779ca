"""`holdfast token`: make, list and revoke tokens for clients of the daemon; needs no daemon."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...access.audit_log import record_command
from ...access.roles import ROLES
from ...access.tokens import TokenFile
from ...values.durations import parse_duration
from ...values.errors import SpecError
from ..parsing.command import JSON, Command, open_state, put, show_json
from ..parsing.options import Option, UsageError
from ..printing import messages
from ..printing.table import Column, show_table

if TYPE_CHECKING:
    from ..parsing.options import CommandLine

_COLUMNS = (Column("NAME"), Column("ROLE"), Column("SESSION", cut=True), Column("CREATED"), Column("EXPIRES"))
_ONLY_CREATE = ("--role", "--session", "--expires")
_REMEDY = "write holdfast token create NAME --role ROLE, token list, or token revoke NAME"


def act(given: CommandLine) -> int:
    match given.words:
        case ["create", name]:
            return _create(given, name)
        case ["list"]:
            _check_options(given)
            return _list(given)
        case ["revoke", name]:
            _check_options(given)
            return _revoke(given, name)
        case _:
            raise UsageError("token does not know what to do", remedy=_REMEDY)


def _check_options(given: CommandLine) -> None:
    for flag in _ONLY_CREATE:
        if given.has(flag):
            raise UsageError(f"{flag} is an option of `token create`", remedy="leave it out")


def _create(given: CommandLine, name: str) -> int:
    role, expires = given.last("--role"), given.last("--expires")
    if role is None:
        raise UsageError("no role was given", remedy=f"give --role with one of {', '.join(ROLES)}")
    expires_ns = None if expires is None else _expires_ns(expires)
    state = open_state(given, create=True)
    token, secret = TokenFile(state.path).create(name, role, session=given.last("--session"), expires_ns=expires_ns)
    record_command(state.path, f"holdfast token create {token.name}", f"role {token.role.word}")
    if given.has("--json"):
        show_json({**token.shown(), "token": secret})
        return 0
    put(f"{secret}\n")
    messages.say("keep it now: it is not shown again, and only its hash is stored")
    return 0


def _list(given: CommandLine) -> int:
    found = [token.shown() for token in TokenFile(open_state(given).path).all()]
    if given.has("--json"):
        show_json(found)
        return 0
    show_table(_COLUMNS, [_row(token) for token in found])
    return 0


def _row(token: dict[str, Any]) -> list[str]:
    ended = " (has passed)" if token["expired"] else ""
    expires = "never" if token["expires_at"] is None else f"{token['expires_at'][:19]}Z{ended}"
    return [token["name"], token["role"], token["session"] or "-", f"{token['created_at'][:19]}Z", expires]


def _revoke(given: CommandLine, name: str) -> int:
    state = open_state(given)
    token = TokenFile(state.path).revoke(name)
    record_command(state.path, f"holdfast token revoke {token.name}")
    if given.has("--json"):
        show_json(token.shown())
        return 0
    put(f"revoked {token.name}\n")
    return 0


def _expires_ns(text: str) -> int:
    """The end date: a duration from now, or a time with its offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return time.time_ns() + round(parse_duration(text, field="--expires") * 1e9)
    if moment.tzinfo is None:
        remedy = "write it with its offset, such as 2027-01-31T12:00:00Z, or as a duration, such as 30d"
        raise SpecError("--expires has no offset", field="--expires", remedy=remedy)
    return round(moment.timestamp() * 1e9)


COMMAND = Command(
    "token create NAME --role ROLE | list | revoke NAME [OPTIONS]",
    "Make, list and revoke tokens for clients of the daemon. A change holds from the next request on.",
    (
        Option("--role", "ROLE", "read (see runs), submit (start runs), operate (end any run), admin (everything)"),
        Option("--session", "NAME", "the token sees only runs of this session, and starts runs only there"),
        Option("--expires", "TIME", "when the token ends: a duration (30d), or a time (2027-01-31T12:00:00Z)"),
        JSON,
    ),
    act,
    "The token is printed once, on stdout; STATE/tokens.json has only its hash. The token of the owner\n"
    "(STATE/token) may do everything.\n",
)
