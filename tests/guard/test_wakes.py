"""A reader that waits for output is woken, even if the output was recorded while its request was on its way."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING

import pytest

from holdfast.journal.reader import JournalReader
from holdfast.runs.ephemeral import start_ephemeral
from holdfast.state.directory import StateDirectory
from holdfast.values.spec import make_spec
from tests.support.driven import BOUND_S, Driven
from tests.support.processes import stop_both

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard


@pytest.mark.parametrize("tells_what_it_has_seen", [True, False], ids=["told", "control"])
def test_output_recorded_while_the_request_was_on_its_way(*, tells_what_it_has_seen: bool) -> None:
    """A forced order: output is recorded, then the request is handled, and no output comes after it.

    The control claims to have seen everything, which is what a guard has to assume without an offset.
    """
    live = start_ephemeral(make_spec(["sh", "-c", "read line; echo answer; exec sleep 1000"], stdin="pipe"))
    try:
        reader = JournalReader(live.journal)
        position = 0
        while not reader.facts:
            reader.read()
        position = reader.position
        os.write(live.input, b"go\n")
        while live.reader.stdout_bytes == 0:  # not armed: nobody is woken, and this is the only way to know
            live.refresh()
        stop_both(live.sentinel_pid, live.guard_pid)
        live.arm_output(position if tells_what_it_has_seen else 1 << 40)
        os.kill(live.sentinel_pid, signal.SIGCONT)
        poll = select.poll()
        poll.register(live.control.fileno(), select.POLLIN)
        assert bool(poll.poll(30_000 if tells_what_it_has_seen else 300)) is tells_what_it_has_seen
    finally:
        live.ask_stop("user", now=True)
        live.reap(wait=True)
        live.close()


def test_the_start_of_a_run_with_a_directory_wakes_its_owner(tmp_path: Path) -> None:
    """A silent command gives no other news for hours, and a caller may wait for the start."""
    with Driven(["cat"], stdin="pipe", state=StateDirectory.open(str(tmp_path / "state"))) as run:
        woken = select.poll()
        woken.register(run.live.control.fileno(), select.POLLIN)
        assert woken.poll(BOUND_S * 1000)
        run.live.on_readable()
        assert run.live.outcome.started is not None
        run.live.close_input()
        run.settle()
