"""Programs of the manual, run as a reader would run a copy."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from ..test_readme import BOUND_S, ROOT, agrees, blocks, printed

if TYPE_CHECKING:
    from pathlib import Path

    from ..test_readme import Block


def programs(page: str) -> list[Block]:
    """The Python programs of a page of the manual."""
    return [block for block in blocks(ROOT / "docs" / page) if block.language == "python"]


def prints_what_it_says(block: Block, directory: Path) -> None:
    """Run it in this directory; AssertionError if it fails, warns, or prints something else than the page says."""
    program = directory / "program.py"
    program.write_text(block.text)
    # An example may call `holdfast`; here that is the version under test, installed or not.
    command = directory / "bin" / "holdfast"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast.cli.main "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=directory,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert printed(block.text), "it does not say what it prints"
    assert agrees(printed(block.text), done.stdout), done.stdout
