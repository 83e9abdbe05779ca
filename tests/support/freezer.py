"""Processes that nothing can kill for a while: frozen in the version 1 freezer, where SIGKILL stays pending."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_ROOT = Path("/sys/fs/cgroup/freezer")
_BOUND_S = 60.0


def why_no_freezer() -> str | None:
    """None if a version 1 freezer can be used, otherwise the reason."""
    if not (_ROOT / "cgroup.procs").exists():
        return f"needs the version 1 freezer mounted at {_ROOT}"
    return None if os.access(_ROOT, os.W_OK) else f"{_ROOT} is not writable"


class Freezer:
    """A freezer cgroup of our own; leaving it thaws its processes, and killed ones die then."""

    def __init__(self) -> None:
        self.path = _ROOT / f"pytest-holdfast-{os.getpid()}-{os.urandom(3).hex()}"

    def __enter__(self) -> Self:
        self.path.mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thaw()
        for line in (self.path / "cgroup.procs").read_text().split():  # alive: move it back
            with contextlib.suppress(ProcessLookupError):
                (_ROOT / "cgroup.procs").write_text(line)
        self._remove()

    def _remove(self) -> None:
        """Remove the cgroup: a dying process is not listed any more, but is in it until it is dead."""
        end = time.monotonic() + _BOUND_S
        while True:
            try:
                return self.path.rmdir()
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > end:
                    raise
            os.sched_yield()

    def freeze(self, pid: int) -> None:
        """Freeze a process and return when it is frozen."""
        (self.path / "cgroup.procs").write_text(str(pid))
        (self.path / "freezer.state").write_text("FROZEN")
        while (self.path / "freezer.state").read_text().strip() != "FROZEN":
            os.sched_yield()

    def thaw(self) -> None:
        """Let all processes inside go on."""
        (self.path / "freezer.state").write_text("THAWED")
