"""SQL in files: migrations are applied whole and once, and names are unique."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from holdfast.sqlite import database, sql_files

if TYPE_CHECKING:
    from pathlib import Path


def test_a_migration_is_all_or_nothing_and_comes_once(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_a.sql").write_text("CREATE TABLE a (x);\n-- why\nINSERT INTO a\nVALUES (1);\n")
    connection = sqlite3.connect(tmp_path / "index", isolation_level=None)
    database.migrate(connection, sql_files.load_migrations(str(folder)))
    (folder / "0002_b.sql").write_text("ALTER TABLE a ADD COLUMN y;\nINSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(sqlite3.OperationalError):
        database.migrate(connection, sql_files.load_migrations(str(folder)))
    assert connection.execute("SELECT * FROM a").fetchall() == [(1,)]
    (folder / "0002_b.sql").write_text("ALTER TABLE a ADD COLUMN y DEFAULT 2;\n")
    for _ in range(2):
        database.migrate(connection, sql_files.load_migrations(str(folder)))
    assert connection.execute("SELECT * FROM a").fetchall() == [(1, 2)]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    (folder / "0002_b.sql").rename(folder / "0003_b.sql")
    with pytest.raises(ValueError, match="not numbered"):
        sql_files.load_migrations(str(folder))
    connection.close()


def test_names_are_used_once(tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_text("-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;\n")
    with pytest.raises(ValueError, match="two"):
        sql_files.load_named(str(path))
