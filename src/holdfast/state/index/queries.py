"""The SQL of the index: named statements, schema and migrations, loaded from `sql/`."""

from __future__ import annotations

import os

from ...sqlite.sql_files import load_migrations, load_named, load_script

_SQL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql")
STATEMENTS = load_named(os.path.join(_SQL, "queries.sql"))


def schema() -> list[str]:
    """The statements that make an empty index."""
    return load_script(os.path.join(_SQL, "schema.sql"))


def migrations() -> list[tuple[int, list[str]]]:
    """The migrations of the index, in order; the last number is the version of the schema."""
    return load_migrations(os.path.join(_SQL, "migrations"))
