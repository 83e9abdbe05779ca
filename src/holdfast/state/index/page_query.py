"""A page of the index: which filter leads, and the statement that follows from it.

Every filter has an index that ends in the order of the pages, so a page costs as many rows as it has, provided the
index that is followed belongs to the filter that few runs pass. SQLite cannot know which that is: its statistics are
averages over all values. So when there are several filters, each is asked for its newest hundred runs, which costs next
to nothing. The one that has fewer leads, or else the one whose hundredth is the oldest; the others are only compared.
What stays slow is two filters that each let many runs through and hardly any both: those have to be looked through.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from ...values.errors import SpecError
from .queries import STATEMENTS as _SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .summary import Filters

_PROBED = 100


class PageQuery:
    """The runs that pass the filters, after a cursor. SpecError: the cursor is not one of ours."""

    def __init__(self, filters: Filters, cursor: str | None = None) -> None:
        self.filters = filters
        self.parameters: dict[str, Any] = {
            **filters.columns(),
            "since_ns": filters.since_ns,
            "until_ns": filters.until_ns,
        }
        self.equal = {name: name for name, value in filters.columns().items() if value is not None}
        for number, (label, value) in enumerate(filters.labels):
            self.equal[f"label_{number}"] = "label"
            self.parameters |= {f"label_{number}": label, f"value_{number}": value}
        bounds = {"since": filters.since_ns, "until": filters.until_ns, "after": cursor}
        self.bounds = [name for name, value in bounds.items() if value is not None]
        if cursor is not None:
            self.parameters["after_ns"], self.parameters["after_id"] = parse_cursor(cursor)

    def rows(self, select: Callable[[str, dict[str, Any]], list[Any]], limit: int) -> list[Any]:
        """The first rows, newest first, at most `limit`."""
        found: list[Any] = []
        for text, parameters in self.statements(select):
            found += select(text, {**parameters, "limit": limit})
        return sorted(found, key=lambda row: (row[1], row[0]), reverse=True)[:limit]

    def statements(self, select: Callable[[str, dict[str, Any]], list[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """One ordered statement for each status and cause: a single one with IN would have to sort all that match."""
        for status, cause in product(self.filters.statuses or (None,), self.filters.causes or (None,)):
            own = {name: name for name, value in (("status", status), ("cause", cause)) if value is not None}
            parameters = {**self.parameters, "status": status, "cause": cause}
            yield self._statement({**self.equal, **own}, select, parameters), parameters

    def _statement(
        self, equal: dict[str, str], select: Callable[[str, dict[str, Any]], list[Any]], parameters: dict[str, Any]
    ) -> str:
        lead = _lead(equal, select, parameters)
        by_label = lead is not None and equal[lead] == "label"
        driver = "labels" if by_label else "runs"
        conditions = [_condition(key, piece, lead) for key, piece in equal.items()]
        conditions += [_SQL[f"where_{name}"].format(driver=driver) for name in self.bounds]
        return _SQL["page"].format(
            source=_SQL[f"from_{driver}"], conditions=" AND ".join(conditions) or "TRUE", driver=driver
        )


def parse_cursor(cursor: str) -> tuple[int, str]:
    """The place a cursor stands for. SpecError when it is none."""
    number, dot, run_id = cursor.partition(".")
    if not (dot and run_id and number.isascii() and number.isdigit() and len(number) < 20):
        remedy = "use the cursor of the page before, as it is"
        raise SpecError(f"{cursor[:60]!r} is no cursor", field="cursor", remedy=remedy)
    return int(number), run_id


def make_cursor(begun_ns: int, run_id: str) -> str:
    """The cursor that continues after this run."""
    return f"{begun_ns}.{run_id}"


def _lead(
    equal: dict[str, str], select: Callable[[str, dict[str, Any]], list[Any]], parameters: dict[str, Any]
) -> str | None:
    if len(equal) < 2:
        return next(iter(equal), None)
    ranks = {}
    for key, piece in equal.items():
        text = _SQL["probe_label" if piece == "label" else "probe"].replace("{number}", key.removeprefix("label_"))
        count, oldest_ns = select(text.format(column=piece), {**parameters, "limit": _PROBED})[0]
        # Of equals, a column is cheaper than a label, which costs a lookup for each row.
        ranks[key] = (count, oldest_ns if count == _PROBED else 0, piece == "label")
    return min(ranks, key=lambda key: ranks[key])


def _condition(key: str, piece: str, lead: str | None) -> str:
    if piece == "label":
        name = "where_label" if key == lead else "where_also_label"
        return _SQL[name].replace("{number}", key.removeprefix("label_"))
    # A plus keeps SQLite from choosing this filter's index; a session's index by status is worth having.
    leads = key == lead or (key == "status" and lead == "session")
    return _SQL["where_column"].format(column=piece, plus="" if leads else "+")
