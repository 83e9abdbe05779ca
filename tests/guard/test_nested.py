"""A nested run ends with any signal with which the outer ladder begins."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord
from tests.support.driven import Driven
from tests.support.evidence import assert_all_gone, kinds, one, outcome_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.children import Children

pytestmark = pytest.mark.guard

# The command ignores the first rung itself: only the nested guard can end the nested run.
_NESTING = """
import os, signal, sys
for number in (signal.SIGQUIT, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
from holdfast.values.spec_cache import new_spec
from holdfast.runs.durable import start_durable
from holdfast.state.directory import StateDirectory
live = start_durable(StateDirectory.open(sys.argv[1]), new_spec(sys.argv[2:], {"run_id": "nested", "grace": 20}))
while not b"".join(chunk.data for chunk in live.reader.read()).startswith(b"ready"):
    os.sched_yield()
os.write(1, b"ready guard=%d\\n" % live.guard_pid)
live.reap(wait=True)
"""


@pytest.mark.usefixtures("contained")
@pytest.mark.parametrize("first", ["QUIT", "USR2", "TERM", "INT"])
def test_the_first_rung_asks_the_nested_guard(first: str, tmp_path: Path, child: Children) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    argv = [sys.executable, "-c", _NESTING, state.path, *child("exits_on_term", 6)]
    with Driven(argv, ladder=f"{first}:5s,KILL") as run:
        guard = run.until_ready()["guard"]
        run.live.ask_stop()
        result = run.settle()
    assert outcome_of(result) == ("cancelled", "user")
    assert (result.exit_code, result.report["escalated"]) == (0, False), "it ended when the nested run had"
    assert_all_gone(result.report)
    with RunRecord(state, "nested") as record:
        record.read()
        facts = record.reader.facts
        assert (record.outcome.status, record.outcome.cause) == ("cancelled", "parent")
        # A SIGINT comes through as one, and of that it dies; guards pass SIGTERM on for signals that they do not take.
        ended = (record.outcome.exit_code, record.outcome.signal)
        assert ended == ((None, signal.SIGINT) if first == "INT" else (6, None))
    assert kinds(facts)[-1] == "end"
    assert one(facts, "stop_asked").detail["by_pid"] == run.live.guard_pid
    assert one(facts, "started").detail["guard_pid"] == guard
