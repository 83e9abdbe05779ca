"""Sentences name their subject: first lines of docstrings, first comments of native files, and the pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGES = ("src", "tools", "bench", "conformance", "chaos", "rigs", "trials")
NATIVE = sorted([*ROOT.glob("native/**/*.c"), *ROOT.glob("native/**/*.h")])
# Not CONTRIBUTING.md: it shows such sentences as examples of what to avoid.
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")])
# Subjects that stand for a thing instead of naming it. A reader has to find out first who or what is meant.
INDIRECT = re.compile(r"\b(whoever|what\s+is\s+no\b|those\s+that|of\s+whose|nobody's)\b", re.IGNORECASE)


def indirect(text: str) -> list[str]:
    """The indirect subjects in a text, which may be wrapped."""
    return [" ".join(found.split()) for found in INDIRECT.findall(text)]


def first_lines(module: Path) -> Iterator[tuple[int, str]]:
    """The first line of each docstring of a module, with its number."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        if isinstance(node, documented) and text:
            yield node.body[0].lineno, text.splitlines()[0]


def first_comment(source: str) -> str:
    """The first paragraph of the comment at the head of a C file."""
    comment = re.match(r"\s*(?:/\*(.*?)\*/|((?://[^\n]*\n)+))", source, re.DOTALL)
    words = (comment[1] or comment[2]) if comment else ""
    return re.split(r"\n\s*(?:\*|//)?\s*\n", words)[0]


def prose(page: str) -> str:
    """A page without its programs and sessions, and without words that it quotes."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`|\"[^\"\n]*\"", "", page, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_name_their_subject(package: str) -> None:
    modules = sorted(ROOT.joinpath(package).rglob("*.py"))
    lines = [(module, number, line) for module in modules for number, line in first_lines(module)]
    assert lines
    assert not [f"{module}:{number}: {line}" for module, number, line in lines if indirect(line)]


def test_native_files_name_their_subject() -> None:
    comments = {file.name: first_comment(file.read_text(encoding="utf-8")) for file in NATIVE}
    assert all(comments.values())
    assert not {name: comment for name, comment in comments.items() if indirect(comment)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_their_subject(page: Path) -> None:
    assert not indirect(prose(page.read_text(encoding="utf-8")))


class TestControls:
    """The negative controls: each kind of text is searched, and a plain one passes."""

    def test_a_docstring(self, tmp_path: Path) -> None:
        module = tmp_path / "module.py"
        module.write_text('def wake():\n    """Wakes those that wait for it.\n\n    Whoever that is.\n    """\n')
        ((number, line),) = first_lines(module)
        assert (number, indirect(line)) == (2, ["those that"])

    def test_a_native_file(self) -> None:
        assert indirect(first_comment("/* Told by whoever\n * is stopped.\n *\n * nobody's */\n")) == ["whoever"]
        assert indirect(first_comment("// What is no frame\n// is skipped.\nint main;\n")) == ["What is no"]

    def test_a_page(self) -> None:
        assert indirect(prose("The run of\nwhose key fewest take place.\n```\nwhoever\n```\n")) == ["of whose"]
        assert not indirect(prose("The guard skips a malformed frame. A page may quote `whoever`.\n"))
