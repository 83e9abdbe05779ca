"""`holdfast extend`: move the deadline of a live run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.guard_connection import extend
from ...values.durations import format_duration, parse_duration
from ..lookup.records import read_record
from ..lookup.selection import find
from ..parsing.command import Command, open_state, put
from ..parsing.options import UsageError

if TYPE_CHECKING:
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    if len(given.words) != 2:
        raise UsageError("extend needs a run and a duration", remedy="write holdfast extend ID 10m")
    seconds = parse_duration(given.words[1], field="DURATION")
    state = open_state(given)
    run_id = find(state, given.words[0])
    extend(state, run_id, seconds)
    with read_record(state, run_id) as record:
        limits = [fact.detail["limit_ns"] for fact in record.reader.facts if fact.kind == "extended"]
    if limits:
        put(f"{run_id}  its deadline is now {format_duration(limits[-1] / 1e9)} after its start\n")
    return 0


COMMAND = Command(
    "extend ID DURATION",
    "Move the deadline of a live run by this much, at most to its --max-timeout.",
    (),
    act,
)
