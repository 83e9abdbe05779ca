"""A damaged store: moved aside, at the start and while the daemon runs; every readable row is kept."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.daemon.store.store import Store, statements

from ...support.daemons import daemon

if TYPE_CHECKING:
    from pathlib import Path

SQL = statements("queue")
KEYS = 3000
DIGEST = "d" * 64
PAGE = 4096


def fill(path: Path) -> None:
    """Many keys and events, two queued runs and one active one."""

    def put(connection: sqlite3.Connection) -> None:
        for number in range(KEYS):
            use = {"key": f"key-{number:06}", "digest": DIGEST, "run_id": f"run-{number:06}", "used_ns": 2**60 + number}
            connection.execute(SQL["use_key"], use)
            insert = "INSERT INTO events (at_ms, type, run_id, session, data) VALUES (?, 'run.queued', ?, NULL, ?)"
            connection.execute(insert, (number, f"run-{number:06}", b'{"number": %06d}' % number))
        for name in ("one", "two"):
            row = {"run_id": name, "queued_ns": 1, "submission": b"{}", "role": None, "uid": None}
            connection.execute(SQL["put"], row)
        connection.execute(SQL["begin"], {"run_id": "three", "queued_ns": 1, "concurrency_key": None})

    with_store(path, lambda store: store.write(put))


def with_store(path: Path, ask: Any) -> Any:
    async def main() -> Any:
        store = Store.open(str(path))
        try:
            return await ask(store), store.warnings
        finally:
            store.close()

    return asyncio.run(main())


def damage(path: Path, text: bytes) -> None:
    """Overwrite every page of the database that holds this text."""
    content = bytearray(path.read_bytes())
    assert text in content
    for page in range(0, len(content), PAGE):
        if text in content[page : page + PAGE]:
            content[page : page + PAGE] = b"\xa5" * PAGE
    with path.open("r+b") as file:
        file.write(content)


def rows(connection: sqlite3.Connection) -> dict[str, int]:
    tables = ("queue", "active", "idempotency", "events")
    return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


def test_a_damaged_page_costs_its_own_rows_only(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sqlite"
    fill(path)
    # Control: an undamaged file is kept as it is.
    found, warnings = with_store(path, lambda store: store.read(rows))
    assert (found, warnings) == ({"queue": 2, "active": 1, "idempotency": KEYS, "events": KEYS}, [])
    damage(path, b"key-001500")
    found, (warning,) = with_store(path, lambda store: store.read(rows))
    assert (found["queue"], found["active"], found["events"]) == (2, 1, KEYS)
    assert KEYS - 100 < found["idempotency"] < KEYS
    assert f"daemon.sqlite.damaged-1; rows that were kept: active 1, deliveries 0, events {KEYS}" in warning
    assert "rows of idempotency are lost: a post that is repeated with a lost key starts a second run" in warning
    assert b"key-000001" in (tmp_path / "daemon.sqlite.damaged-1").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["daemon.sqlite", "daemon.sqlite.damaged-1"]


def test_event_ids_have_no_gap_and_are_never_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sqlite"
    fill(path)
    damage(path, b'{"number": 001500}')

    def ids(connection: sqlite3.Connection) -> list[int]:
        connection.execute("INSERT INTO events (at_ms, type, data) VALUES (1, 'service.shutdown', x'')")
        return [number for (number,) in connection.execute("SELECT id FROM events ORDER BY id")]

    found, (warning,) = with_store(path, lambda store: store.write(ids))
    assert found == list(range(found[0], KEYS + 2))
    assert 1500 < found[0] < 1700
    assert "clients that were behind are told that events are missing" in warning


@pytest.mark.parametrize("content", [b"", b"no database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_without_a_readable_row(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "daemon.sqlite"
    path.write_bytes(content)
    path.chmod(0o600)
    found, warnings = with_store(path, lambda store: store.read(rows))
    assert set(found.values()) == {0}
    assert len(warnings) == (1 if content else 0), "an empty file is a new one"


def test_a_salvage_that_died_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sqlite"
    fill(path)
    damage(path, b"key-001500")
    (tmp_path / "daemon.sqlite.new").write_bytes(b"half")
    found, _ = with_store(path, lambda store: store.read(rows))
    assert found["queue"] == 2


def test_a_daemon_starts_and_keeps_keys_that_can_be_read(tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        first = running.submit(["true"], key="key-000000")["run_id"]
        running.wait(first)
    with sqlite3.connect(tmp_path / "s" / "daemon.sqlite") as connection:
        for number in range(1, KEYS):
            use = {"key": f"key-{number:06}", "digest": DIGEST, "run_id": f"run-{number:06}", "used_ns": 2**60 + number}
            connection.execute(SQL["use_key"], use)
    connection.close()
    damage(tmp_path / "s" / "daemon.sqlite", b"key-002500")
    with daemon(tmp_path / "s") as running:
        running.until_line(r"daemon.sqlite is damaged.*damaged-1.*rows of idempotency are lost")
        assert running.submit(["true"], key="key-000000")["run_id"] == first
        assert running.submit(["true"], key="key-002500")["run_id"] != "run-002500"
        assert running.request("GET", "/v1/runs").status == 200


def test_a_page_that_is_damaged_while_the_daemon_runs(tmp_path: Path) -> None:
    file = tmp_path / "s" / "daemon.sqlite"
    with daemon(tmp_path / "s") as running:
        first = running.submit(["true"], key="key-000000")["run_id"]
        running.wait(first)
        with sqlite3.connect(file, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            for number in range(1, KEYS):
                use = {"key": f"key-{number:06}", "digest": DIGEST, "run_id": "run", "used_ns": 2**60 + number}
                other.execute(SQL["use_key"], use)
            other.execute("COMMIT")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            damage(file, b"key-002500")
            # A commit of another connection: the daemon's connections read their pages again.
            other.execute(SQL["use_key"], {"key": "last", "digest": DIGEST, "run_id": "run", "used_ns": 1})
        other.close()
        answer = running.request("POST", "/v1/runs", {"argv": ["true"]}, {"Idempotency-Key": "key-002500"})
        assert answer.status == 201, answer
        running.until_line(r"daemon.sqlite is damaged.*damaged-1.*rows of idempotency are lost")
        assert running.submit(["true"], key="key-000000")["run_id"] == first
        assert (report := running.wait(answer.body["run_id"]))["exit_code"] == 0, str(report)
        assert running.request("GET", "/v1/runs").status == 200
