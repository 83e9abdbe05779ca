"""The daemon's own file: shared commits, failures that affect one write, order, and files that are not ours."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.daemon.queue import queue_rows
from holdfast.daemon.store import store as store_module
from holdfast.daemon.store.store import Store, statements
from holdfast.sqlite import database, sql_files
from holdfast.values.errors import StateError, StateVersionError

if TYPE_CHECKING:
    from collections.abc import Callable

SQL = statements("queue")


def put(run_id: str) -> Callable[[sqlite3.Connection], int | None]:
    values = {"run_id": run_id, "queued_ns": 1, "submission": b"{}", "role": None, "uid": None}
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


def test_a_file_of_an_older_version_keeps_its_queue(tmp_path: Path) -> None:
    folder = Path(store_module.__file__).parent / "sql" / "migrations"
    older = sqlite3.connect(tmp_path / "file", isolation_level=None)
    database.migrate(older, sql_files.load_migrations(str(folder))[:3])
    older.execute("INSERT INTO queue (run_id, queued_ns, submission) VALUES ('old', 1, x'7b7d')")
    older.execute(f"PRAGMA application_id = {store_module.APPLICATION_ID}")
    older.close()
    (tmp_path / "file").chmod(0o600)

    async def main() -> list[queue_rows.QueueRow]:
        store = Store.open(str(tmp_path / "file"))
        try:
            return await store.read(queue_rows.queued)
        finally:
            store.close()

    assert asyncio.run(main()) == [queue_rows.QueueRow(1, "old", 1, b"{}", None, None)]


def secret_row(size: int) -> dict[str, Any]:
    return {"run_id": "r", "queued_ns": 1, "submission": b"hunter2 " * size, "role": None, "uid": None}


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
@pytest.mark.parametrize("size", [1, 5000], ids=["in a page", "in overflow pages"])
def test_the_values_of_a_started_run_are_in_no_page_and_not_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, protected: bool
) -> None:
    monkeypatch.setattr(store_module, "_EMPTY_LOG_S", 0.01 if protected else 3600.0)
    file, log = tmp_path / "file", tmp_path / "file-wal"
    emptied = threading.Semaphore(0)
    empty = store_module._empty_log  # noqa: SLF001

    def empty_and_tell(connection: sqlite3.Connection) -> bool:
        is_empty = empty(connection)
        emptied.release()
        return is_empty

    monkeypatch.setattr(store_module, "_empty_log", empty_and_tell)

    async def main() -> tuple[int, int]:
        store = Store.open(str(file))
        try:
            if not protected:
                await store.write(lambda connection: connection.execute("PRAGMA secure_delete = OFF").fetchone())
            await store.write(lambda connection: connection.execute(SQL["put"], secret_row(size)).rowcount)
            queued = _count(log, file)
            await store.write(lambda connection: connection.execute(SQL["drop"], {"run_id": "r"}).rowcount)
            while protected and log.stat().st_size:
                assert await asyncio.to_thread(emptied.acquire, timeout=30.0)
            return queued, _count(log, file)
        finally:
            store.close()

    queued, left = asyncio.run(main())
    assert queued > 0
    assert (left == 0) is protected


def test_a_killed_daemon_leaves_its_log_to_the_next_one_which_empties_it(tmp_path: Path) -> None:
    file, log = tmp_path / "file", tmp_path / "file-wal"
    asyncio.run(_open_and_close(file))
    keeper = sqlite3.connect(file, isolation_level=None)  # keeps the log, as a killed process does
    keeper.execute(SQL["put"], secret_row(1))
    keeper.execute(SQL["drop"], {"run_id": "r"})
    assert b"hunter2" in log.read_bytes()
    asyncio.run(_open_and_close(file))
    assert not log.exists() or not log.read_bytes()
    keeper.close()


async def _open_and_close(file: Path) -> None:
    Store.open(str(file)).close()


def _count(*files: Path) -> int:
    # The log first: what is moved from it to the file meanwhile is in the file.
    return sum(path.read_bytes().count(b"hunter2") for path in files if path.exists())
