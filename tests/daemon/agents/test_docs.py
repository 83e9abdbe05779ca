"""docs/agents.md: its agents are served by a daemon, and its programs print what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ...support.agents import listening
from ...support.documented import programs
from ...support.web import port_of
from ...test_readme import BOUND_S, ROOT, agrees, blocks, printed

if TYPE_CHECKING:
    from pathlib import Path

    from ...test_readme import Block


@pytest.mark.parametrize("block", programs("agents.md"), ids=str)
def test_the_manual(block: Block, tmp_path: Path) -> None:
    state = tmp_path / ".local" / "state" / "holdfast"
    state.mkdir(mode=0o700, parents=True)
    (settings,) = (found for found in blocks(ROOT / "docs" / "agents.md") if found.language == "toml")
    (state / "config.toml").write_text(settings.text)
    with listening(state) as running:
        program = tmp_path / "program.py"
        program.write_text(block.text.replace("127.0.0.1:7300", f"127.0.0.1:{port_of(running)}"))
        done = subprocess.run(
            [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", str(program)],  # the token's file
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert printed(block.text)
    assert agrees(printed(block.text), done.stdout), done.stdout
