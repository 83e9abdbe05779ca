"""A reaper, a harness below it, and what the harness starts: the parts of an orphan, as real processes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REAPER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
open('/proc/self/comm', 'w').write(sys.argv[1])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
sys.stdin.read()
"""
# The harness starts a process that forks once more, says both PIDs and its own, and waits to be killed.
HARNESS = """
env "$@" sh -c 'trap "" TERM PIPE; sleep 600 & echo $PPID $$ $!; wait' &
wait
"""
GENTLE = HARNESS.replace('trap "" TERM PIPE; ', "")


class Leaving:
    """A harness of this program name, alive, with a marked process of two levels below it."""

    def __init__(
        self,
        place: Path,
        program: str,
        marks: Mapping[str, str],
        *,
        reaper: str = "tini",
        script: str = HARNESS,
        pass_fd: int | None = None,
    ) -> None:
        harness = place / program
        if not harness.exists():
            harness.symlink_to("/bin/sh")
        words = [f"{name}={value}" for name, value in marks.items()]
        clean = {"PATH": os.environ["PATH"]}
        self.reaper = subprocess.Popen(
            [sys.executable, "-c", REAPER, reaper, str(harness), "-c", script, program, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean,
            pass_fds=() if pass_fd is None else (pass_fd,),
        )
        assert self.reaper.stdout is not None
        line = self.reaper.stdout.readline().split()
        self.parent, self.shell, self.sleeper = (int(word) for word in line)
        self.harness = _parent_of(self.parent) if _name_of(self.parent) != program else self.parent

    def kill_harness(self) -> None:
        """SIGKILL the harness; returns when its child has another parent."""
        pidfd = os.pidfd_open(self.harness)
        os.kill(self.harness, signal.SIGKILL)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        assert poll.poll(20_000)
        os.close(pidfd)

    @property
    def pids(self) -> list[int]:
        """The processes of the harness's command."""
        return sorted({self.shell, self.sleeper})

    def close(self) -> None:
        """End everything, the reaper last."""
        for pid in (self.harness, self.parent, self.shell, self.sleeper):
            if pid != self.reaper.pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        assert self.reaper.stdin is not None
        assert self.reaper.stdout is not None
        self.reaper.stdin.close()
        self.reaper.wait()
        self.reaper.stdout.close()


def _name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])
