"""Run ids: unique, safe, and in the order of time."""

from __future__ import annotations

import re
import time

import pytest

from holdfast.values.run_id import check_run_id, new_run_id


def test_run_ids_are_unique_safe_and_sort_by_time() -> None:
    ids = [new_run_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(re.fullmatch("[0-9a-hjkmnp-tv-z]{20}", run_id) and check_run_id(run_id) for run_id in ids)
    assert [run_id[:10] for run_id in ids] == sorted(run_id[:10] for run_id in ids)


def test_an_older_run_sorts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    ids = []
    for milliseconds in (0, 1, 31, 32, 1000, 10**9, 10**12):
        monkeypatch.setattr(time, "time_ns", lambda at=now + milliseconds * 1_000_000: at)
        ids.append(new_run_id())
    assert ids == sorted(ids)
