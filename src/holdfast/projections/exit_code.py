"""The outcome as an exit code, for `holdfast run` and `holdfast wait`.

A command may exit with any of these codes itself, so only the report tells the outcome for sure.
"""

from __future__ import annotations

from errno import ENOENT

from ..values.fast_imports import TYPE_CHECKING
from .verdict_detail import line_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..outcome import Outcome

TIMED_OUT = 124
OWN_FAILURE = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
BUDGET = 137
INTERRUPTED = 130
CANCELLED = 143

_SIGINT = 2


def _child(outcome: Outcome) -> int:
    if outcome.exit_code is not None:
        return outcome.exit_code
    return OWN_FAILURE if outcome.signal is None else 128 + outcome.signal


def _spawn(outcome: Outcome) -> int:
    detail = {} if outcome.decided_by is None else outcome.decided_by.detail
    if detail.get("step") == "exec":
        return NOT_FOUND if detail.get("error") == ENOENT else NOT_EXECUTABLE
    # A script whose interpreter is missing exists, but cannot be executed.
    return NOT_EXECUTABLE if detail.get("step") == "interpreter" else OWN_FAILURE


def _cancelled(outcome: Outcome) -> int:
    """130 when SIGINT caused the stop, no matter whether the guard or another program got it; else 143."""
    detail = {} if outcome.decided_by is None else outcome.decided_by.detail
    return INTERRUPTED if detail.get("signal") == _SIGINT else CANCELLED


# By status and cause; a cause without a line of its own uses the line of its status.
_CODES: dict[tuple[str, str | None], Callable[[Outcome], int]] = {
    ("succeeded", None): _child,
    ("failed", "exit"): _child,
    ("failed", "signal"): _child,
    ("failed", "spawn"): _spawn,
    ("failed", "oom"): lambda _outcome: BUDGET,
    ("failed", "limit"): lambda _outcome: BUDGET,
    ("timed_out", None): lambda _outcome: TIMED_OUT,
    ("cancelled", None): _cancelled,
    ("lost", None): lambda _outcome: OWN_FAILURE,
}


def exit_code(outcome: Outcome) -> int:
    """The exit code of an outcome. ValueError before the verdict."""
    return line_of(_CODES, outcome)(outcome)
