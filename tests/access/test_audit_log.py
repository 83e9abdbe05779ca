"""The audit log as files: appended only, shared by processes, bounded, and read back page by page."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.access import audit_log
from holdfast.access.audit_log import AuditLog, AuditRecord
from holdfast.access.audit_reader import AuditFilter, read_page
from holdfast.access.refusal_bound import RefusalBound
from holdfast.values.errors import SpecError
from holdfast.values.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL = AuditFilter()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(0o700)
    return path


@pytest.fixture
def log(state: Path) -> Iterator[AuditLog]:
    log = AuditLog(str(state))
    yield log
    log.close()


def actions(state: Path, wanted: AuditFilter = ALL) -> list[str]:
    return [record["action"] for record in read_page(str(state), wanted, 1000).records]


def test_records_are_read_newest_first_and_page_by_page(state: Path, log: AuditLog) -> None:
    assert read_page(str(state), ALL, 10) == ([], None)
    for number in range(25):
        log.record(AuditRecord(f"POST /{number}", "socket", user=0, pid=1, status=200))
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page, cursor = read_page(str(state), ALL, 10, cursor)
        seen += [record["action"] for record in page]
        pages += 1
        log.record(AuditRecord("POST /later", "socket"))  # a record that comes meanwhile shifts nothing
    assert seen == [f"POST /{number}" for number in reversed(range(25))]
    assert pages == 3


def test_the_files_are_for_our_user_only_and_begun_anew_when_they_are_large(
    state: Path, monkeypatch: pytest.MonkeyPatch, log: AuditLog
) -> None:
    monkeypatch.setattr(audit_log, "_LARGEST_FILE", 1000)
    for number in range(20):
        log.record(AuditRecord(f"POST /{number}", "socket"))
    files = sorted((state / "audit").iterdir())
    assert len(files) > 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((state / "audit").stat().st_mode) == 0o700
    assert actions(state) == [f"POST /{number}" for number in reversed(range(20))]


def test_nothing_that_was_written_is_ever_changed(state: Path, log: AuditLog) -> None:
    before = b""
    for number in range(10):
        log.record(AuditRecord(f"POST /{number}", "socket"))
        (file,) = (state / "audit").iterdir()
        assert file.read_bytes().startswith(before)
        before = file.read_bytes()


def test_processes_that_write_at_once_tear_no_record(state: Path) -> None:
    writes = """
import sys
from holdfast.access.audit_log import AuditLog, AuditRecord
log = AuditLog(sys.argv[1])
for number in range(300):
    log.record(AuditRecord(f"POST /{sys.argv[2]}/{number}" + "x" * 100, "socket"))
