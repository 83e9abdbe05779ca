"""The Agent Client Protocol (ACP): terminals as runs, and a proxy that gives prompts a deadline. Extra: `acp`.

    async with holdfast.acp.Terminals(timeout=600) as terminals: ...

gives an editor or a harness the five `terminal/*` methods of an ACP client. Version 2 has no terminals: its agents use
the client's MCP servers instead, and `holdfast mcp` is such a server. `holdfast acp -- AGENT` is the proxy; it needs
the extra only for terminals, so `Terminals` is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .terminals import Terminals

__all__ = ["Terminals"]


def __getattr__(name: str) -> Any:
    if name != "Terminals":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .terminals import Terminals

    return Terminals
