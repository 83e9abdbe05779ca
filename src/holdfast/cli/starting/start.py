"""Start a run of the command line, in the foreground or detached, and keep it in the state directory.

A run matters more than its record. If the user named no directory and the default one cannot be used, the run starts
all the same, with its journal in memory, and one line says why. A directory that the user named must work.
"""

from __future__ import annotations

import os

from ...runs.durable import start_durable
from ...state.directory import StateDirectory, state_error
from ...state.disk_reserve import check_floor
from ...values.disk_floor import floor_of_variable
from ...values.environment import STATE_DIR
from ...values.errors import HoldfastError, RunExistsError, SessionClosedError, StateError
from ...values.fast_imports import TYPE_CHECKING, NamedTuple
from ..parsing.options import UsageError

if TYPE_CHECKING:
    from ...runs.live import LiveRun
    from ...values.spec import RunSpec
    from ..parsing.options import CommandLine

_WINDOW = (24, 80)  # rows and columns of a detached run, until `attach` sets the size of its own window


class StartedRun(NamedTuple):
    """A run that was just started, and the state directory that keeps it, if any."""

    live: LiveRun
    state: StateDirectory | None


def start_in(
    state: StateDirectory, spec: RunSpec, *, streams: bool = False, window_size: tuple[int, int] | None = None
) -> LiveRun:
    """Start a run with a run directory; `streams`: our caller reads its output from the first byte on.

    StateError: the directory cannot be made, or its disk has less free space than its floor. Others as `start_durable`.
    """
    check_floor(state.path, floor_of_variable(os.environ), spec.run_id)
    try:
        return start_durable(state, spec, wake_output=streams, held=streams, window_size=window_size)
    except OSError as error:
        raise state_error(error, state.path, spec.run_id) from None


def start(given: CommandLine, spec: RunSpec, window_size: tuple[int, int] | None = None) -> StartedRun:
    """Start a run in the foreground. StateError when a named directory cannot be used; other errors as `start_in`."""
    named = given.last("--state-dir") or os.environ.get(STATE_DIR)
    try:
        state = StateDirectory.open(named)
        return StartedRun(start_in(state, spec, streams=True, window_size=window_size), state)
    except (RunExistsError, SessionClosedError):
        raise  # the directory works, but it refuses this run
    except StateError as error:
        if named or spec.lifetime != "owner":
            raise
        if not given.has("--quiet"):
            from ..printing.messages import say  # imported only here, because nearly every run is kept

            say(f"this run is not kept: {error}")
    from ...runs.ephemeral import start_ephemeral

    return StartedRun(start_ephemeral(spec, wake_output=True, windowed=True, window_size=window_size), None)


def detach(given: CommandLine, spec: RunSpec) -> int:
    """Start a run, print its id, and leave. StateError: it cannot be kept anywhere; HoldfastError as for any run.

    The run keeps nothing of the caller's: the guard's own output is /dev/null, the command's goes to the journal, and
    every other descriptor is closed before the command starts. So `id=$(holdfast run --detach ...)` returns at once.
    """
    from ..parsing.command import write_all

    if given.has("--report"):
        raise UsageError(
            "--report needs somebody who waits", remedy="leave it out, and use holdfast wait ID --json for the report"
        )
    state = StateDirectory.open(given.last("--state-dir"))
    live = start_in(state, spec, window_size=_WINDOW if spec.pty else None)
    live.close()
    try:
        write_all(1, f"{spec.run_id}\n".encode())
    except OSError as error:
        remedy = "the run goes on"
        raise HoldfastError(f"its id cannot be printed: {error.strerror}", run_id=spec.run_id, remedy=remedy) from None
    return 0
