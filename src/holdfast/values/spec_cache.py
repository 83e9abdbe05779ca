"""A cache of the last checked spec, for programs that start many runs with the same options."""

from __future__ import annotations

import os

from .defaults import with_defaults
from .environment import parent_run_id
from .fast_imports import TYPE_CHECKING
from .fields import check_argv, check_descriptor
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
    options = with_defaults(options)
    if "parent" not in options:
        options["parent"] = parent_run_id(os.environ)
    # Descriptors have other numbers in each run of a program.
    given = {name: value for name in _STREAMS if (value := options.get(name)).__class__ is int}
    key = tuple([(name, value.__class__, None if name in given else value) for name, value in options.items()])
    known = _checked  # read once: another thread may replace it
    if known is not None and known[0] == key:
        arguments = check_argv(argv)
        if sum(map(len, arguments)) < _SHORT_ARGV:  # of a longer argv, `make_spec` counts the bytes
            streams: dict[str, Any] = {name: check_descriptor(value, name) for name, value in given.items()}
            return known[1]._replace(argv=arguments, run_id=new_run_id(), **streams)
    _refuse_unknown(options)
    spec = make_spec(argv, **options)
    if "run_id" not in options and all(kind in _PLAIN for _name, kind, _value in key):
        _checked = (key, spec)
    return spec


def _refuse_unknown(options: SpecOptions) -> None:
    """TypeError: there is no such option. Python's own error would name `make_spec`, which the caller did not call."""
    known = make_spec.__kwdefaults__ or {}
    for name in options:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            raise TypeError(f"unexpected keyword argument {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))


_STREAMS = ("stdin", "stdout", "stderr")
_PLAIN = frozenset((str, int, float, bool, type(None)))
_SHORT_ARGV = 1 << 16
_checked: tuple[tuple[Any, ...], RunSpec] | None = None
