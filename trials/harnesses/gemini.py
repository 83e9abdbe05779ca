"""Gemini CLI: `gemini -p` against the generateContent interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigs.harnesses import RIGS

from trials.scenes import TOOL_LIMIT_S
from trials.wires.gemini import GenerateContent
from trials.wires.wire import Call

from .harness import KEY, PROMPT, SERVER, Place, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence


class GeminiCli:
    """Gemini CLI. A setting ends commands that are silent for a time."""

    name = "Gemini CLI"
    key = "gemini"
    rig = RIGS["gemini"]
    wire = GenerateContent()

    def settle(self, place: Place, server: Sequence[str], *, limited: bool) -> dict[str, str]:
        """Everything is in `settings.json`."""
        settings: dict[str, Any] = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "telemetry": {"enabled": False},
            "privacy": {"usageStatisticsEnabled": False},
            "tools": {"shell": {"inactivityTimeout": TOOL_LIMIT_S if limited else 60.0}},
        }
        if server:
            settings["mcpServers"] = {SERVER: {"command": server[0], "args": list(server[1:]), "trust": True}}
        write_json(place.home / ".gemini" / "settings.json", settings)
        return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": place.url}

    def command(self, *, resumed: bool) -> list[str]:
        """A session of one prompt, whose tools are all approved."""
        words = ["--yolo", "--skip-trust", "-m", "gemini-2.5-flash", "-p", PROMPT]
        return [str(self.rig.path), *(["--resume", "latest"] if resumed else []), *words]

    def shell(self, command: str, timeout_s: float | None) -> Call:
        """The tool `run_shell_command`; its limit is in the settings."""
        del timeout_s
        return Call("run_shell_command", {"command": command, "description": "Run the trial"})
