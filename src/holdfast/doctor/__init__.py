"""The doctor: examine the host, the state directory and its runs, and carry out repairs.

    diagnosis = holdfast.doctor.examine()
    holdfast.doctor.carry_out(holdfast.doctor.open_for_repair(), diagnosis.repairs)

These names are loaded at their first use, because the doctor needs SQLite and ctypes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .examination import examine, open_for_repair
    from .repair import carry_out

__all__ = ["carry_out", "examine", "open_for_repair"]


def __getattr__(name: str) -> object:
    if name == "carry_out":
        from . import repair

        return repair.carry_out
    if name in __all__:
        from . import examination

        return getattr(examination, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
