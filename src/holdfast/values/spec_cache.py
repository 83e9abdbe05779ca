"""A cache of the last checked spec, for programs that start many runs with the same options."""

from __future__ import annotations

import os

from .environment import parent_run_id
from .fast_imports import TYPE_CHECKING
from .fields import check_argv
from .run_id import new_run_id
from .spec import make_spec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .fields import Text
    from .options import SpecOptions
    from .spec import RunSpec


def new_spec(argv: Sequence[Text], options: SpecOptions) -> RunSpec:
    """Make the checked spec. If this process is inside a run, that run is the parent, unless the caller names one.

    Options equal to those of the last run are not checked again, as long as they are plain values: a program that
    starts thousands of runs starts them with the same options. SpecError as from `make_spec`.
    """
    global _checked
    if "parent" not in options:
        options["parent"] = parent_run_id(os.environ)
    key = tuple([(name, value.__class__, value) for name, value in options.items()])
    known = _checked  # read once: another thread may replace it
    if known is not None and known[0] == key:
        arguments = check_argv(argv)
        if sum(map(len, arguments)) < _SHORT_ARGV:  # of a longer argv, `make_spec` counts the bytes
            return known[1]._replace(argv=arguments, run_id=new_run_id())
    spec = make_spec(argv, **options)
    if "run_id" not in options and all(kind in _PLAIN for _name, kind, _value in key):
        _checked = (key, spec)
    return spec


_PLAIN = frozenset((str, int, float, bool, type(None)))
_SHORT_ARGV = 1 << 16
_checked: tuple[tuple[Any, ...], RunSpec] | None = None
