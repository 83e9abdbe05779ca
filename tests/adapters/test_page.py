"""The page of the drop-ins has the lines of every adapter before and after, and the names in them exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAMEWORKS = {
    match[1]: match[2].split(".")
    for match in re.finditer(
        r"^\| \[([^\]]+)\].*\| `([^`]+)` \|$", (ROOT / "docs/adapters.md").read_text(), re.MULTILINE
    )
}
LINES = {
    (match[2], match[3]): match[1].rstrip()
    for match in re.finditer(
        r"^(.+?)  +# ([^:\n]+): (before|after)$", (ROOT / "docs/compat.md").read_text(), re.MULTILINE
    )
}


def test_every_adapter_has_both_lines() -> None:
    modules = {path.stem for path in (ROOT / "src/holdfast/adapters").glob("*.py")}
    assert {module for module, _ in FRAMEWORKS.values()} == modules - {"__init__", "command_end", "line_server"}
    assert LINES.keys() == {(framework, when) for framework in FRAMEWORKS for when in ("before", "after")}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_line_after_names_what_the_adapter_has(framework: str) -> None:
    module, name = FRAMEWORKS[framework]
    source = (ROOT / "src/holdfast/adapters" / f"{module}.py").read_text()
    defined = {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef)}
    assert name in defined
    line = LINES[framework, "after"]
    assert name in line or "holdfast" in line  # a registered name: Inspect's sandbox, Jupyter's provisioner
    assert LINES[framework, "before"] != line
