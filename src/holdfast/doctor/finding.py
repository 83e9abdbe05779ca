"""What the doctor says, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..guard.leaves import Leaf
    from ..state.upkeep.orphans import Orphan

OK, WARNING, PROBLEM = "ok", "warning", "problem"
REAP = "holdfast doctor --reap"


class DoctorFinding(NamedTuple):
    """One thing that was looked at: how it is, which run and processes it is about, and what to do."""

    level: str
    topic: str
    what: str
    run_id: str | None = None
    pids: tuple[int, ...] = ()
    remedy: str | None = None

    @property
    def needs_action(self) -> bool:
        """A problem does; a warning does when there is something to be done."""
        return self.level == PROBLEM or (self.level == WARNING and self.remedy is not None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "pids": list(self.pids), "needs_action": self.needs_action}


class PlannedRepair(NamedTuple):
    """Something that `--reap` does. `what` completes "would ..."; `kind` says how (see repair.py)."""

    kind: str
    what: str
    run_id: str | None = None
    pids: tuple[int, ...] = ()
    path: str | None = None
    orphan: Orphan | None = None
    leaf: Leaf | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"kind": self.kind, "what": self.what, "run_id": self.run_id, "pids": list(self.pids), "path": self.path}


class RepairResult(NamedTuple):
    """What became of a repair: `confirmed` only when it was seen to be done."""

    repair: PlannedRepair
    confirmed: bool
    what: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.repair.as_dict(), "confirmed": self.confirmed, "result": self.what}


FindingAndRepair = tuple[DoctorFinding, PlannedRepair | None]


class Diagnosis(NamedTuple):
    """All findings, and the repairs that follow from them, in the order in which they are to be done."""

    findings: tuple[DoctorFinding, ...]
    repairs: tuple[PlannedRepair, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing needs to be done."""
        return not any(finding.needs_action for finding in self.findings)
