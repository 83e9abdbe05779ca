"""Claude Code: `claude -p` against the messages interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigs.harnesses import RIGS

from trials.wires.anthropic import Messages
from trials.wires.wire import Call

from .harness import KEY, PROMPT, SERVER, Place, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence


class ClaudeCode:
    """Claude Code. Its Bash tool has a time limit as an argument."""

    name = "Claude Code"
    key = "claude"
    rig = RIGS["claude"]
    wire = Messages()

    def settle(self, place: Place, server: Sequence[str], *, limited: bool) -> dict[str, str]:
        """Servers are in `~/.claude.json`, where `claude mcp add --scope user` writes them."""
        write_json(place.home / ".claude" / "settings.json", {})
        if server:
            entry = {"type": "stdio", "command": server[0], "args": list(server[1:]), "env": {}}
            write_json(place.home / ".claude.json", {"mcpServers": {SERVER: entry}})
        # By default the limit of the tool moves a command to the background, and nothing ends it.
        ends = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"} if limited else {}
        return {
            **ends,
            "ANTHROPIC_BASE_URL": place.url,
            "ANTHROPIC_API_KEY": KEY,
            "IS_SANDBOX": "1",  # root may skip permissions only then
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",  # the server's tools are offered at once
        }

    def command(self, *, resumed: bool) -> list[str]:
        """A session of one prompt, whose permissions are all given."""
        words = ["-p", PROMPT, "--output-format", "json", "--dangerously-skip-permissions"]
        return [str(self.rig.path), *(["--continue"] if resumed else []), *words]

    def shell(self, command: str, timeout_s: float | None) -> Call:
        """The tool `Bash`."""
        limit = {} if timeout_s is None else {"timeout": round(timeout_s * 1000)}
        return Call("Bash", {"command": command, "description": "Run the trial", **limit})
