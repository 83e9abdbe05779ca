"""SQL in files: named statements and numbered migrations."""

from __future__ import annotations

import os
import sqlite3

_NAME = "-- name: "


def load_named(path: str) -> dict[str, str]:
    """The named statements of a file, without comments and closing semicolons. ValueError: a name occurs twice."""
    found: dict[str, str] = {}
    for part in _read(path).split(_NAME)[1:]:
        name, _, text = part.partition("\n")
        if name in found:
            raise ValueError(f"{path} has two statements named {name!r}")
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
        found[name] = "\n".join(lines).strip().removesuffix(";")
    return found


def _load_script(path: str) -> list[str]:
    """The statements of a script, one by one. `executescript` would commit, and a migration is one transaction."""
    found, pending = [], ""
    for line in _read(path).splitlines(keepends=True):
        if not pending.strip() and (not line.strip() or line.startswith("--")):
            continue
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending.strip())
            pending = ""
    if pending.strip():
        raise ValueError(f"a statement has no end: {pending.strip()[:80]!r}")
    return found


def load_migrations(directory: str) -> list[tuple[int, list[str]]]:
    """Every migration of a directory with its number, in order. ValueError: the numbers have a gap."""
    names = sorted(name for name in os.listdir(directory) if name.endswith(".sql"))
    found = [(int(name.partition("_")[0]), _load_script(os.path.join(directory, name))) for name in names]
    if [number for number, _ in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations in {directory} are not numbered 1 to {len(found)}: {', '.join(names)}")
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
