"""The owners' own test suites pass on our drop-ins, but for the table of exceptions, which is held both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .exceptions import EXCEPTIONS, LEAST, SKIPS
from .owners import SUITES, Seen, run_suite

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("suite", SUITES)
def test_the_owners_suite_passes_but_for_the_table(suite: str, tmp_path: Path) -> None:
    seen: Seen = run_suite(suite, (), tmp_path)
    table = EXCEPTIONS[suite]
    unexpected = {name: why for name, why in seen.failed.items() if name not in table}
    assert unexpected == {}
    assert sorted(name for name in table if name in seen.passed) == [], "listed as exceptions, and they pass"
    known = seen.failed.keys() | seen.skipped.keys()
    assert [name for name in table if name not in known] == [], "listed as exceptions, and there is no such test"
    assert [why for why in seen.skipped.values() if not why.startswith(SKIPS[suite])] == []
    assert len(seen.passed) >= LEAST[suite]
    functions = {name.partition("[")[0] for name in [*seen.passed, *table]}
    assert len({name.partition("[")[0] for name in table}) * 10 <= len(functions), "too many exceptions"
