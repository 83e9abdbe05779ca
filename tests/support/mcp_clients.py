"""Real MCP clients in processes of their own, with the SDKs of Python and TypeScript, and the reference server."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.console import read_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

SDK, SERVER = "@modelcontextprotocol/sdk", "@modelcontextprotocol/server-everything"
VERSIONS = {SDK: "1.32.2", SERVER: "2026.8.31"}
_ROOT = Path(__file__).parents[2]
PACKAGES = _ROOT / "build" / "mcp-clients"
_INSTALL_S = 300
_PYTHON = Path(__file__).with_name("mcp_client.py")
_TYPESCRIPT = Path(__file__).with_name("mcp_client.mjs")
CLIENTS = ("python", "typescript")


def installed() -> Path:
    """The directory with both packages, from npm unless they are there. AssertionError if that fails."""
    PACKAGES.mkdir(parents=True, exist_ok=True)
    with (PACKAGES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers of the tests may want them at once
        manifest = json.dumps({"private": True, "type": "module", "dependencies": VERSIONS})
        stamp = PACKAGES / "node_modules" / ".installed"
        if not stamp.exists() or stamp.read_text() != manifest:
            (PACKAGES / "package.json").write_text(manifest)
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
            done = subprocess.run(command, cwd=PACKAGES, capture_output=True, timeout=_INSTALL_S, check=False)
            assert done.returncode == 0, done
            stamp.write_text(manifest)
    return PACKAGES


def everything(*, by_npx: bool = True) -> list[str]:
    """The reference server, started as users start it: npx starts a shell, and the shell starts node. Or quickly."""
    if not by_npx:
        return ["node", str(installed() / "node_modules" / SERVER / "dist" / "index.js"), "stdio"]
    return ["npx", "--no", "--prefix", str(installed()), "mcp-server-everything", "stdio"]


class McpClient:
    """A client process that has connected to a server. It tells what it saw, and closes when its stdin ends."""

    def __init__(self, language: str, server: Sequence[str]) -> None:
        program = [sys.executable, str(_PYTHON)]
        if language == "typescript":
            program = ["node", str(_TYPESCRIPT), str(installed() / "node_modules" / SDK / "dist" / "esm")]
        self.process = subprocess.Popen([*program, *server], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.saw = self.ask()

    def ask(self, line: str = "") -> dict[str, Any]:
        """What it says next, after a line to it if there is one."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if line:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(read_until(self.process.stdout.fileno(), b"\n"))
        return answer

    def close(self) -> int:
        """Close it as its SDK does; returns its exit code."""
        self.process.communicate(timeout=60)
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
