"""Errors as HTTP says them: RFC 9457 problem JSON, with the status and the kind of every error we raise.

`type` is what programs switch on and never changes; `title` says the same to people; `detail` is about this one case,
`remedy` what to do next. Texts come from our own errors, which hold no environment values; anything unforeseen is
logged and answered without its text, because nobody has looked at what that text might hold.
"""

from __future__ import annotations

import errno
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
    """What went wrong, in the form of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str | None = None
    remedy: str | None = None
    run_id: str | None = None
    field: str | None = None


class ProblemKind(NamedTuple):
    """One kind of problem: its status, the word in its `type`, and its title."""

    status: int
    word: str
    title: str


class ProblemError(Exception):
    """Raised to be answered as a problem."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str | None = None,
        *,
        remedy: str | None = None,
        run_id: str | None = None,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        unread: bool = False,
    ) -> None:
        super().__init__(detail or kind.title)
        self.unread = unread  # there is more of the request, and nobody wants it
        self.headers = {**(CLOSE if unread else {}), **(headers or {})}
        self.problem = Problem(PREFIX + kind.word, kind.title, kind.status, detail, remedy, run_id, field)


MALFORMED = ProblemKind(400, "malformed", "The request cannot be read")
UNAUTHORIZED = ProblemKind(401, "unauthorized", "No token, or a wrong one")
FORBIDDEN = ProblemKind(403, "forbidden", "This client may not ask")
NOT_FOUND = ProblemKind(404, "not-found", "There is nothing here")
NO_RUN = ProblemKind(404, "run-not-found", "There is no such run")
NO_METHOD = ProblemKind(405, "method-not-allowed", "This cannot be done here")
TOO_SLOW = ProblemKind(408, "too-slow", "The request took too long to arrive")
CONFLICT = ProblemKind(409, "idempotency-conflict", "This key was used for another run")
RUN_EXISTS = ProblemKind(409, "run-exists", "There is a run of this id already")
SESSION_CLOSED = ProblemKind(409, "session-closed", "The session takes no more runs")
REFUSED = ProblemKind(409, "refused", "The run refuses this")
TOO_LARGE = ProblemKind(413, "too-large", "The request is too large")
NOT_JSON = ProblemKind(415, "unsupported-media-type", "The body is of another type than this takes")
OUT_OF_RANGE = ProblemKind(416, "out-of-range", "There is not that much output")
INVALID = ProblemKind(422, "invalid", "The request is not valid")
QUEUE_FULL = ProblemKind(429, "queue-full", "The queue is full")
INTERNAL = ProblemKind(500, "internal", "The daemon failed")
UNREADABLE = ProblemKind(500, "journal-unreadable", "The record of this run cannot be read")
DRAINING = ProblemKind(503, "draining", "The daemon is shutting down")
UNAVAILABLE = ProblemKind(503, "unavailable", "The daemon cannot do this now")
CROWD = ProblemKind(503, "too-many-connections", "Too many clients at once")
SILENT = ProblemKind(504, "no-answer", "The run did not answer in time")

# The first that fits, so the narrow ones come first.
_KINDS: tuple[tuple[type[errors.HoldfastError], ProblemKind], ...] = (
    (errors.DrainingError, DRAINING),
    (errors.QueueFullError, QUEUE_FULL),
    (errors.IdempotencyConflictError, CONFLICT),
    (errors.SpecError, INVALID),
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
    """The problem that says what this error says."""
    kind = next((kind for known, kind in _KINDS if isinstance(error, known)), INTERNAL)
    if isinstance(error, errors.RequestError) and error.errno == errno.ETIMEDOUT:
        kind = SILENT
    return ProblemError(
        kind,
        error.message,
        remedy=error.remedy,
        run_id=error.run_id,
        field=getattr(error, "field", None),
        headers=retry_after(kind, getattr(error, "retry_after_s", RETRY_S)),
    )


def problem_of_os_error(error: OSError) -> ProblemError:
    """A system call failed where nothing above had a better word for it: the disk is full, or there are no descriptors.

    Anything else is our own failure and is raised again.
    """
    if error.errno not in (*errors.RESOURCE_ERRNOS, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EPERM):
        raise error
    found = errors.ResourceError.from_os_error(error, doing="do this")
    return ProblemError(UNAVAILABLE, found.message, remedy=found.remedy, headers=retry_after(UNAVAILABLE))


def retry_after(kind: ProblemKind, seconds: float = RETRY_S) -> dict[str, str]:
    """The header for the problems that pass by themselves, in whole seconds as HTTP wants them."""
    return {"Retry-After": str(max(1, ceil(seconds)))} if kind.status in (429, 503) else {}


def respond(error: ProblemError) -> Response:
    """The answer."""
    problem = error.problem
    headers = {"Cache-Control": "no-store", **error.headers}
    return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)
