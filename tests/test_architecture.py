"""`docs/architecture.md` says what the code says: its tables are made from it, and every file it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.architecture import NATIVE, PAGE, levels, renewed
from tools.imports import Package
from tools.rooms import ROOMS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_FILE = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|c|h|sql))`")


@pytest.fixture(scope="module")
def known_names() -> frozenset[str]:
    """The names of all files of the code: a page may leave out the folder that it speaks of."""
    folders = ("src", "native", "tests", "bench", "chaos", "conformance", "examples", "tools")
    return frozenset(path.name for folder in folders for path in (ROOT / folder).rglob("*.*"))


def test_the_made_parts_are_up_to_date() -> None:
    assert PAGE.read_text() == renewed(PAGE.read_text()), "run `make architecture`"


def test_a_changed_part_is_noticed() -> None:
    """The control: what somebody writes into a made part does not stay."""
    page = PAGE.read_text()
    assert renewed(page.replace("| `values/` |", "| `value/` |")) == page


def test_every_module_and_every_native_file_is_named() -> None:
    page = PAGE.read_text()
    package = Package.at(ROOT / "src", "holdfast")
    inside = [path.name for path in package.modules.values() if path.name != "__init__.py"]
    assert [name for name in [*inside, *(path.name for path in NATIVE.glob("*.[ch]"))] if f"`{name}`" not in page] == []


def test_every_module_says_what_is_in_it() -> None:
    package = Package.at(ROOT / "src", "holdfast")
    assert [name for name in package.modules if not package.first_line(name).endswith((".", "?"))] == []


def test_the_picture_goes_one_way() -> None:
    height = {room: level for level, rooms in enumerate(levels()) for room in rooms}
    assert all(height[used] < height[room] for room, uses in ROOMS.items() for used in uses.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_file_that_a_page_names_is_there(page: Path, known_names: frozenset[str]) -> None:
    places = (ROOT, ROOT / "src", ROOT / "src" / "holdfast", NATIVE, page.parent)
    named = _FILE.findall(page.read_text())
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    missing = [name for name in missing if "/" in name or name not in known_names]
    assert missing == []
