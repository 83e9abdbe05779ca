"""Every cause a run can end for, asked of the table that gives facts their meaning: there is no second list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..journal.facts import FACTS, TYPES, make_fact
from ..outcome import DECISIVE

if TYPE_CHECKING:
    from collections.abc import Iterator


def all_causes() -> tuple[str, ...]:
    """The causes, in the order of the table."""
    return tuple(dict.fromkeys(_causes()))


def _causes() -> Iterator[str]:
    for kind, meaning in DECISIVE.items():
        for detail in _details(kind):
            _status, cause = meaning(make_fact(kind, 0, **detail))
            yield cause


def _details(kind: str) -> list[dict[str, Any]]:
    """What a fact of this kind can say, as far as it makes a difference to its meaning."""
    if kind == "exited":
        return [{"wait_status": 0}, {"wait_status": 9}]  # by itself, or by a signal
    words = FACTS[TYPES[kind]].words if kind in TYPES else ()
    return [{field: word} for field, table in words for word in table.words.values()] or [{}]
