"""Errors as RFC 9457 problem JSON: the HTTP status and the kind of problem of every error we raise.

Programs switch on `type`, which never changes. `title` says the same to people, `detail` describes this one case, and
`remedy` says what to do next. The texts come from our own errors, which hold no values of the environment. An
unforeseen error is logged and answered without its text, because its text may hold a secret.
"""

from __future__ import annotations

import errno
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from starlette.responses import Response

from ..values import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:holdfast:problem:"
RETRY_S = 5.0
CLOSE = {"Connection": "close"}


class Problem(msgspec.Struct, omit_defaults=True):
    """A problem as RFC 9457 defines it: what went wrong, and what to do."""

    type: str
    title: str
    status: int
    detail: str | None = None
    remedy: str | None = None
    run_id: str | None = None
    field: str | None = None
    role: str | None = None
    rule: str | None = None


class ProblemKind(NamedTuple):
    """One kind of problem: its status, the word in its `type`, and its title."""

    status: int
    word: str
    title: str


class ProblemError(Exception):
    """An error that is answered as problem JSON."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str | None = None,
        *,
        remedy: str | None = None,
        run_id: str | None = None,
        field: str | None = None,
        role: str | None = None,
        rule: str | None = None,
        headers: Mapping[str, str] | None = None,
        unread: bool = False,
    ) -> None:
        super().__init__(detail or kind.title)
        self.unread = unread  # the rest of the request was not read
        self.headers = {**(CLOSE if unread else {}), **(headers or {})}
        self.problem = Problem(PREFIX + kind.word, kind.title, kind.status, detail, remedy, run_id, field, role, rule)


MALFORMED = ProblemKind(400, "malformed", "The request cannot be read")
UNAUTHORIZED = ProblemKind(401, "unauthorized", "The token is missing or wrong")
FORBIDDEN = ProblemKind(403, "forbidden", "The request is forbidden")
ROLE_NEEDED = ProblemKind(403, "role-needed", "The token may not do this")
POLICY = ProblemKind(403, "policy", "The policy of the daemon refuses this")
NOT_FOUND = ProblemKind(404, "not-found", "There is no such path")
NO_RUN = ProblemKind(404, "run-not-found", "There is no such run")
NO_METHOD = ProblemKind(405, "method-not-allowed", "This path does not have that method")
TOO_SLOW = ProblemKind(408, "too-slow", "The request took too long to arrive")
TOKEN_EXISTS = ProblemKind(409, "token-exists", "A token with this name exists already")
CONFLICT = ProblemKind(409, "idempotency-conflict", "This key was used for another run")
RUN_EXISTS = ProblemKind(409, "run-exists", "A run with this id exists already")
SESSION_CLOSED = ProblemKind(409, "session-closed", "The session is closed")
REFUSED = ProblemKind(409, "refused", "The run cannot do this")
TOO_LARGE = ProblemKind(413, "too-large", "The request is too large")
WRONG_TYPE = ProblemKind(415, "unsupported-media-type", "The media type of the body is not accepted here")
OUT_OF_RANGE = ProblemKind(416, "out-of-range", "The offset is beyond the end of the output")
INVALID = ProblemKind(422, "invalid", "The request is not valid")
QUEUE_FULL = ProblemKind(429, "queue-full", "The queue is full")
CLIENT_LIMIT = ProblemKind(429, "client-limit", "The client is beyond one of its limits")
INTERNAL = ProblemKind(500, "internal", "The daemon failed")
UNREADABLE = ProblemKind(500, "journal-unreadable", "The record of this run cannot be read")
DRAINING = ProblemKind(503, "draining", "The daemon is shutting down")
NOT_READY = ProblemKind(503, "not-ready", "The daemon starts no new runs now")
UNAVAILABLE = ProblemKind(503, "unavailable", "The daemon cannot do this now")
TOO_MANY = ProblemKind(503, "too-many-connections", "There are too many connections")
NO_ANSWER = ProblemKind(504, "no-answer", "The run did not answer in time")

# The first entry that fits decides, so subclasses come before their base classes.
_KINDS: tuple[tuple[type[errors.HoldfastError], ProblemKind], ...] = (
    (errors.DrainingError, DRAINING),
    (errors.QueueFullError, QUEUE_FULL),
    (errors.IdempotencyConflictError, CONFLICT),
    (errors.SpecError, INVALID),
    (errors.PolicyError, POLICY),
    (errors.RunNotFoundError, NO_RUN),
    (errors.AmbiguousRunError, NO_RUN),
    (errors.RunExistsError, RUN_EXISTS),
    (errors.SessionClosedError, SESSION_CLOSED),
    (errors.RequestError, REFUSED),
    (errors.JournalError, UNREADABLE),
    (errors.StateError, UNAVAILABLE),
    (errors.ResourceError, UNAVAILABLE),
    (errors.GuardError, UNAVAILABLE),
)


def problem_of(error: errors.HoldfastError) -> ProblemError:
    """The problem that carries the message and the remedy of this error."""
    kind = next((kind for known, kind in _KINDS if isinstance(error, known)), INTERNAL)
    if isinstance(error, errors.RequestError) and error.errno == errno.ETIMEDOUT:
        kind = NO_ANSWER
    return ProblemError(
        kind,
        error.message,
        remedy=error.remedy,
        run_id=error.run_id,
        field=getattr(error, "field", None),
        rule=getattr(error, "rule", None),
        headers=retry_after(kind, getattr(error, "retry_after_s", RETRY_S)),
    )


def problem_of_os_error(error: OSError) -> ProblemError:
    """The 503 for a failed system call that no other code explained: disk full, no descriptors, no permission.

    Any other OSError is a defect of ours and is raised again.
    """
    if error.errno not in (*errors.RESOURCE_ERRNOS, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EPERM):
        raise error
    found = errors.ResourceError.from_os_error(error, doing="do this")
    return ProblemError(UNAVAILABLE, found.message, remedy=found.remedy, headers=retry_after(UNAVAILABLE))


def retry_after(kind: ProblemKind, seconds: float = RETRY_S) -> dict[str, str]:
    """The Retry-After header, in whole seconds, for problems that pass by themselves; else empty."""
    return {"Retry-After": str(max(1, ceil(seconds)))} if kind.status in (429, 503) else {}


def raw_response(kind: ProblemKind, detail: str, remedy: str) -> bytes:
    """The whole response that carries a problem and closes the connection, for a request that has not been read."""
    body = msgspec.json.encode(Problem(PREFIX + kind.word, kind.title, kind.status, detail, remedy))
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "connection": "close", **retry_after(kind)}
    lines = [f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def respond(error: ProblemError) -> Response:
    """The HTTP response that carries this problem."""
    problem = error.problem
    headers = {"Cache-Control": "no-store", **error.headers}
    return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)
