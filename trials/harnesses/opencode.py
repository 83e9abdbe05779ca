"""OpenCode: `opencode run` against chat completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigs.harnesses import RIGS

from trials.wires.chat import ChatCompletions
from trials.wires.wire import Call

from .harness import KEY, PROMPT, SERVER, Place, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence


class OpenCode:
    """OpenCode. Its tool `bash` has a time limit as an argument."""

    name = "OpenCode"
    key = "opencode"
    rig = RIGS["opencode"]
    wire = ChatCompletions()

    def settle(self, place: Place, server: Sequence[str], *, limited: bool) -> dict[str, str]:
        """Everything is in `opencode.json`."""
        del limited
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"{place.url}/v1", "apiKey": KEY},
            "models": {"scripted": {"name": "scripted"}},
        }
        settings: dict[str, Any] = {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "provider": {"scripted": provider},
        }
        if server:
            settings["mcp"] = {SERVER: {"type": "local", "command": list(server)}}
        write_json(place.home / ".config" / "opencode" / "opencode.json", settings)
        return {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }

    def command(self, *, resumed: bool) -> list[str]:
        """A session of one prompt."""
        return [str(self.rig.path), "run", *(["--continue"] if resumed else []), PROMPT]

    def shell(self, command: str, timeout_s: float | None) -> Call:
        """The tool `bash`."""
        limit = {} if timeout_s is None else {"timeout": round(timeout_s * 1000)}
        return Call("bash", {"command": command, "description": "Run the trial", **limit})
