"""The SQL of the index: named statements and migrations, loaded from `sql/`."""

from __future__ import annotations

import os

from ...sqlite.sql_files import load_migrations, load_named

_SQL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql")
STATEMENTS = load_named(os.path.join(_SQL, "queries.sql"))


def migrations() -> list[tuple[int, list[str]]]:
    """The migrations that make the schema, in order. The last number is the version of the schema."""
    return load_migrations(os.path.join(_SQL, "migrations"))
