"""`holdfast extend`: move the deadline of a live run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.guard_connection import extend
from ...values.durations import format_duration, parse_duration
from ..lookup.records import read_record
from ..lookup.selection import find, needs_daemon
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
    if needs_daemon(state, run_id):
        from ...client import calls
        from ..lookup.daemon_request import ask

        ask(state, calls.extend(run_id, seconds))
    else:
        extend(state, run_id, seconds)
    with read_record(state, run_id) as record:
        facts = record.reader.facts
    limits = [fact.detail["limit_ns"] for fact in facts if fact.kind == "extended"]
    only_counted = any(fact.kind == "repeated" and fact.detail["of"] == "extended" for fact in facts)
    if limits:
        at_least = "at least " if only_counted else ""
        put(f"{run_id}  its deadline is now {at_least}{format_duration(limits[-1] / 1e9)} after its start\n")
    return 0


COMMAND = Command(
    "extend ID DURATION",
    "Move the deadline of a live run by this much, at most to its --max-timeout.",
    (),
    act,
)
