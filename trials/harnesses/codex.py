"""Codex: `codex exec` against the responses interface."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rigs.harnesses import RIGS

from trials.wires.responses import Responses
from trials.wires.wire import Call

from .harness import KEY, PROMPT, SERVER, Place

if TYPE_CHECKING:
    from collections.abc import Sequence


class Codex:
    """Codex. Its tool `exec_command` never ends a command: it answers after a while, and the command goes on."""

    name = "Codex"
    key = "codex"
    rig = RIGS["codex"]
    wire = Responses()

    def settle(self, place: Place, server: Sequence[str], *, limited: bool) -> dict[str, str]:
        """Everything is in `config.toml`."""
        del limited
        lines = [
            'model = "scripted"',
            'model_provider = "scripted"',
            "check_for_update_on_startup = false",
            "",
            "[model_providers.scripted]",
            'name = "scripted"',
            f'base_url = "{place.url}/v1"',
            'wire_api = "responses"',
            'env_key = "SCRIPTED_KEY"',
            "",
            "[analytics]",
            "enabled = false",
        ]
        if server:
            lines += ["", f"[mcp_servers.{SERVER}]", f"command = {json.dumps(server[0])}"]
            lines += [f"args = {json.dumps(list(server[1:]))}"]
        (place.home / ".codex").mkdir()
        (place.home / ".codex" / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {"SCRIPTED_KEY": KEY}

    def command(self, *, resumed: bool) -> list[str]:
        """A session of one prompt, without approvals."""
        free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [str(self.rig.path), "exec", *(["resume", "--last"] if resumed else []), *free, PROMPT]

    def shell(self, command: str, timeout_s: float | None) -> Call:
        """The tool `exec_command`; it yields at the time at which others have their limit."""
        limit = {} if timeout_s is None else {"yield_time_ms": round(timeout_s * 1000)}
        return Call("exec_command", {"cmd": command, **limit})
