"""docs/security.md: every promise names the test that shows it, and every named test exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def promises(text: str) -> list[str]:
    """The rows of the tables, without their heads."""
    return [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| cannot |")]


def unshown(text: str) -> list[str]:
    """The promises that name no test."""
    return [row for row in promises(text) if not NAMED.search(row.rsplit(" | ", 1)[1])]


def missing(text: str) -> list[str]:
    """The tests that are named and do not exist."""
    return [f"{file}::{name}" for file, name in NAMED.findall(text) if name not in functions_of(ROOT / "tests" / file)]


def functions_of(path: Path) -> set[str]:
    if not path.exists():
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}


def test_every_promise_names_a_test_that_exists() -> None:
    text = PAGE.read_text()
    assert len(promises(text)) > 30
    assert unshown(text) == []
    assert missing(text) == []


def test_a_second_user_is_one_where_the_page_says_so() -> None:
    """`by a second user`: one of the named files runs a program as `nobody`, or gives a file to that user."""
    for row in promises(PAGE.read_text()):
        if "by a second user" in row:
            files = {ROOT / "tests" / file for file, _ in NAMED.findall(row)}
            assert any(word in path.read_text() for path in files for word in ("as_nobody", "NOBODY")), row


def test_what_these_tests_look_for_is_found() -> None:
    page = "| cannot | shown by |\n|---|---|\n| do this | nothing |\n| that | `test_rooms.py::test_of_nothing` |\n"
    assert unshown(page) == ["| do this | nothing |"]
    assert missing(page) == ["test_rooms.py::test_of_nothing"]
    assert missing("`no/such_file.py::test_x`") == ["no/such_file.py::test_x"]
    assert missing("`test_security_page.py::test_what_these_tests_look_for_is_found`") == []
