"""The successor: the run in which the stragglers of a finished command go on (`stragglers="session"`).

The guard is the parent of the stragglers, so the same guard keeps the successor (native/successor.h). We, the owner,
make its directory and send the guard its descriptors. If we cannot, we ask for the end of the stragglers.

Order. The directory is in the state directory, and the session is seen to be open, before the guard hears of the
successor. So a process that closes the session meanwhile finds the first run, or the successor.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ..guard.packets import keep
from ..journal.beginning import beginning
from ..state import run_directory, sessions
from ..values.errors import HoldfastError, RequestError
from ..values.fields import printable
from ..values.spec import KEPT_OUTPUT_BYTES, make_spec

if TYPE_CHECKING:
    from ..state.directory import StateDirectory
    from ..values.spec import RunSpec
    from .live import LiveRun

_ANSWER_S = 5.0  # as long as the guard waits for us
_LONGEST_NAME = 200


def keep_stragglers(state: StateDirectory, live: LiveRun) -> None:
    """Let the stragglers of this run go on as a run of their own; if that fails, ask for their end."""
    spec = _successor_of(live)
    try:
        prepared = run_directory.prepare(state, spec.run_id, beginning(spec))
    except HoldfastError as error:
        _end(live, "user", error.message)
        return
    try:
        sessions.check_open(state, spec.session, spec.run_id)
        files = (prepared.journal, prepared.listener.fileno(), prepared.directory)
        ticket = live.conversation.ask_with(lambda ticket: keep(ticket, spec.run_id), files)
        live.conversation.wait(ticket, time.monotonic() + _ANSWER_S)
        live.conversation.conclude(ticket)
    except HoldfastError as error:
        # The guard has refused, because they are gone; or it is gone itself, or was not even asked.
        run_directory.take_back(state, spec.run_id, prepared.path, error)
        if not isinstance(error, RequestError):
            _end(live, "session", error.message)
    finally:
        prepared.close()


def _end(live: LiveRun, cause: str, reason: str) -> None:
    try:
        live.ask_stop(cause, reason)
    except RequestError:
        pass  # they are gone, and the run is over


def _successor_of(live: LiveRun) -> RunSpec:
    first = live.spec
    name = f"left over from {first.name or first.run_id}"
    return make_spec(
        _command_line(live) or first.argv,
        cwd=first.cwd,
        grace=first.grace_s,
        ladder=first.ladder,
        drain=first.drain_s,
        drain_idle=first.drain_idle_s,
        kill_wait=first.kill_wait_s,
        memory=first.memory_bytes,
        pids=first.pids,
        cpu_time=first.cpu_time_s,
        max_output=KEPT_OUTPUT_BYTES,
        on_max_output="roll",
        session=first.session,
        labels=dict(first.labels),
        name=name[:_LONGEST_NAME],
        lifetime="session",
        parent=first.parent,
        starter=first.starter,
        left_by=first.run_id,
        mark=first.mark,  # in the environment of the stragglers; the id is a new one, which needs none
    )


def _command_line(live: LiveRun) -> list[str]:
    """The command line of the first straggler that is to be seen; empty when none is."""
    for pid in live.tree.pids() or ():
        try:
            with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
                words = file.read(1 << 16).rstrip(b"\0").split(b"\0")
        except OSError:
            continue
        if words != [b""]:
            return [printable(os.fsdecode(word)) for word in words]
    return []
