"""The query for one page of ended runs: choose the leading filter, and build the SQL statement.

Every filter has a SQL index that ends in the order of the pages. So a page costs as many rows as it shows, provided
that SQLite follows the index of the filter that the fewest runs pass. SQLite cannot know which filter that is: its
statistics are averages over all values. So with several filters, we probe each one for its newest hundred runs, which
costs next to nothing. The filter with fewer runs leads, or else the filter whose hundredth run is the oldest. The other
filters are only compared. One case stays slow: two filters that each pass many runs, but hardly any run passes both.
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
    """The query for runs that pass the filters and come after a cursor. SpecError: the cursor is not one of ours."""

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
        """The first `limit` rows, newest first."""
        found: list[Any] = []
        for text, parameters in self.statements(select):
            found += select(text, {**parameters, "limit": limit})
        return sorted(found, key=lambda row: (row[1], row[0]), reverse=True)[:limit]

    def statements(self, select: Callable[[str, dict[str, Any]], list[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """One ordered statement for each status and cause. A statement with IN would have to sort all that match."""
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


_LATEST_NS = (1 << 63) - 1  # SQLite takes no larger integer


def parse_cursor(cursor: str) -> tuple[int, str]:
    """The time and run id that a cursor stands for. SpecError: the text is no cursor."""
    number, dot, run_id = cursor.partition(".")
    is_number = number.isascii() and number.isdigit() and len(number) < 20
    if not (dot and run_id and is_number and int(number) <= _LATEST_NS):
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
        # Among equals a column is cheaper: a label costs a lookup for each row.
        ranks[key] = (count, oldest_ns if count == _PROBED else 0, piece == "label")
    return min(ranks, key=lambda key: ranks[key])


def _condition(key: str, piece: str, lead: str | None) -> str:
    if piece == "label":
        name = "where_label" if key == lead else "where_also_label"
        return _SQL[name].replace("{number}", key.removeprefix("label_"))
    # A plus keeps SQLite from choosing this filter's index. A session that leads has an index with the status in it.
    leads = key == lead or (key == "status" and lead == "session")
    return _SQL["where_column"].format(column=piece, plus="" if leads else "+")
