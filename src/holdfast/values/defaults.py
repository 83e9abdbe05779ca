"""Default options for the runs of this process: `holdfast.defaults`."""

from __future__ import annotations

from .errors import SpecError
from .fast_imports import TYPE_CHECKING
from .options import OPTIONS

if TYPE_CHECKING:
    from typing import Unpack

    from .options import SpecOptions

# What belongs to one run alone. Each has its own, or the run is another one.
_OF_ONE_RUN = frozenset(
    {
        *("container_runtime", "cwd", "env", "foreign", "in_container", "left_by", "merge", "parent", "pty"),
        *("priority", "queued_at", "ready", "run_id", "starter", "stderr", "stdin", "stdout"),
    }
)
_NAMES = frozenset(option.name for option in OPTIONS) - _OF_ONE_RUN
_set: SpecOptions = {}


class Defaults:
    """Defaults that are set from now on. As a context manager: until the end of its block."""

    __slots__ = ("_before",)

    def __init__(self, before: SpecOptions) -> None:
        self._before = before

    def __enter__(self) -> Defaults:
        return self

    def __exit__(self, *_raised: object) -> None:
        global _set
        _set = self._before


def defaults(**options: Unpack[SpecOptions]) -> Defaults:
    """Set default options for all later runs that this process starts with the library or a drop-in.

    They are added to the defaults that are set already. Without options, all defaults are taken back. In a `with`
    statement the defaults end with the block, for all threads. SpecError: the option belongs to one run alone.
    """
    global _set
    before = _set
    for name in options:
        if name not in _NAMES:
            remedy = f"use some of {', '.join(sorted(_NAMES))}"
            raise SpecError(f"{name} cannot have a default", field=name, remedy=remedy)
    if options:
        from .spec import make_spec  # here, because it is only for the check

        merged: SpecOptions = {**before, **options}
        make_spec(["true"], **merged)
        _set = merged
    else:
        _set = {}
    return Defaults(before)


def with_defaults(options: SpecOptions) -> SpecOptions:
    """These options, and the defaults for what they leave out."""
    return {**_set, **options} if _set else options
