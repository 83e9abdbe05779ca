"""Journals of every format version that was ever released load for ever, with the report they had then.

Each `NAME.journal` here has a `NAME.json` beside it: the report at the time it was stored. Fields may be added to
reports later; existing fields keep their values. Add files, never change them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.journal.facts import VERSION
from holdfast.journal.reader import JournalReader
from holdfast.projections.report import report

STORED = sorted(Path(__file__).parent.glob("*.journal"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_an_old_journal_loads_with_the_report_it_had(path: Path) -> None:
    with path.open("rb") as file:
        reader = JournalReader(file.fileno())
        reader.scan()
        output = {stream: reader.collect(stream).decode() for stream in ("stdout", "stderr")}
    assert reader.damage is None
    assert reader.ended
    expected = json.loads(path.with_suffix(".json").read_text())
    now = json.loads(json.dumps(report(reader.header, reader.spec, reader.facts)))
    assert output == expected["collected"]
    assert {field: now[field] for field in expected["report"]} == expected["report"]


def test_every_version_up_to_ours_is_stored() -> None:
    versions = {int.from_bytes(path.read_bytes()[8:12], "little") for path in STORED}
    assert versions == set(range(1, VERSION + 1))
