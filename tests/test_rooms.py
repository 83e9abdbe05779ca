"""The table of rooms is the architecture: no import outside it, no row that nobody needs, no way back."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from tools.imports import Package, cycles
from tools.rooms import ROOMS, edges, room_of

SRC = Path(__file__).parents[1] / "src"
ALLOWED = {(room, used) for room, uses in ROOMS.items() for used in uses.split()}


@pytest.fixture(scope="module")
def package() -> Package:
    return Package.at(SRC, "holdfast")


def outside(package: Package, allowed: set[tuple[str, str]]) -> list[str]:
    return [
        f"{pair[0]} may not use {pair[1]}: {each.module}:{each.line} imports {each.target}"
        for pair, imports in edges(package.imports(), package).items()
        if pair not in allowed
        for each in imports
    ]


def module_cycles(package: Package) -> list[list[str]]:
    """A package that holds others is no module of its own here: importing a module imports its packages, too."""
    found: dict[str, set[str]] = {name: set() for name in package.modules}
    for each in package.imports():
        if each.target not in package.packages:
            found[each.module].add(each.target)
    return cycles(found)


def made(root: Path, **sources: str) -> Package:
    """A package `made` of these modules; `__` in a name stands for a dot."""
    for name, source in {"": "", **sources}.items():
        path = root.joinpath("made", *name.split("__")).with_suffix(".py") if name else root / "made" / "__init__.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(source)
    return Package.at(root, "made")


def test_every_module_stands_in_a_room(package: Package) -> None:
    assert {room_of(module, package) for module in package.modules} == set(ROOMS)


def test_no_import_leaves_the_table(package: Package) -> None:
    assert outside(package, ALLOWED) == []


def test_no_row_of_the_table_is_unused(package: Package) -> None:
    assert ALLOWED - set(edges(package.imports(), package)) == set()


def test_rooms_are_used_one_way() -> None:
    """Each room only uses rooms that stand above it in the table."""
    order = list(ROOMS)
    assert [(room, used) for room, used in ALLOWED if order.index(used) >= order.index(room)] == []


def test_modules_are_used_one_way(package: Package) -> None:
    assert module_cycles(package) == []


def test_a_class_name_stands_for_one_thing(package: Package) -> None:
    """Types of the wire keep the name that they have there; every other class has a name of its own."""
    counted: Counter[str] = Counter()
    for path in package.modules.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not _is_wire_type(node):
                counted[node.name] += 1
    assert [name for name, times in counted.items() if times > 1] == []


def _is_wire_type(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) == "msgspec.Struct" for base in node.bases)


class TestControls:
    """What the tests above look for is found where it is."""

    @pytest.mark.parametrize(
        "source",
        [
            "from ..high.tall import thing",
            "from made.high import tall",
            "import made.high.tall",
            "def later():\n    from ..high.tall import thing",
            "if TYPE_CHECKING:\n    from ..high.tall import thing",
            "def later(name):\n    import_module(f'made.high.{name}')",
            "import_module('made.high.tall')",
        ],
    )
    def test_an_import_against_the_table(self, tmp_path: Path, source: str) -> None:
        package = made(tmp_path, low__flat=source, high__tall="thing = 1")
        assert [line.split(":")[0] for line in outside(package, set())] == ["low may not use high"]
        assert outside(package, {("low", "high")}) == []

    def test_a_cycle_that_a_lazy_import_hides(self, tmp_path: Path) -> None:
        package = made(
            tmp_path,
            room__a="from .b import thing",
            room__b="def later():\n    from .c import thing",
            room__c="if TYPE_CHECKING:\n    from . import a",
            room__d="from .a import thing",
        )
        assert module_cycles(package) == [["made.room.a", "made.room.b", "made.room.c"]]
