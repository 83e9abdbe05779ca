"""Cgroups of the tests' own, so that leftovers in them belong to the tests.

Runs are put below the cgroup of the process that starts them. Several suites, or a suite and real runs, may work side
by side on one machine; only in a cgroup that nobody else uses can a test say that nothing is left of *its* runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.guard import containment

if TYPE_CHECKING:
    import pytest


class OwnGroups:
    """Cgroups with this process in them, one for each hierarchy that runs are put in; none without permission."""

    def __init__(self) -> None:
        self._groups: list[Path] = []

    def enter(self) -> None:
        """Make them and move there. OSError if a place that looked writable is not."""
        bases = {base for base in containment.probe()[:3] if base is not None}
        for base in sorted(bases):
            group = Path(base, f"pytest-holdfast-{os.getpid()}")
            group.mkdir()
            self._groups.append(group)
            (group / "cgroup.procs").write_text(str(os.getpid()))
        containment.forget()

    def leave(self) -> None:
        """Move back and remove them. OSError if a process is left in one."""
        for group in self._groups:
            (group.parent / "cgroup.procs").write_text(str(os.getpid()))
            group.rmdir()
        self._groups.clear()
        containment.forget()

    def find_runs(self) -> list[str]:
        """The cgroups of runs."""
        return sorted(str(path) for group in self._groups for path in group.iterdir() if path.is_dir())


OWN_GROUPS = OwnGroups()


def use_containment(monkeypatch: pytest.MonkeyPatch, known: containment.Containment) -> None:
    """Let this process give its runs `known` and nothing else, until the end of the test.

    The answer is kept only as long as this process is in the cgroup in which it probed. So that is said as well:
    otherwise the first test of a worker probes again.
    """
    monkeypatch.setattr(containment, "_own_groups", Path("/proc/self/cgroup").read_text())
    monkeypatch.setattr(containment, "_known", known)


def use_no_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have no cgroup for its runs, until the end of the test."""
    use_containment(monkeypatch, containment.Containment(None, None, None, "for this test"))
