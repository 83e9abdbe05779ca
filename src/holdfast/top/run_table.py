"""The table widget of `top`: redraw only changed cells, and keep the cursor on its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import DataTable

from .run_rows import COLUMNS

if TYPE_CHECKING:
    from ..wording.rows import Cell
    from .run_rows import RunRow

_STYLES = {"good": "green", "bad": "red", "busy": "yellow", "dim": "dim", "": ""}


class RunTable(DataTable[Text]):
    """Takes all rows at each change. It makes the texts itself, so that textual reads no markup in them."""

    DEFAULT_CSS = """
    RunTable { scrollbar-size-horizontal: 0; }
    RunTable > .datatable--cursor { text-style: reverse; background: ansi_default; color: ansi_default; }
    RunTable > .datatable--header { text-style: bold underline; background: ansi_default; color: ansi_default; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, cursor_type="row")
        self._shown: list[RunRow] = []
        for name in COLUMNS:
            self.add_column(Text(name), key=name)

    def show(self, rows: list[RunRow], selected: str | None) -> str | None:
        """Show these rows, and return the selected run: the same, else its neighbour; None without rows."""
        before, self._shown = self._shown, rows
        ids = [row.run_id for row in rows]
        if ids == [row.run_id for row in before]:
            for row, old in zip(rows, before, strict=True):
                self._update(row, old)
            return selected if ids else None
        place = self.cursor_row
        with self.prevent(DataTable.RowHighlighted):
            self.clear()
            for row in rows:
                self.add_row(*map(_text, row.cells), key=row.run_id)
            place = ids.index(selected) if selected in ids else max(0, min(place, len(ids) - 1))
            self.move_cursor(row=place, animate=False)
        return ids[place] if ids else None

    def _update(self, row: RunRow, old: RunRow) -> None:
        for column, cell, was in zip(COLUMNS, row.cells, old.cells, strict=True):
            if cell != was:
                self.update_cell(row.run_id, column, _text(cell), update_width=len(cell.text) > len(was.text))


def _text(cell: Cell) -> Text:
    return Text(cell.text, style=_STYLES[cell.tone])
