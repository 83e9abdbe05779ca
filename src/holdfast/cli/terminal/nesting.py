"""A run inside a run: who is behind a signal to us."""

from __future__ import annotations

from ...values.errors import HoldfastError
from ...values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from ...state.directory import StateDirectory


def cause_of_signal(state: StateDirectory | None, parent: str | None) -> str:
    """`parent` when the run we were started in is ending, `user` in every other case.

    The outer guard signals our guard, which knows, and us, who cannot tell it from a person's `kill`. But it records
    its verdict before it signals anybody, so the outer journal tells.
    """
    if parent is None or state is None:
        return "user"
    from ...state.record import RunRecord

    try:
        with RunRecord(state, parent) as record:
            return "user" if record.read().outcome.status is None else "parent"
    except (HoldfastError, OSError):
        return "user"  # the outer run is kept elsewhere, or not at all
