"""`docs/architecture.md` says what the code says: its tables are made from it, and every file it names is there."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest
from tools.architecture import NATIVE, PAGE, levels, renewed
from tools.imports import Package
from tools.rooms import ROOMS

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "holdfast"
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_FILE = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|c|h|sql))`")


@pytest.fixture(scope="module")
def known_names() -> frozenset[str]:
    """The names of all files of the code: a page may leave out the folder that it speaks of."""
    folders = ("src", "native", "tests", "bench", "chaos", "conformance", "rigs", "trials", "examples", "tools")
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


class TestPartners:
    """Each module has a test file at its mirrored path, or a row in CONTRIBUTING.md that says where it is tested."""

    def rows(self) -> list[tuple[list[str], list[str]]]:
        text = (ROOT / "CONTRIBUTING.md").read_text()
        part = text.partition("<!-- tested elsewhere -->")[2].partition("<!-- end of tested elsewhere -->")[0]
        cells = [line.strip("| \n").split(" | ") for line in part.splitlines() if line.startswith("| `")]
        return [(re.findall(r"`([^`]+)`", modules), re.findall(r"`([^`]+)`", tests)) for modules, tests, _why in cells]

    def alone(self) -> list[PurePosixPath]:
        modules = [path.relative_to(SRC) for path in SRC.rglob("*.py") if path.name != "__init__.py"]
        return [
            PurePosixPath(each) for each in modules if not (ROOT / "tests" / each.parent / f"test_{each.name}").exists()
        ]

    def test_every_module_has_one(self) -> None:
        patterns = [pattern for modules, _tests in self.rows() for pattern in modules]
        assert [
            str(module) for module in self.alone() if not any(_matches(module, pattern) for pattern in patterns)
        ] == []

    def test_no_row_is_old(self) -> None:
        alone = self.alone()
        for modules, tests in self.rows():
            assert [pattern for pattern in modules if not any(_matches(module, pattern) for module in alone)] == []
            assert [path for path in tests if not (ROOT / path).exists()] == []


def _matches(module: PurePosixPath, pattern: str) -> bool:
    return len(module.parts) == len(PurePosixPath(pattern).parts) and module.match(pattern)
