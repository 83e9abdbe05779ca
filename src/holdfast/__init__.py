"""Holdfast runs commands as processes that always end well: on time, the whole tree, all output, one true outcome."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it costs milliseconds
if TYPE_CHECKING:
    from .client.asynchronous import AsyncClient
    from .client.sync import Client
    from .journal.facts import Fact
    from .journal.reader import Chunk
    from .outcome import Outcome
    from .runs.call import output, run
    from .runs.progress import Progress
    from .runs.result import Result, TextResult
    from .runs.retry import Retry
    from .runs.supervisor import Run, Supervisor
    from .values.defaults import defaults
    from .values.errors import (
        AmbiguousRunError,
        ConfigError,
        DaemonError,
        DaemonUnreachableError,
        DrainingError,
        GuardError,
        HoldfastError,
        IdempotencyConflictError,
        JournalDamagedError,
        JournalError,
        JournalVersionError,
        NotReadyError,
        PolicyError,
        QueueFullError,
        RequestError,
        ResourceError,
        RunError,
        RunExistsError,
        RunNotFoundError,
        SessionClosedError,
        SpecError,
        StateError,
        StateVersionError,
        UnauthorizedError,
        UnsupportedPlatformError,
    )
    from .values.ladder import Rung
    from .values.report import Cause, Report, State, Status
    from .values.spec import RunSpec, make_spec

# Imported when first asked for: the command line needs a part only, and anyio alone costs as much as the interpreter.
_HOME = {
    "AmbiguousRunError": "values.errors",
    "AsyncClient": "client.asynchronous",
    "Cause": "values.report",
    "Chunk": "journal.reader",
    "Client": "client.sync",
    "ConfigError": "values.errors",
    "DaemonError": "values.errors",
    "DaemonUnreachableError": "values.errors",
    "DrainingError": "values.errors",
    "Fact": "journal.facts",
    "GuardError": "values.errors",
    "HoldfastError": "values.errors",
    "IdempotencyConflictError": "values.errors",
    "JournalDamagedError": "values.errors",
    "JournalError": "values.errors",
    "JournalVersionError": "values.errors",
    "NotReadyError": "values.errors",
    "Outcome": "outcome",
    "PolicyError": "values.errors",
    "Progress": "runs.progress",
    "QueueFullError": "values.errors",
    "Report": "values.report",
    "RequestError": "values.errors",
    "ResourceError": "values.errors",
    "Result": "runs.result",
    "Retry": "runs.retry",
    "Run": "runs.supervisor",
    "RunError": "values.errors",
    "RunExistsError": "values.errors",
    "RunNotFoundError": "values.errors",
    "RunSpec": "values.spec",
    "Rung": "values.ladder",
    "SessionClosedError": "values.errors",
    "SpecError": "values.errors",
    "State": "values.report",
    "StateError": "values.errors",
    "StateVersionError": "values.errors",
    "Status": "values.report",
    "Supervisor": "runs.supervisor",
    "TextResult": "runs.result",
    "UnauthorizedError": "values.errors",
    "UnsupportedPlatformError": "values.errors",
    "defaults": "values.defaults",
    "make_spec": "values.spec",
    "output": "runs.call",
    "run": "runs.call",
}

__all__ = [
    "AmbiguousRunError",
    "AsyncClient",
    "Cause",
    "Chunk",
    "Client",
    "ConfigError",
    "DaemonError",
    "DaemonUnreachableError",
    "DrainingError",
    "Fact",
    "GuardError",
    "HoldfastError",
    "IdempotencyConflictError",
    "JournalDamagedError",
    "JournalError",
    "JournalVersionError",
    "NotReadyError",
    "Outcome",
    "PolicyError",
    "Progress",
    "QueueFullError",
    "Report",
    "RequestError",
    "ResourceError",
    "Result",
    "Retry",
    "Run",
    "RunError",
    "RunExistsError",
    "RunNotFoundError",
    "RunSpec",
    "Rung",
    "SessionClosedError",
    "SpecError",
    "State",
    "StateError",
    "StateVersionError",
    "Status",
    "Supervisor",
    "TextResult",
    "UnauthorizedError",
    "UnsupportedPlatformError",
    "defaults",
    "make_spec",
    "output",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
