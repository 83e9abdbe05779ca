"""Print a table: with colours and fitted to the width on a terminal; as plain full columns anywhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ...wording.plain import plain
from ...wording.rows import Cell
from ..parsing.command import put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

_GAP = "  "
_NARROWEST = 12


class Column(NamedTuple):
    """One column of a table, and what becomes of it on a terminal that is too narrow.

    First, columns that may be `cut` lose their ends. If that is not enough, columns with a number are left out, the one
    with the largest number first.
    """

    title: str
    right: bool = False
    cut: bool = False
    left_out: int = 0


_STYLES = {"good": "green", "bad": "red", "busy": "yellow", "dim": "dim", "title": "bold", "": ""}


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> None:
    """Print a table to stdout. Control characters are escaped here: names and commands are text of others."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    cells = [[Cell(plain(cell.text), cell.tone) for cell in row] for row in cells]
    if os.isatty(1):
        _show_rich(columns, cells)
    else:
        put(_as_text(columns, cells))


def _as_text(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    texts = [[column.title for column in columns], *([cell.text for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(columns))]
    lines = []
    for row in texts:
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append(_GAP.join(parts).rstrip())
    return "\n".join(lines) + "\n"


def _show_rich(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.console import Console

    titles = [Cell(column.title, "title") for column in columns]
    try:
        room = os.get_terminal_size(1).columns
    except OSError:
        room = 0  # the terminal hung up a moment ago
    widths = fit(columns, _widths([titles, *rows]), room)
    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for row in [titles, *rows]:
            # Not rich's own table: it cuts every column when the window is narrow, and half an id is useless.
            line = _line(columns, row, widths)
            if room:
                line.truncate(room, overflow="ellipsis")
            console.print(line, soft_wrap=True)
    put(captured.get())


def _widths(rows: Sequence[Sequence[Cell]]) -> list[int]:
    from rich.cells import cell_len

    return [max(cell_len(cell.text) for cell in column) for column in zip(*rows, strict=True)]


def fit(columns: Sequence[Column], wanted: Sequence[int], room: int) -> list[int]:
    """The widths of the columns in a terminal of `room` characters (0: any); a column of width 0 is left out."""
    widths = list(wanted)
    while room:
        shown = [width for width in widths if width]
        over = sum(shown) + len(_GAP) * (len(shown) - 1) - room
        cut = list(widths)
        for at in reversed(range(len(columns))):
            if columns[at].cut and over > 0 and cut[at] > _NARROWEST:
                cut[at] = max(_NARROWEST, widths[at] - over)
                over -= widths[at] - cut[at]
        last = max(range(len(columns)), key=lambda at: columns[at].left_out if widths[at] else -1)
        if over <= 0 or not columns[last].left_out or not widths[last]:
            return cut
        widths[last] = 0
    return widths


def _line(columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int]) -> Text:
    from rich.text import Text

    line = Text()
    for column, cell, width in zip(columns, row, widths, strict=True):
        if not width:
            continue
        text = Text(cell.text, style=_STYLES[cell.tone])
        text.truncate(width, overflow="ellipsis")
        text.align("right" if column.right else "left", width)
        line.append_text(text)
        line.append(_GAP)
    line.rstrip()
    return line
