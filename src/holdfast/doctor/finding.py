"""Findings and repairs: the values that the doctor reports and carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..guard.leaves import Leaf
    from ..state.upkeep.orphans import Orphan

OK, WARNING, PROBLEM = "ok", "warning", "problem"
REAP = "holdfast doctor --reap"


class DoctorFinding(NamedTuple):
    """One thing that the doctor examined: its level, the run and processes concerned, and the remedy."""

    level: str
    topic: str
    what: str
    run_id: str | None = None
    pids: tuple[int, ...] = ()
    remedy: str | None = None

    @property
    def needs_action(self) -> bool:
        """Whether a person has to act: on a problem, and on a warning with a remedy."""
        return self.level == PROBLEM or (self.level == WARNING and self.remedy is not None)

    def as_dict(self) -> dict[str, Any]:
        """As a dictionary for JSON."""
        return {**self._asdict(), "pids": list(self.pids), "needs_action": self.needs_action}


class PlannedRepair(NamedTuple):
    """A repair that `--reap` would do. `what` completes "would ..."; `kind` selects the function in repair.py."""

    kind: str
    what: str
    run_id: str | None = None
    pids: tuple[int, ...] = ()
    path: str | None = None
    orphan: Orphan | None = None
    leaf: Leaf | None = None

    def as_dict(self) -> dict[str, Any]:
        """As a dictionary for JSON."""
        return {"kind": self.kind, "what": self.what, "run_id": self.run_id, "pids": list(self.pids), "path": self.path}


class RepairResult(NamedTuple):
    """The result of a repair: `confirmed` only when the doctor has seen that it is done."""

    repair: PlannedRepair
    confirmed: bool
    what: str

    def as_dict(self) -> dict[str, Any]:
        """As a dictionary for JSON."""
        return {**self.repair.as_dict(), "confirmed": self.confirmed, "result": self.what}


FindingAndRepair = tuple[DoctorFinding, PlannedRepair | None]


class Diagnosis(NamedTuple):
    """All findings, and the repairs that they need, in the order in which they are carried out."""

    findings: tuple[DoctorFinding, ...]
    repairs: tuple[PlannedRepair, ...]

    @property
    def healthy(self) -> bool:
        """Whether no finding needs action."""
        return not any(finding.needs_action for finding in self.findings)
