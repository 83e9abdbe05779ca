"""Supervision as one would write it first: the negative controls. What Holdfast must prevent, this shows happening."""

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
    """A child in a session of its own, with a pipe for its output; on leaving, whatever escaped is killed."""

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
        """What `Popen.terminate` does."""
        os.kill(self.pid, number)

    def signal_group(self, number: int = signal.SIGKILL) -> None:
        """What careful people do: the whole process group."""
        os.killpg(self.pid, number)

    def signal_group_and_wait(self, number: int = signal.SIGKILL) -> None:
        """Signal the group, and take the leader's exit for the end."""
        self.signal_group(number)
        self.process.wait()


def lives_on(pid: int) -> bool:
    """Whether the process has not exited after a while in which it well could have."""
    return not wait_exited(pid, _A_WHILE_S)