"""
    started = [subprocess.Popen([sys.executable, "-c", writes, str(state), str(number)]) for number in range(3)]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    (file,) = (state / "audit").iterdir()
    lines = file.read_text().splitlines()
    assert len(lines) == 900
    assert all(json.loads(line)["by"] == "socket" for line in lines)


def test_a_torn_record_costs_only_itself(state: Path, log: AuditLog) -> None:
    log.record(AuditRecord("POST /first", "socket"))
    log.close()
    (file,) = (state / "audit").iterdir()
    with file.open("ab") as torn:
        torn.write(b'{"at":"2026-')
    log.record(AuditRecord("POST /second", "socket"))
    assert actions(state) == ["POST /second", "POST /first"]


def test_a_record_that_cannot_be_written_is_counted_and_told(state: Path, log: AuditLog) -> None:
    (state / "audit").write_text("in the way")
    log.record(AuditRecord("POST /first", "socket"))
    log.record(AuditRecord("POST /second", "socket"))
    assert "2 records are lost" in "".join(log.shortages())
    (state / "audit").unlink()
    log.record(AuditRecord("POST /third", "socket"))
    assert list(log.shortages()) == []
    (record,) = read_page(str(state), ALL, 10).records
    assert record["lost"] == 2


def test_a_file_that_was_removed_is_begun_again(state: Path, log: AuditLog) -> None:
    log.record(AuditRecord("POST /first", "socket"))
    next((state / "audit").iterdir()).unlink()
    log.record(AuditRecord("POST /second", "socket"))
    assert actions(state) == ["POST /second"]


@pytest.mark.root
def test_a_link_of_another_user_leads_nowhere(state: Path, tmp_path: Path, log: AuditLog) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (state / "audit").symlink_to(elsewhere)
    os.chown(state / "audit", 65534, 65534, follow_symlinks=False)
    log.record(AuditRecord("POST /", "socket"))
    assert list(elsewhere.iterdir()) == []
    assert "belongs to user 65534" in "".join(log.shortages())


def test_old_files_go_by_age_and_by_size_and_the_log_says_so(state: Path, log: AuditLog) -> None:
    directory = state / "audit"
    directory.mkdir(0o700)
    record = json.dumps({"at": "2026-01-01T00:00:00.000000Z", "action": "POST /old", "by": "socket"}) + "\n"
    for name in ("2026-01-01.00000", "2026-01-01.00001", "2026-01-02.00000"):
        (directory / f"{name}.jsonl").write_text(record)
    log.record(AuditRecord("POST /new", "socket"))
    assert log.prune(None, None) == 0
    total = sum(file.stat().st_size for file in directory.iterdir())
    assert log.prune(None, total) == 0
    assert log.prune(None, total - 1) == 1
    assert log.prune(time.time_ns() - 86_400 * 10**9, None) == 2
    assert actions(state) == ["audit retention", "audit retention", "POST /new"]
    assert log.prune(time.time_ns(), 0) == 0  # the newest file stays


def test_filters(state: Path, log: AuditLog) -> None:
    log.record(AuditRecord("POST /v1/runs/a/cancel", "token", token="ci", status=200, run_id="a"))
    log.record(AuditRecord("POST /v1/runs", "token", token="ci", status=403))
    log.record(AuditRecord("POST /v1/runs", "socket", status=201, run_id="b"))
    now = format_timestamp(time.time_ns())
    assert len(actions(state, AuditFilter(token="ci"))) == 2
    assert actions(state, AuditFilter(run_id="a")) == ["POST /v1/runs/a/cancel"]
    assert actions(state, AuditFilter(action="cancel")) == ["POST /v1/runs/a/cancel"]
    assert actions(state, AuditFilter(by="socket")) == ["POST /v1/runs"]
    assert actions(state, AuditFilter(refused=True, token="ci")) == ["POST /v1/runs"]
    assert actions(state, AuditFilter(since=now)) == []
    assert len(actions(state, AuditFilter(until=now))) == 3


@pytest.mark.parametrize("cursor", ["", "x", "2026-01-01.00000.", "2026-01-01.00000.x", "../../etc/passwd", "."])
def test_a_foreign_cursor_is_refused(state: Path, cursor: str) -> None:
    with pytest.raises(SpecError):
        read_page(str(state), ALL, 10, cursor)


def test_a_stranger_who_is_refused_without_end_gets_few_records() -> None:
    now = [0.0]
    bound = RefusalBound(lambda: now[0])
    taken = [bound.take("192.0.2.1") for _ in range(10_000)]
    assert [count for count in taken if count is not None] == [0] * 10
    assert bound.take("192.0.2.2") == 9990  # another source is still recorded, and says what was left out
    now[0] += 10.0
    assert bound.take("192.0.2.1") == 0
    assert bound.take("192.0.2.1") is None


def test_many_strangers_together_get_few_records() -> None:
    now = [0.0]
    bound = RefusalBound(lambda: now[0])
    taken = [bound.take(f"source {number}") for number in range(5000)]
    assert len([count for count in taken if count is not None]) == 100
    now[0] += 86_400.0
    day = [bound.take(f"source {number}") for number in range(5000)]
    assert len([count for count in day if count is not None]) <= 100
    assert len(bound._sources) <= 1024  # noqa: SLF001 - its memory is what is asked
