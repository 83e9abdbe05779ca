"""Agent card: what an A2A client reads first about an agent."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ....config import Agent

PROTOCOL_VERSION = "1.0"
TEXT = "text/plain"
_TOKEN = "token"


def card_of(agent: Agent, url: str) -> dict[str, Any]:
    """The card of an agent that is served at this address."""
    skill = {"id": agent.name, "name": agent.name, "description": agent.description, "tags": ["agent"]}
    return {
        "name": agent.name,
        "description": agent.description,
        "version": version("holdfast"),
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL_VERSION}],
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": False},
        "securitySchemes": {_TOKEN: {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {_TOKEN: {"list": []}}}],
        "defaultInputModes": [TEXT],
        "defaultOutputModes": [TEXT],
        "skills": [skill],
    }
