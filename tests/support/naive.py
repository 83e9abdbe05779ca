"""Naive supervision, the negative controls: here the bad things happen that Holdfast must prevent."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from .processes import kill_children, own_children, wait_exited
from .readiness import read_ready

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_A_WHILE_S = 0.3


class Naive:
    """A child in a session of its own, with a pipe for its output; on leaving, escaped processes are killed."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv

    def __enter__(self) -> Self:
        self._known = own_children()
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, start_new_session=True)
        self.pid = self.process.pid
        assert self.process.stdout is not None
        self.stdout = self.process.stdout.fileno()
        try:
            self.names = read_ready(self.stdout)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        kill_children(self._known)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def signal_leader(self, number: int = signal.SIGTERM) -> None:
        """Do what `Popen.terminate` does."""
        os.kill(self.pid, number)

    def signal_group(self, number: int = signal.SIGKILL) -> None:
        """Signal the whole process group, as careful programs do."""
        os.killpg(self.pid, number)

    def signal_group_and_wait(self, number: int = signal.SIGKILL) -> None:
        """Signal the group, and take the leader's exit for the end."""
        self.signal_group(number)
        self.process.wait()


def lives_on(pid: int) -> bool:
    """Whether the process is still alive after enough time to exit."""
    return not wait_exited(pid, _A_WHILE_S)
