"""Who imports whom: every import of a package's own modules, read from the source without running it.

An import inside a function and an import for type checkers count as much as one at the top: all of them make the
importing module depend on the other. `import_module` counts, too, when its argument begins with the package's name:
with a name that is only known at run time, the module depends on every module of that package.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple


class Import(NamedTuple):
    """One dependency: `module` imports `target`, in this line."""

    module: str
    target: str
    line: int


class Package(NamedTuple):
    """The modules of one package by their dotted names. `packages` are modules that hold others."""

    name: str
    modules: dict[str, Path]
    packages: frozenset[str]

    @classmethod
    def at(cls, root: Path, name: str) -> Package:
        """The package of this name below `root`."""
        modules: dict[str, Path] = {}
        packages: set[str] = set()
        for path in sorted((root / name).rglob("*.py")):
            parts = list(path.relative_to(root).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
                packages.add(".".join(parts))
            modules[".".join(parts)] = path
        return cls(name, modules, frozenset(packages))

    def imports(self) -> list[Import]:
        """Every import of one of these modules by another."""
        return [found for module in self.modules for found in self._imports_of(module) if found.target != module]

    def first_line(self, module: str) -> str:
        """The first line of the module's docstring."""
        text = ast.get_docstring(ast.parse(self.modules[module].read_text()))
        return text.splitlines()[0] if text else ""

    def _imports_of(self, module: str) -> list[Import]:
        nodes = ast.walk(ast.parse(self.modules[module].read_text()))
        return [
            Import(module, target, getattr(node, "lineno", 0))
            for node in nodes
            for target in self._targets(module, node)
        ]

    def _targets(self, module: str, node: ast.AST) -> list[str]:
        match node:
            case ast.Import(names):
                return [alias.name for alias in names if alias.name in self.modules]
            case ast.ImportFrom(source, names, level):
                base = self._base(module, level or 0, source)
                named = [f"{base}.{alias.name}" for alias in names]
                wanted = [name if name in self.modules else base for name in named]
                return [name for name in wanted if name in self.modules]
            case ast.Call(ast.Name("import_module"), [argument, *_]):
                return self._by_prefix(_literal_prefix(argument))
            case _:
                return []

    def _base(self, module: str, level: int, source: str | None) -> str:
        if level == 0:
            return source or ""
        base = module if module in self.packages else module.rpartition(".")[0]
        for _ in range(level - 1):
            base = base.rpartition(".")[0]
        return f"{base}.{source}" if source else base

    def _by_prefix(self, prefix: str) -> list[str]:
        if prefix in self.modules:
            return [prefix]
        if not prefix.startswith(f"{self.name}."):
            return []
        return [name for name in self.modules if name.startswith(prefix) and "." not in name[len(prefix) :]]


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach each other, each sorted; none when the edges go one way."""
    reached = {node: _reach(node, edges) for node in edges}
    groups = {
        tuple(sorted({node, *(other for other in reached[node] if node in reached.get(other, ()))})) for node in edges
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _reach(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for target in edges.get(left.pop(), ()):
            if target not in seen:
                seen.add(target)
                left.append(target)
    return seen


def _literal_prefix(argument: ast.expr) -> str:
    match argument:
        case ast.Constant(str() as text):
            return text
        case ast.JoinedStr([ast.Constant(str() as text), *_]):
            return text
        case _:
            return ""
