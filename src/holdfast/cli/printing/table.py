"""Print a table: with colours and fitted on a terminal; as plain full columns anywhere else."""

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
    """One column of a table. Only a column that `gives_way` is cut when the terminal is too narrow."""

    title: str
    right: bool = False
    gives_way: bool = False


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
    widths = _widths(columns, [titles, *rows])
    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for row in [titles, *rows]:
            # Not rich's own table: it cuts every column when the window is narrow, and half an id is useless.
            console.print(_line(columns, row, widths), soft_wrap=True)
    put(captured.get())


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[int]:
    from rich.cells import cell_len

    widths = [max(cell_len(row[at].text) for row in rows) for at in range(len(columns))]
    try:
        over = sum(widths) + len(_GAP) * (len(columns) - 1) - os.get_terminal_size(1).columns
    except OSError:
        over = 0  # the terminal hung up a moment ago
    return [
        max(_NARROWEST, width - over) if column.gives_way and over > 0 else width
        for column, width in zip(columns, widths, strict=True)
    ]


def _line(columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int]) -> Text:
    from rich.text import Text

    line = Text()
    for column, cell, width in zip(columns, row, widths, strict=True):
        text = Text(cell.text, style=_STYLES[cell.tone])
        text.truncate(width, overflow="ellipsis")
        text.align("right" if column.right else "left", width)
        line.append_text(text)
        line.append(_GAP)
    line.rstrip()
    return line
