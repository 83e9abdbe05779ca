"""Holdfast runs commands as processes that always end well: on time, the whole tree, all output, one true outcome."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it costs milliseconds
if TYPE_CHECKING:
    from .client.asynchronous import AsyncClient
    from .client.sync import Client
    from .errors import (
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
    from .journal.facts import Fact
    from .journal.reader import Chunk
    from .ladder import Rung
    from .outcome import Outcome
    from .result import Result
    from .spec import RunSpec, make_spec
    from .supervisor import Run, Supervisor
    from .sync import run

# Imported when first asked for: the command line needs a part only, and anyio alone costs as much as the interpreter.
_HOME = {
    "AmbiguousRunError": "errors",
    "AsyncClient": "client.asynchronous",
    "Chunk": "journal.reader",
    "Client": "client.sync",
    "ConfigError": "errors",
    "DaemonError": "errors",
    "DaemonUnreachableError": "errors",
    "DrainingError": "errors",
    "Fact": "journal.facts",
    "GuardError": "errors",
    "HoldfastError": "errors",
    "IdempotencyConflictError": "errors",
    "JournalDamagedError": "errors",
    "JournalError": "errors",
    "JournalVersionError": "errors",
    "Outcome": "outcome",
    "QueueFullError": "errors",
    "RequestError": "errors",
    "ResourceError": "errors",
    "Result": "result",
    "Run": "supervisor",
    "RunError": "errors",
    "RunExistsError": "errors",
    "RunNotFoundError": "errors",
    "RunSpec": "spec",
    "Rung": "ladder",
    "SessionClosedError": "errors",
    "SpecError": "errors",
    "StateError": "errors",
    "StateVersionError": "errors",
    "Supervisor": "supervisor",
    "UnauthorizedError": "errors",
    "UnsupportedPlatformError": "errors",
    "make_spec": "spec",
    "run": "sync",
}

__all__ = [
    "AmbiguousRunError",
    "AsyncClient",
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
    "Outcome",
    "QueueFullError",
    "RequestError",
    "ResourceError",
    "Result",
    "Run",
    "RunError",
    "RunExistsError",
    "RunNotFoundError",
    "RunSpec",
    "Rung",
    "SessionClosedError",
    "SpecError",
    "StateError",
    "StateVersionError",
    "Supervisor",
    "UnauthorizedError",
    "UnsupportedPlatformError",
    "make_spec",
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
