"""From a daemon's problem JSON to the error that the library would raise. Needs no HTTP library."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING, Any

from ..values import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX = "urn:holdfast:problem:"
NOT_OURS = "is this the address of a Holdfast daemon?"


def error_of(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> errors.HoldfastError:
    """The error for an answer; a DaemonError when the answer is not one of our problems."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    problem: dict[str, Any] = found if isinstance(found, dict) else {}
    word = str(problem.get("type", "")).removeprefix(PREFIX)
    message = problem.get("detail") or problem.get("title")
    if not isinstance(message, str):
        return errors.DaemonError(f"the answer is HTTP {status} without a reason", status=status, remedy=NOT_OURS)
    make = _MAKERS.get(word, _daemon_error)
    known = {name: problem[name] for name in ("run_id", "remedy") if isinstance(problem.get(name), str)}
    return make(message, known, _Context(status, problem, headers or {}))


class _Context:
    """The parts of an answer that only some errors need."""

    def __init__(self, status: int, problem: dict[str, Any], headers: Mapping[str, str]) -> None:
        self.status = status
        self.field = problem.get("field") if isinstance(problem.get("field"), str) else None
        self.rule = str(problem.get("rule", ""))
        self.headers = headers

    @property
    def retry_after_s(self) -> float:
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() else 1.0


def _daemon_error(message: str, known: dict[str, Any], context: _Context) -> errors.HoldfastError:
    return errors.DaemonError(message, status=context.status, **known)


def _plain(kind: type[errors.HoldfastError]) -> Callable[[str, dict[str, Any], _Context], errors.HoldfastError]:
    return lambda message, known, _context: kind(message, **known)


# The last word of a problem's type, which never changes, and the error that the daemon made it from.
_MAKERS: dict[str, Callable[[str, dict[str, Any], _Context], errors.HoldfastError]] = {
    "invalid": lambda message, known, context: errors.SpecError(message, field=context.field, **known),
    "unauthorized": lambda message, known, _: errors.UnauthorizedError(message, status=401, **known),
    "run-not-found": _plain(errors.RunNotFoundError),
    "run-exists": _plain(errors.RunExistsError),
    "session-closed": _plain(errors.SessionClosedError),
    "idempotency-conflict": _plain(errors.IdempotencyConflictError),
    "refused": _plain(errors.RequestError),
    "no-answer": lambda message, known, _: errors.RequestError(message, errno=errno.ETIMEDOUT, **known),
    "policy": lambda message, known, context: errors.PolicyError(message, rule=context.rule, **known),
    "queue-full": _plain(errors.QueueFullError),
    "journal-unreadable": _plain(errors.JournalError),
    "draining": lambda message, known, context: errors.DrainingError(
        message, retry_after_s=context.retry_after_s, **known
    ),
}
