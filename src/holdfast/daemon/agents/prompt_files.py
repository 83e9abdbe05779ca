"""Prompt files: `STATE/prompts/RUN_ID` is the stdin of an agent that reads its prompt there.

A file, and not a pipe: a run that waits in the queue survives the daemon, and so must its prompt. The file is written
before the run is queued and removed when the run is settled. A crash in between leaves a file, which `sweep` removes at
the next start.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...state.owned_files import create
from ...values.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..queue.scheduled_run import ScheduledRun

DIRECTORY = "prompts"


class PromptFiles:
    """The prompts of runs that are queued or live."""

    def __init__(self, state_path: str) -> None:
        self._path = os.path.join(state_path, DIRECTORY)

    def path_of(self, run_id: str) -> str:
        """The file of this run's prompt."""
        return os.path.join(self._path, run_id)

    def write(self, run_id: str, prompt: str) -> bool:
        """Write the prompt; False when the run has a prompt already, which stays. StateError: it cannot be written."""
        try:
            os.makedirs(self._path, 0o700, exist_ok=True)
            fd = create(self.path_of(run_id))
        except FileExistsError:
            return False
        except OSError as error:
            raise _unwritten(error) from None
        try:
            with open(fd, "wb") as file:
                file.write(prompt.encode("utf-8", "surrogatepass"))
        except OSError as error:
            self.remove(run_id)
            raise _unwritten(error) from None
        return True

    def remove(self, run_id: str) -> None:
        """Remove the prompt, if there is one."""
        try:
            os.unlink(self.path_of(run_id))
        except OSError:
            pass  # most runs have no prompt file; `sweep` removes a leftover file at the next start

    def forget(self, run: ScheduledRun) -> None:
        """Remove the prompt of a settled run: nobody reads it any more."""
        self.remove(run.run_id)

    def sweep(self, is_wanted: Callable[[str], bool]) -> None:
        """Remove the prompts of runs that are over."""
        try:
            names = os.listdir(self._path)
        except OSError:
            return
        for name in names:
            if not is_wanted(name):
                self.remove(name)


def _unwritten(error: OSError) -> StateError:
    remedy = "make the state directory writable, and free space there"
    return StateError(f"the prompt cannot be written: {error.strerror}", remedy=remedy)
