"""The beginning of a journal is cached for runs that are alike; fields that differ between runs never are."""

from __future__ import annotations

import os
from typing import Any

from holdfast.journal.beginning import beginning
from holdfast.journal.reader import JournalReader
from holdfast.values.spec import make_spec, public_spec


def read_back(begun: bytes) -> dict[str, Any]:
    fd = os.memfd_create("journal")
    try:
        os.write(fd, begun)
        reader = JournalReader(fd)
        reader.scan()
        assert reader.spec is not None
        return reader.spec
    finally:
        os.close(fd)


def test_each_has_its_own_command_id_and_time_in_the_queue() -> None:
    common: dict[str, Any] = {"timeout": 5, "labels": {"k": "v"}}
    specs = [
        make_spec(["one"], run_id="a", queued_at="2026-01-01T00:00:00Z", **common),
        make_spec(["two"], run_id="b", queued_at="2026-01-02T00:00:00Z", **common),
        make_spec(["three"], run_id="c", **common),
        make_spec(["four"], run_id="d", timeout=6),
    ]
    for spec, found in zip(specs, [read_back(beginning(spec)) for spec in specs], strict=True):
        expected = {name: value for name, value in public_spec(spec).items() if value not in (None, False, [])}
        assert found == {**expected, "started_in": os.getcwd()}
