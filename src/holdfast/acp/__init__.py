"""Terminals of the Agent Client Protocol (ACP), version 1, as runs. Needs the extra `acp`.

    async with holdfast.acp.Terminals(timeout=600) as terminals: ...

gives an editor or a harness the five `terminal/*` methods of an ACP client. Version 2 has no terminals: its agents use
the client's MCP servers instead, and `holdfast mcp` is such a server.
"""

from __future__ import annotations

from .terminals import Terminals

__all__ = ["Terminals"]
