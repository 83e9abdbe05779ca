"""A finding: what one harness did in one scene, with or without Holdfast."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """One cell of the table. `failure` says why there is nothing to measure; then the rest means nothing."""

    left: int = 0
    left_commands: list[str] = field(default_factory=list)
    left_memory_bytes: int = 0
    hung_s: float | None = None  # None: the harness was SIGKILLed, and has not hung
    ended_by_trial: bool = False  # the harness was still there at the trial's own limit
    printed_bytes: int = 0
    told_bytes: int = 0
    kept_bytes: int = 0  # as much as can be read afterwards: told, in a file, or in the record of Holdfast
    told: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)  # the outcomes that `holdfast ps` has
    failure: str | None = None

    @property
    def lost_bytes(self) -> int:
        """The bytes that nobody can read any more."""
        return self.printed_bytes - self.kept_bytes
