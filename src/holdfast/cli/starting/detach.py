"""`holdfast run --detach`: start a run, print its id, and go.

Nothing of the caller's stays with the run: the guard's own output is /dev/null, the command's goes to the journal, and
every other descriptor is closed before the command starts. So `id=$(holdfast run --detach ...)` returns at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.directory import StateDirectory
from ...values.errors import HoldfastError
from ..parsing.command import write_all
from ..parsing.options import UsageError
from .storage import start_in

if TYPE_CHECKING:
    from ...values.spec import RunSpec
    from ..parsing.options import Parsed

_WINDOW = (24, 80)  # nobody is looking: `attach` brings the size of its own


def detach(given: Parsed, spec: RunSpec) -> int:
    """Start it and print its id. StateError: it cannot be kept anywhere; HoldfastError as for any run."""
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
