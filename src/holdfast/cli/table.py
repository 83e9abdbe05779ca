"""Tables for people: rich on a terminal; plain columns anywhere else, where nothing is cut off or coloured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from . import messages
from .plain import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "


class Column(NamedTuple):
    """One column. The one that `gives_way` is cut when the terminal is too narrow; the others never are."""

    title: str
    right: bool = False
    gives_way: bool = False


class Cell(NamedTuple):
    """Text with a meaning: `good`, `bad`, `busy`, `dim` or none. Colour only repeats what the text says."""

    text: str
    tone: str = ""


_STYLES = {"good": "green", "bad": "red", "busy": "yellow", "dim": "dim", "": ""}
TONES = {"succeeded": "good", "failed": "bad", "timed_out": "bad", "cancelled": "dim", "lost": "bad"}


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> None:
    """Print a table to stdout. Everything is escaped here: names and commands are other people's text."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    cells = [[Cell(plain(cell.text), cell.tone) for cell in row] for row in cells]
    if os.isatty(1):
        _show_rich(columns, cells)
    else:
        messages.show(_as_text(columns, cells))


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
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        # A cell that may be cut says so with an ellipsis; one that may not is folded at worst, never lost.
        overflow = "ellipsis" if column.gives_way else "fold"
        justify = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, overflow=overflow, no_wrap=column.gives_way)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell.text, style=_STYLES[cell.tone]) for cell in row))
    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    messages.show(captured.get())
