"""The daemon's own file: shared commits, failures that affect one write, order, and files that are not ours."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.daemon.store.store import Store, statements
from holdfast.values.errors import StateError, StateVersionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SQL = statements("queue")


def put(run_id: str) -> Callable[[sqlite3.Connection], int | None]:
    values = {"run_id": run_id, "queued_ns": 1, "submission": b"{}"}
    return lambda connection: connection.execute(SQL["put"], values).lastrowid


def names(connection: sqlite3.Connection) -> list[str]:
    return [row[1] for row in connection.execute(SQL["all"])]


def test_what_waits_is_written_together_in_order_and_a_failure_undoes_itself_only(tmp_path: Path) -> None:
    def half(connection: sqlite3.Connection) -> None:
        put("half")(connection)
        raise ValueError("after it wrote something")

    async def main() -> list[Any]:
        store = Store.open(str(tmp_path / "file"))
        try:
            writes = [store.write(action) for action in (put("a"), half, put("a"), put("b"), lambda _: "answer")]
            answers = await asyncio.gather(*writes, return_exceptions=True)
            return [*answers, await store.read(names)]
        finally:
            store.close()

    first, failed, twice, second, answer, found = asyncio.run(main())
    assert (first, answer, found) == (1, "answer", ["a", "b"])
    assert second > first
    assert isinstance(failed, ValueError)
    assert isinstance(twice, StateError)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_what_was_handed_over_is_written_before_it_closes(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store.open(str(tmp_path / "file"))
        for number in range(700):  # more than fits into one transaction
            store.write(put(f"run-{number}"))
        store.close()
        with pytest.raises(StateError, match="is closed"):
            await store.write(put("late"))

    asyncio.run(main())
    connection = sqlite3.connect(tmp_path / "file")
    assert names(connection) == [f"run-{number}" for number in range(700)]
    connection.close()


def test_a_newer_file_and_one_of_another_program_are_refused_and_left_alone(tmp_path: Path) -> None:
    for pragma, error in (("user_version = 999", StateVersionError), ("application_id = 7", StateError)):
        path = tmp_path / pragma[:4]
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE theirs (x)")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(error):
            Store.open(str(path))
        assert path.read_bytes()[100:] == before[100:]
