"""`holdfast prune`: remove old runs with their output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.index import prune
from ...values.durations import parse_duration, parse_size
from ...wording.plain import plain, size
from ..lookup.selection import open_index
from ..parsing.command import JSON, Command, no_words, open_state, put, show_json
from ..parsing.options import Option, UsageError
from ..printing import messages

if TYPE_CHECKING:
    from ...state.index.index import Index
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    no_words(given, "prune")
    bounds = _bounds(given)
    state = open_state(given)
    with open_index(state) as index:
        return _plan(index, bounds, given) if given.has("--dry-run") else _prune(index, bounds, given)


def _bounds(given: CommandLine) -> prune.PruneBounds:
    age, keep, most = given.last("--older-than"), given.last("--keep"), given.last("--max-size")
    if age is None and keep is None and most is None:
        raise UsageError("nothing says what to prune", remedy="give --older-than, --keep or --max-size")
    if keep is not None and not (keep.isascii() and keep.isdigit()):
        raise UsageError(f"--keep {keep!r} is not a number", remedy="give how many of the newest runs stay")
    return prune.PruneBounds(
        None if age is None else parse_duration(age, field="--older-than"),
        None if keep is None else int(keep),
        None if most is None else parse_size(most, field="--max-size"),
    )


def _plan(index: Index, bounds: prune.PruneBounds, given: CommandLine) -> int:
    index.refresh()
    candidates = prune.plan(index, bounds)
    if given.has("--json"):
        show_json([candidate._asdict() for candidate in candidates])
        return 0
    put("".join(f"{run.run_id}  {size(run.disk_bytes)}  {run.why}\n" for run in candidates))
    total = sum(run.disk_bytes for run in candidates)
    put(f"would remove {_runs(len(candidates))} and free {size(total)}\n")
    return 0


def _prune(index: Index, bounds: prune.PruneBounds, given: CommandLine) -> int:
    done = prune.prune(index, bounds)
    if given.has("--json"):
        kept = [{"run_id": run_id, "why": why} for run_id, why in done.kept]
        show_json({"removed": list(done.removed), "freed_bytes": done.freed_bytes, "kept": kept})
        return 0
    for run_id, why in done.kept:
        messages.say(plain(f"run {run_id} stays: {why}"))
    put(f"removed {_runs(len(done.removed))}, freed {size(done.freed_bytes)}\n")
    return 0


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


COMMAND = Command(
    "prune [OPTIONS]",
    "Remove ended runs with their output when they pass any bound below. A live run is never removed.",
    (
        Option("--older-than", "DURATION", "remove runs that began longer ago than this"),
        Option("--keep", "COUNT", "keep this many of the newest runs, remove the others"),
        Option("--max-size", "SIZE", "remove the oldest runs until the rest takes no more than this on disk"),
        Option("--dry-run", None, "only say which runs would be removed"),
        JSON,
    ),
    act,
)
