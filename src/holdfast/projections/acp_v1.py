"""The outcome in ACP v1: the exit status of a terminal, and the stop reason of a turn that stands for a run.

A terminal has an exit code or a signal, nothing else. A run that we ended has no exit code there, even when the command
managed to exit with 0: a client that reads only the code must not take a timeout for a success. A turn has no stop
reason for failures, so a failure is answered with a JSON-RPC error. `cancelled` is only for the client's own cancel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..values.signals import signal_name
from .json_rpc import INTERNAL_ERROR
from .verdict_detail import detail, line_of, sentence

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..outcome import Outcome

_SIGKILL = 9
_SIGTERM = 15


class AcpAnswer(NamedTuple):
    """Either a result, which is an object of the protocol, or an error."""

    result: dict[str, Any] | None
    error: dict[str, Any] | None


def _own(outcome: Outcome) -> dict[str, Any]:
    return {"exitCode": outcome.exit_code, "signal": outcome.signal and signal_name(outcome.signal)}


def _ended(outcome: Outcome) -> dict[str, Any]:
    # The signal that ended the command. A command that exited, or has not ended yet, has none. Then the last signal of
    # ours stands in, because a terminal with neither code nor signal would look as if it were still running.
    signal = outcome.signal or (_SIGKILL if outcome.escalated else _SIGTERM)
    return {"exitCode": None, "signal": signal_name(signal)}


def _killed(_outcome: Outcome) -> dict[str, Any]:
    return {"exitCode": None, "signal": signal_name(_SIGKILL)}


# None: the terminal never existed, or its end is unknown; then the call is answered with an error.
_TERMINALS: dict[tuple[str, str | None], Callable[[Outcome], dict[str, Any]] | None] = {
    ("succeeded", None): _own,
    ("failed", None): _own,
    ("failed", "spawn"): None,
    ("failed", "oom"): _killed,
    ("failed", "limit"): _killed,
    ("timed_out", None): _ended,
    ("cancelled", None): _ended,
    ("lost", None): None,
}
_STOPS: dict[tuple[str, str | None], str | None] = {
    ("succeeded", None): "end_turn",
    ("failed", None): None,
    ("timed_out", None): None,
    ("cancelled", None): None,
    ("cancelled", "user"): "cancelled",
    ("lost", None): None,
}


def acp_v1_terminal(outcome: Outcome, run_id: str) -> AcpAnswer:
    """The `TerminalExitStatus`, or the error that answers the call. ValueError before the verdict."""
    status = line_of(_TERMINALS, outcome)
    if status is None:
        return _error(outcome, run_id)
    return AcpAnswer({**status(outcome), "_meta": detail(outcome, run_id)}, None)


def acp_v1_stop(outcome: Outcome, run_id: str) -> AcpAnswer:
    """The `PromptResponse`, or the error that answers `session/prompt`. ValueError before the verdict."""
    stop = line_of(_STOPS, outcome)
    if stop is None:
        return _error(outcome, run_id)
    return AcpAnswer({"stopReason": stop, "_meta": detail(outcome, run_id)}, None)


def _error(outcome: Outcome, run_id: str) -> AcpAnswer:
    error = {"code": INTERNAL_ERROR, "message": sentence(outcome), "data": detail(outcome, run_id)}
    return AcpAnswer(None, error)
