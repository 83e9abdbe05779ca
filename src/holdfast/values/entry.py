"""The entry of a command: what its process does last before exec, beyond what most runs need.

An entry is no part of the spec: descriptors and numbers of users mean something only in this process and on this host.
The caller of a run with an entry hears when the command is executed, or why it is not.
"""

from __future__ import annotations

from .fast_imports import NamedTuple

MOST_PASSED = 253  # the kernel passes no more descriptors at once
MOST_GROUPS = 2048  # what fits into the message to the child, beside a path
FAILURE_BYTES = 8


class Entry(NamedTuple):
    """One entry. The defaults change nothing, and still tell the caller of the exec."""

    program: str = ""  # a path, or a name to look for in PATH; empty: argv[0]
    passed: tuple[int, ...] = ()  # descriptors of this process, which the command gets under the same numbers
    umask: int | None = None
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] | None = None  # the supplementary ones
    ignored: tuple[int, ...] = ()  # signals that the command ignores
