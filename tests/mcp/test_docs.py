"""The example of docs/mcp.md is a program, and it prints what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ..test_readme import BOUND_S, ROOT, agrees, blocks, printed

if TYPE_CHECKING:
    from pathlib import Path

    from ..test_readme import Block

PROGRAMS = [block for block in blocks(ROOT / "docs" / "mcp.md") if block.language == "python"]


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_python(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(block.text)
    # The example calls `holdfast`; here that is the one under test, installed or not.
    command = tmp_path / "bin" / "holdfast"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast.cli.main "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert agrees(printed(block.text), done.stdout), done.stdout


def test_control_there_is_an_example() -> None:
    assert [len(printed(block.text).splitlines()) for block in PROGRAMS] == [4]
