"""Where a run of the command line is kept: in the state directory, so that every other command finds it.

A run matters more than its record. When nobody named a directory and the default one cannot be used, the run takes
place all the same, in memory, with one line that says why. A directory that was named has to work.
"""

from __future__ import annotations

import os

from ...runs.durable import start_durable
from ...state.directory import StateDirectory, state_error
from ...values.environment import STATE_DIR
from ...values.errors import RunExistsError, SessionClosedError, StateError
from ...values.fast_imports import TYPE_CHECKING, NamedTuple
from ..printing import messages

if TYPE_CHECKING:
    from ...runs.live import LiveRun
    from ...values.spec import RunSpec
    from ..parsing.options import Parsed


class StartedRun(NamedTuple):
    """A run that was just started, and the state directory it is kept in, if any."""

    live: LiveRun
    state: StateDirectory | None


def start_in(
    state: StateDirectory, spec: RunSpec, *, wake_output: bool = False, window_size: tuple[int, int] | None = None
) -> LiveRun:
    """Start a run that is kept. StateError when its directory cannot be made, else as `start_durable`."""
    try:
        return start_durable(state, spec, wake_output=wake_output, window_size=window_size)
    except OSError as error:
        raise state_error(error, state.path, spec.run_id) from None


def start(given: Parsed, spec: RunSpec, window_size: tuple[int, int] | None = None) -> StartedRun:
    """Start a run in the foreground. StateError when its directory cannot be used and has to be; else as `start_in`."""
    named = given.last("--state-dir") or os.environ.get(STATE_DIR)
    try:
        state = StateDirectory.open(named)
        return StartedRun(start_in(state, spec, wake_output=True, window_size=window_size), state)
    except (RunExistsError, SessionClosedError):
        raise  # the directory works: it is what says no
    except StateError as error:
        if named or spec.lifetime != "owner":
            raise
        messages.say(f"this run is not kept: {error}")
    from ...runs.ephemeral import start_ephemeral  # here, because nearly every run is kept

    return StartedRun(start_ephemeral(spec, wake_output=True, windowed=True, window_size=window_size), None)
