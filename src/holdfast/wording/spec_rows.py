"""The spec that was in force as rows for people: the directory, the limits in time, the budgets, the priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plain import plain, size, span

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEYOND = {"stop": "then the run ends", "drop": "more is dropped", "roll": "of more, head and tail"}


def spec_rows(spec: Mapping[str, Any] | None) -> list[tuple[str, str | None]]:
    """The rows of a report's `spec`, each with its name; None: nothing was set. Empty: the report has no spec."""
    if spec is None:
        return []
    return [
        ("cwd", None if spec["cwd"] is None else plain(spec["cwd"])),
        ("timeout", _timeout(spec)),
        ("idle timeout", _duration(spec["idle_timeout_s"])),
        ("grace", _duration(spec["grace_s"])),
        ("budgets", ", ".join(_budgets(spec)) or None),
        ("priority", None if spec["priority"] is None else plain(spec["priority"])),
    ]


def _timeout(spec: Mapping[str, Any]) -> str | None:
    timeout, most = _duration(spec["timeout_s"]), _duration(spec["max_timeout_s"])
    return timeout if timeout is None or most is None else f"{timeout}, with extensions at most {most}"


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else span(seconds)


def _budgets(spec: Mapping[str, Any]) -> list[str]:
    found = []
    if spec["memory_bytes"] is not None:
        found.append(f"{size(spec['memory_bytes'])} of memory")
    if spec["pids"] is not None:
        found.append(f"{spec['pids']} processes")
    if spec["cpu_time_s"] is not None:
        found.append(f"{span(spec['cpu_time_s'])} of cpu")
    if spec["max_output_bytes"] is not None:
        beyond = _BEYOND.get(spec["on_max_output"] or "stop", plain(spec["on_max_output"]))
        found.append(f"{size(spec['max_output_bytes'])} of output ({beyond})")
    return found
