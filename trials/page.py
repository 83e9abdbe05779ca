"""Write docs/trials.md and the README's table from docs/trials.json: the last finding of each cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.sections import table

from .harnesses import HARNESSES
from .scenes import SCENES, SETTLE_S

PAGE = Path(__file__).resolve().parent.parent / "docs" / "trials.md"
_TOLD = 160
_HEAD = """# Trials: real harnesses with and without Holdfast

`make trials` plays the same scripted sessions in each of these agent harnesses:
{versions}.

The harness, its shell tool, its MCP client and all processes are real, as npm installs them. Only the model is a script
on loopback: it asks for the command of the scene, and then says a last word. Each session has a HOME of its own. *With
Holdfast* means that `holdfast install NAME --yes` ran in that HOME before the session, and nothing else.

Where the tool call has a time limit, Claude Code runs with its background tasks switched off. Otherwise its limit moves
the command to the background: in one try the command still ran 55 s later.

A trial watches from outside. It is a subreaper above the harness, so no process of the session can escape the count.

- **left**: processes of the session that still live {settle:.0f} s after its end, those of Holdfast included, and their
  memory (shared pages divided among their users). The trial then ends them.
- **hung**: the seconds from the model's first tool call to the exit of the harness, without the time that the scene
  itself needs. The plain command shows what the harness needs anyhow. **load** is how many processes wanted one of
  the cores meanwhile: other work on the machine makes everything slower.
- **lost**: bytes of the command's output that nobody can read afterwards: the model was not told them, no file of the
  session has them, and `holdfast logs` does not have them.
- **told**: what the model got as the result of the tool, shortened. [trials.json](trials.json) has more of it, and the
  commands of the processes that were left.

Made on {day}, {what}.
Each cell is the last one that was measured: the oldest at {first}, the newest at {last} (UTC), and
[trials.json](trials.json) has the time of each. No figure is typed by hand.

## Processes left

The number before the arrow is the harness alone; the number after it is the harness with Holdfast. A question
mark is a cell that could not be measured; its table below says why.
"""


def load(path: Path) -> dict[str, Any]:
    """The results beside a page; empty ones if there are none."""
    source = path.with_suffix(".json")
    if not source.exists():
        return {"machine": {}, "versions": {}, "cells": {}}
    found: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    return found


def save(known: dict[str, Any], path: Path) -> None:
    """Keep the results beside the page."""
    path.with_suffix(".json").write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def render(known: dict[str, Any]) -> str:
    """The text of the page."""
    where = known["machine"]
    versions = ", ".join(f"{one.name} {known['versions'][one.key]}" for one in _played(known))
    what = f"{where['processor']}, {where['cores']} cores, Linux {where['kernel']}, {where['containment']}"
    cells = [cell for scene in known["cells"].values() for ways in scene.values() for cell in ways.values()]
    times = sorted(cell["at"] for cell in cells)
    head = _HEAD.format(
        versions=versions,
        settle=SETTLE_S,
        day=where["at"][:10],
        what=what,
        first=times[0][:16],
        last=times[-1][:16],
    )
    scenes = [scene for scene in SCENES if scene.name in known["cells"]]
    return head + excerpt(known) + "".join(_section(scene, known["cells"][scene.name]) for scene in scenes)


def excerpt(known: dict[str, Any]) -> str:
    """The table for the README: processes left, alone and with Holdfast."""
    played = _played(known)
    found = [(scene.title, cells) for scene in SCENES if (cells := known["cells"].get(scene.name))]
    rows = [(title, *(_arrow(cells.get(one.key, {})) for one in played)) for title, cells in found]
    return table(("processes left", *(one.name for one in played)), rows)


def _played(known: dict[str, Any]) -> list[Any]:
    return [one for one in HARNESSES if one.key in known["versions"]]


def _arrow(ways: dict[str, Any]) -> str:
    return f"{_left(ways.get('alone'))} → {_left(ways.get('holdfast'))}"


def _left(cell: dict[str, Any] | None) -> str:
    return "?" if cell is None or cell["failure"] else str(cell["left"])


def _section(scene: Any, cells: dict[str, Any]) -> str:
    rows = []
    for one in HARNESSES:
        for way, words in (("alone", one.name), ("holdfast", "with Holdfast")):
            if (cell := cells.get(one.key, {}).get(way)) is not None:
                rows.append((words, *_row(cell)))
    note = f"\n{scene.note}\n" if scene.note else ""
    heads = ("", "left", "memory left", "hung", "load", "lost", "told")
    return f"\n## {_capital(scene.title)}\n\n{scene.story}\n{table(heads, rows, '---')}{note}"


def _row(cell: dict[str, Any]) -> tuple[str, ...]:
    if cell["failure"]:
        return ("?", "", "", "", "", f"not measured: {_inline(cell['failure'])}")
    hung = "" if cell["hung_s"] is None else f"{cell['hung_s']:.1f} s"
    if cell["ended_by_trial"]:
        hung = f"> {hung}"
    lost = cell["printed_bytes"] - cell["kept_bytes"]
    memory = f"{cell['left_memory_bytes'] / 2**20:.1f} MiB" if cell["left"] else ""
    told = " ‖ ".join(_inline(text) for text in cell["told"]) or "nothing"
    return str(cell["left"]), memory, hung, _load(cell), f"{lost:,} of {cell['printed_bytes']:,}", told


def _load(cell: dict[str, Any]) -> str:
    return f"{cell['load']:.0f}" if "load" in cell else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _inline(text: str) -> str:
    """A text of a harness on one line, shortened, without a meaning in Markdown."""
    plain = " ".join(text.split())
    if len(plain) > _TOLD:
        plain = f"{plain[: _TOLD // 2]} … {plain[-_TOLD // 2 :]}"
    for character, written in (("&", "&amp;"), ("|", "\\|"), ("<", "&lt;"), ("*", "\\*"), ("`", "'"), ("_", "\\_")):
        plain = plain.replace(character, written)
    return plain
