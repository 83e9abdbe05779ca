"""The TypeScript client in a Node process of its own: built, started, and asked by lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .daemons import BOUND_S

if TYPE_CHECKING:
    from typing import Self

PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"
_HARNESS = Path(__file__).with_name("harness.mjs")
_BUILD_S = 300


def built() -> Path:
    """The package, built from this tree unless it is already. AssertionError with the output if the build fails."""
    command = [str(PACKAGE / "scripts" / "build"), sys.executable]
    build = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    assert build.returncode == 0, f"the TypeScript client does not build:\n{build.stdout}{build.stderr}"
    return PACKAGE


class Harness:
    """A program that uses the client: `run()`, and a daemon's client. Not for several threads."""

    def __init__(self, state_dir: Path) -> None:
        client = built() / "dist" / "src" / "index.js"
        command = ["node", str(_HARNESS), str(client), str(state_dir), sys.executable]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, do: str, **arguments: Any) -> Any:
        """Let it do one thing, and return the result. AssertionError if that failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "failed" not in answer, answer
        return answer["answer"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=BOUND_S)
