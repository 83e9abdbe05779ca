"""SQL lives in files: named statements and pieces of them, the schema, and the numbered migrations."""

from __future__ import annotations

import os
import sqlite3

_SQL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql")
_NAME = "-- name: "


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def load(path: str = os.path.join(_SQL, "queries.sql")) -> dict[str, str]:
    """The named pieces of a file, without their comments and closing semicolons. ValueError for a name used twice."""
    found: dict[str, str] = {}
    for part in _read(path).split(_NAME)[1:]:
        name, _, text = part.partition("\n")
        if name in found:
            raise ValueError(f"{path} has two statements named {name!r}")
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
        found[name] = "\n".join(lines).strip().removesuffix(";")
    return found


def schema() -> list[str]:
    """The statements that make a fresh index."""
    return statements(_read(os.path.join(_SQL, "schema.sql")))


def migrations(directory: str = os.path.join(_SQL, "migrations")) -> list[tuple[int, list[str]]]:
    """Every migration with its number, in order. ValueError when the numbers have a gap."""
    names = sorted(name for name in os.listdir(directory) if name.endswith(".sql"))
    found = [(int(name.partition("_")[0]), statements(_read(os.path.join(directory, name)))) for name in names]
    if [number for number, _ in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations in {directory} are not numbered 1 to {len(found)}: {', '.join(names)}")
    return found


def statements(script: str) -> list[str]:
    """The single statements of a script: `executescript` would commit, and a migration is one transaction."""
    found, pending = [], ""
    for line in script.splitlines(keepends=True):
        if not pending.strip() and (not line.strip() or line.startswith("--")):
            continue
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending.strip())
            pending = ""
    if pending.strip():
        raise ValueError(f"a statement has no end: {pending.strip()[:80]!r}")
    return found
