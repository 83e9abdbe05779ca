"""Makes the tables and the picture of `docs/architecture.md` from the code: `make architecture`.

What a room or a module holds is said once, in the first line of its docstring; what a room may use stands in
`tools/rooms.py`. The page repeats both between two comments, and `tests/test_architecture.py` compares them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .imports import Package
from .rooms import ROOMS, ROOT, room_of

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "architecture.md"
NATIVE = PROJECT / "native"
_WIDTH = 100  # of the picture


def main() -> int:
    """Write the page anew; the exit code is 0."""
    PAGE.write_text(renewed(PAGE.read_text()))
    return 0


def renewed(page: str) -> str:
    """The page with its made parts made again. KeyError: it has a part that nothing makes."""
    package = Package.at(PROJECT / "src", "holdfast")
    parts = {
        "picture": _picture(),
        "rooms": _rooms(package),
        "modules": _modules(package),
        "native": _native(),
    }

    def replace(found: re.Match[str]) -> str:
        return f"<!-- {found[1]}: by `make architecture` -->\n\n{parts[found[1]]}\n<!-- end of {found[1]} -->"

    return re.sub(r"<!-- (\w+): by `make architecture` -->.*?<!-- end of \1 -->", replace, page, flags=re.DOTALL)


def levels() -> list[list[str]]:
    """The rooms by their height: each level only uses rooms of the levels before it."""
    height: dict[str, int] = {}
    for room, uses in ROOMS.items():
        height[room] = 1 + max((height[used] for used in uses.split()), default=-1)
    return [[room for room in ROOMS if height[room] == level] for level in range(max(height.values()) + 1)]


def _picture() -> str:
    lines = []
    for level in reversed(levels()):
        row = ""
        for room in level:
            box = f"[{room}]"
            if row and len(row) + 2 + len(box) > _WIDTH:
                lines.append(row)
                row = ""
            row = f"{row}  {box}" if row else box
        lines.append(row)
        lines.append("")
    return "```text\n" + "\n".join(lines).rstrip() + "\n```\n"


def _rooms(package: Package) -> str:
    rows = ["| room | holds | uses |", "|---|---|---|"]
    for room, uses in ROOMS.items():
        module = package.name if room == ROOT else f"{package.name}.{room}"
        used = " ".join(f"`{name}`" for name in uses.split()) or "nothing"
        rows.append(f"| {_named(module, package)} | {package.first_line(module)} | {used} |")
    return "\n".join(rows) + "\n"


def _modules(package: Package) -> str:
    parts = []
    for room in ROOMS:
        inside = [module for module in package.modules if room_of(module, package) == room]
        inside = [module for module in inside if module not in package.packages]
        if not inside or inside == [f"{package.name}.{room}"]:
            continue  # a module that stands beside the folders
        rows = [f"### `{room.replace('.', '/')}/`", "", "| file | what is in it |", "|---|---|"]
        rows += [f"| `{module.rpartition('.')[2]}.py` | {package.first_line(module)} |" for module in inside]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _named(module: str, package: Package) -> str:
    if module == package.name:
        return "`holdfast/__init__.py`"
    path = module.removeprefix(f"{package.name}.").replace(".", "/")
    return f"`{path}/`" if module in package.packages else f"`{path}.py`"


def _native() -> str:
    rows = ["| file | what is in it |", "|---|---|"]
    names = sorted({path.stem for path in NATIVE.glob("*.[ch]")})
    for name in names:
        files = " ".join(f"`{path.name}`" for path in sorted(NATIVE.glob(f"{name}.[ch]")))
        rows.append(f"| {files} | {_native_line(name)} |")
    return "\n".join(rows) + "\n"


def _native_line(name: str) -> str:
    """The first sentence of a file's first comment; the header's when there is one."""
    for suffix in (".h", ".c"):
        path = NATIVE / f"{name}{suffix}"
        if path.exists() and (found := re.match(r"/\*\s*\**\s*(.+?)\s*(\*/)?$", path.read_text(), re.MULTILINE)):
            return found[1].strip()
    return ""


if __name__ == "__main__":
    sys.exit(main())
