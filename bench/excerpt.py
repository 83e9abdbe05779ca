"""The measured tables of the README: each is between two comments, and is made from the results in docs/."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def put(name: str, table: str, page: Path = README) -> None:
    """Replace the table of this name. LookupError if the page has no place for it."""
    text = page.read_text(encoding="utf-8")
    whole, count = re.subn(_place(name), lambda place: f"{place[1]}{table}\n{place[3]}", text, flags=re.DOTALL)
    if count != 1:
        raise LookupError(f"{page} has {count} places for {name}")
    page.write_text(whole, encoding="utf-8")


def get(name: str, page: Path = README) -> str:
    """The table of this name as the page has it. LookupError if there is none."""
    found = re.search(_place(name), page.read_text(encoding="utf-8"), flags=re.DOTALL)
    if found is None:
        raise LookupError(f"{page} has no place for {name}")
    return found[2].removesuffix("\n")


def _place(name: str) -> str:
    return rf"(<!-- {name}: by `make {name}` -->\n)(.*?)(<!-- end of {name} -->)"
