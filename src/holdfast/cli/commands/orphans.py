"""`holdfast orphans`: find what dead agents left on this host, and end it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...foreign.orphan_end import GRACE_S, end
from ...foreign.orphan_search import find
from ...values.durations import parse_duration
from ...values.harnesses import HARNESSES
from ...wording.plain import command_line, plain, size, span
from ..parsing.command import JSON, Command, no_words, put, show_json
from ..parsing.options import Option, UsageError
from ..printing import messages
from ..printing.table import Column, show_table

if TYPE_CHECKING:
    from ...foreign.orphan_end import OrphanEnd
    from ...foreign.orphan_search import ForeignOrphan
    from ..parsing.options import CommandLine

NOT_CONFIRMED = 1
_COLUMNS = (
    Column("PID", right=True),
    Column("AGENT"),
    Column("ITS HARNESS"),
    Column("SESSION"),
    Column("AGE", right=True),
    Column("MEMORY", right=True),
    Column("PORTS"),
    Column("COMMAND", cut=True),
)


def act(given: CommandLine) -> int:
    no_words(given, "orphans")
    wanted = given.last("--harness")
    if wanted not in (None, *(harness.name for harness in HARNESSES)):
        names = ", ".join(harness.name for harness in HARNESSES)
        raise UsageError(f"--harness {wanted!r} is unknown", remedy=f"use one of {names}")
    found = [orphan for orphan in find() if wanted in (None, orphan.harness)]
    chosen = [orphan for orphan in found if orphan.why_not is None]
    if not given.has("--json"):
        _show(found)
    if not given.has("--end") or not chosen or not _agreed(given, len(chosen)):
        if given.has("--json"):
            show_json([_as_dict(orphan) for orphan in found])
        return 0
    grace = given.last("--grace")
    ended = end(chosen, grace_s=GRACE_S if grace is None else parse_duration(grace, field="--grace"))
    if given.has("--json"):
        results = {each.orphan.pid: each for each in ended}
        show_json([_as_dict(orphan, results.get(orphan.pid)) for orphan in found])
    else:
        put("".join(f"{each.orphan.pid}  {_result(each)}\n" for each in ended))
        gone = sum(each.how == "gone" for each in ended)
        put(f"{gone} of {len(ended)} confirmed gone\n")
    return 0 if all(each.how == "gone" for each in ended) else NOT_CONFIRMED


def _show(found: list[ForeignOrphan]) -> None:
    if not found:
        put("no orphans of agents were found\n")
        return
    show_table(_COLUMNS, [_row(orphan) for orphan in found])
    memory = sum(orphan.memory_bytes or 0 for orphan in found)
    put(f"{len(found)} processes, {size(memory)} of memory\n")
    unknown = sum(orphan.state == "unknown" for orphan in found)
    if unknown:
        put(f"the harness of {unknown} of them may be alive: they are not ended\n")


def _row(orphan: ForeignOrphan) -> list[str]:
    ports = ",".join(map(str, orphan.ports)) or "-"
    session = (orphan.session or "-")[:8]
    numbers = [span(orphan.age_s), size(orphan.memory_bytes)]
    return [str(orphan.pid), orphan.title, orphan.state, session, *numbers, ports, command_line(orphan.command)]


def _agreed(given: CommandLine, count: int) -> bool:
    if given.has("--yes"):
        return True
    if given.has("--json") or not (os.isatty(0) and os.isatty(1)):
        messages.say(f"nothing was ended: add --yes to end {count} processes")
        return False
    put(f"End {count} processes? [y/N] ")
    with open(0, encoding="utf-8", errors="replace", closefd=False) as answers:
        return answers.readline().strip().lower() in ("y", "yes")


def _result(each: OrphanEnd) -> str:
    return each.how if each.why is None else f"{each.how}: {plain(each.why)}"


def _as_dict(orphan: ForeignOrphan, ended: OrphanEnd | None = None) -> dict[str, Any]:
    return {
        "pid": orphan.pid,
        "start_ticks": orphan.identity.start_ticks,
        "user": orphan.uid,
        "harness": orphan.harness,
        "harness_state": orphan.state,
        "session": orphan.session,
        "evidence": orphan.evidence,
        "age_s": orphan.age_s,
        "memory_bytes": orphan.memory_bytes,
        "ports": list(orphan.ports),
        "command": list(orphan.command),
        "why_not": orphan.why_not,
        "ended": None if ended is None else ended.how,
    }


COMMAND = Command(
    "orphans [--end] [OPTIONS]",
    "Find what dead agents left on this host, also without Holdfast: by marks in the environment, and by ancestry.",
    (
        Option("--end", None, "end those whose harness is dead: ask, SIGTERM, wait, SIGKILL"),
        Option("--yes", None, "with --end: do not ask"),
        Option("--grace", "DURATION", "with --end: how long to wait before SIGKILL (default 5s)"),
        Option("--harness", "NAME", "only those of this harness: claude, codex, gemini, ..."),
        JSON,
    ),
    act,
    "Exit codes: 0, 1 an end is not confirmed, 125 Holdfast failed.\n",
)
