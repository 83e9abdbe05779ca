"""The outcome as systemd's SERVICE_RESULT, EXIT_CODE and EXIT_STATUS, which ExecStopPost of a service gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..values.signals import signal_name
from .verdict_detail import line_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..outcome import Outcome

_CORE_DUMPED = 0x80
# systemd's codes for a failure before the program ran. In steps that are not listed there was no process yet.
_NOT_EXECUTED = {"exec": "203", "interpreter": "203", "chdir": "200", "stdio": "208"}


class SystemdResult(NamedTuple):
    """SERVICE_RESULT, EXIT_CODE and EXIT_STATUS. A value is None when it is unknown, or systemd has no word for it."""

    result: str | None
    exit_code: str | None
    exit_status: str | None


def _dumped_core(outcome: Outcome) -> bool:
    return outcome.exited is not None and bool(outcome.exited.detail["wait_status"] & _CORE_DUMPED)


def _spawn(outcome: Outcome) -> str:
    return "exit-code" if _not_executed(outcome) else "resources"


_RESULTS: dict[tuple[str, str | None], Callable[[Outcome], str | None]] = {
    ("succeeded", None): lambda _outcome: "success",
    ("failed", "exit"): lambda _outcome: "exit-code",
    ("failed", "signal"): lambda outcome: "core-dump" if _dumped_core(outcome) else "signal",
    ("failed", "spawn"): _spawn,
    ("failed", "oom"): lambda _outcome: "oom-kill",
    ("failed", "limit"): lambda _outcome: "resources",
    ("timed_out", None): lambda _outcome: "timeout",
    ("timed_out", "idle"): lambda _outcome: "watchdog",
    ("cancelled", None): lambda _outcome: "success",  # to systemd, a requested stop is a success
    ("lost", None): lambda _outcome: None,
}


def systemd(outcome: Outcome) -> SystemdResult:
    """The result of the service, and the end of its main process. ValueError before the verdict."""
    return SystemdResult(line_of(_RESULTS, outcome)(outcome), *_main_process(outcome))


def _main_process(outcome: Outcome) -> tuple[str | None, str | None]:
    if (status := _not_executed(outcome)) is not None:
        return "exited", status
    if outcome.exit_code is not None:
        return "exited", str(outcome.exit_code)
    if outcome.signal is None:
        return None, None
    return "dumped" if _dumped_core(outcome) else "killed", signal_name(outcome.signal).removeprefix("SIG")


def _not_executed(outcome: Outcome) -> str | None:
    if outcome.decided_by is None or outcome.decided_by.kind != "spawn_failed":
        return None
    return _NOT_EXECUTED.get(outcome.decided_by.detail["step"])
