"""The example of docs/mcp.md is a program, and it prints what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..support.documented import prints_what_it_says, programs

if TYPE_CHECKING:
    from pathlib import Path


def test_the_example(tmp_path: Path) -> None:
    (program,) = programs("mcp.md")
    prints_what_it_says(program, tmp_path)
