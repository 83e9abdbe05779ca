"""A RunSpec encoded for the guard: PART_* frames, strings ending in NUL, times in nanoseconds.

These frames carry no check. A check tells a torn or damaged write from a whole one. The spec is written into a memfd
with one call before the guard exists, so it cannot be torn, and a check over kilobytes of environment in Python would
cost more than starting the process.
"""

from __future__ import annotations

import os
import struct

from ..journal.codec import FRAME
from ..journal.facts import MARK
from ..values.environment import HEARTBEAT, child_environment, environment_block, own_variables
from ..values.environment import RUN_ID as RUN_ID_VARIABLE
from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from ..values.fields import CAPTURE
from ..values.ladder import GraceLadder
from ..values.spec import shared_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..values.entry import Entry
    from ..values.spec import RunSpec
    from .containment import Containment

OPTIONS, ARGV, ENV, CWD, LADDER, RUN_ID, CGROUP, MEMORY_GROUP, PIDS_GROUP = range(32, 41)
CONTAINER, ENTER, COPY, LOOK, SWEEP, INSIDE, FOREIGN, DESCRIPTORS = range(41, 49)

PTY = 1 << 0
MERGE = 1 << 1
KEEP_INPUT = 1 << 2
LISTEN = 1 << 3
OUTPUT_DROPS = 1 << 4
NESTED = 1 << 5
OWNED = 1 << 6
IDLE = {"output": 1 << 7, "cpu": 1 << 8, "heartbeat": 1 << 9}
WAKE_OUTPUT = 1 << 10
CGROUP_CONTROLS = 1 << 11
AGAIN = 1 << 12
GRACE_LADDER = 1 << 13
OUTPUT_ROLLS = 1 << 14
GIVES_STDOUT = 1 << 15
GIVES_STDERR = 1 << 16
WITH_STARTER = 1 << 17
SESSION_BUDGET = 1 << 18
WITH_ENTRY = 1 << 19

_BEYOND_CAP = {None: 0, "stop": 0, "drop": OUTPUT_DROPS, "roll": OUTPUT_ROLLS}
STRAGGLERS = {"kill": 1, "wait": 2, "leave": 3, "session": 4}

_OPTIONS = struct.Struct("<Iiii12Q")
_RUNG = struct.Struct("<iiQ")
_FOREIGN = struct.Struct("<i4xQ")
_NUMBER = struct.Struct("<Q")
_ENTRY = struct.Struct("<QiiIII4x")
_UNCHANGED = 0xFFFFFFFF

# The soft limit on descriptors that commands get; None: as this process. A process that raised its own limit sets it.
descriptors_of_commands: int | None = None


def encode_spec(
    spec: RunSpec,
    containment: Containment,
    *,
    wake_output: bool,
    window_bytes: int,
    heartbeat: str | None = None,
    listens: bool = False,
    again: bool = False,
    in_budget: bool = False,
    with_entry: bool = False,
) -> bytes:
    """Encode all frames of the spec, in one piece. `again`: the guard may keep another run after this one.
    `in_budget`: the session of the run has a budget. `with_entry`: an entry comes beside the spec.

    SpecError, GuardError: the run cannot take place in a container, see `container`.
    """
    global _known_parts
    known = _known_parts  # read once: another thread may replace it
    # Two ladders of different types may be equal.
    asked = (shared_fields(spec), type(spec.ladder))
    of_guard = (AGAIN if again else 0) | (SESSION_BUDGET if in_budget else 0)
    of_guard |= WITH_ENTRY if with_entry else 0
    key = (asked, containment, wake_output, window_bytes, listens, of_guard, os.getpid(), descriptors_of_commands)
    if known is None or known[0] != key:
        flags = _flags(spec, containment, wake_output, listens) | of_guard
        known = _known_parts = (key, _unnamed_parts(spec, containment, flags, window_bytes))
    if spec.in_container is not None:
        return known[1] + _container_parts(spec)
    argv = "\0".join(spec.argv)
    names = _part(RUN_ID, spec.run_id.encode() + b"\0") + _part(ARGV, os.fsencode(argv) + b"\0")
    if spec.foreign is not None:
        return known[1] + names + _part(FOREIGN, _FOREIGN.pack(*spec.foreign))
    return known[1] + names + _part(ENV, _environment(spec, heartbeat))


_known_parts: tuple[tuple[object, ...], bytes] | None = None


def _unnamed_parts(spec: RunSpec, containment: Containment, flags: int, window_bytes: int) -> bytes:
    parts = [
        _part(OPTIONS, _options(spec, flags, window_bytes)),
        _part(LADDER, b"".join(_RUNG.pack(rung.signal, 0, _ns(rung.wait_s)) for rung in spec.ladder)),
    ]
    if descriptors_of_commands is not None:
        parts.append(_part(DESCRIPTORS, _NUMBER.pack(descriptors_of_commands)))
    if spec.in_container is not None:
        return b"".join(parts)  # directory and cgroups are outside the container
    if spec.cwd is not None:
        parts.append(_text(CWD, spec.cwd))
    if containment.cgroup_base is not None:
        parts.append(_text(CGROUP, containment.cgroup_base))
    if spec.memory_bytes is not None and containment.memory_base is not None:
        parts.append(_text(MEMORY_GROUP, containment.memory_base))
    if spec.pids is not None and containment.pids_base is not None:
        parts.append(_text(PIDS_GROUP, containment.pids_base))
    return b"".join(parts)


def _container_parts(spec: RunSpec) -> bytes:
    from .binary import guard_path
    from .container import command_lines, variables

    lines = command_lines(spec, guard_path())
    ladder = b"".join(_RUNG.pack(rung.signal, 0, _ns(rung.wait_s)) for rung in spec.ladder)
    inside = [
        _part(LADDER, ladder),  # the agent does not climb it, but every spec must have one
        _text(RUN_ID, spec.run_id),
        _list(ARGV, spec.argv),
        _part(ENV, environment_block(variables(spec))),
        b"" if spec.cwd is None else _text(CWD, spec.cwd),
    ]
    outside = [
        _text(RUN_ID, spec.run_id),
        _list(ARGV, lines.attach),
        _part(ENV, _environment(spec._replace(env=None), None)),
        _text(CONTAINER, spec.in_container or ""),
        _list(ENTER, lines.enter),
        _list(COPY, lines.copy),
        _list(LOOK, lines.look),
        _list(SWEEP, lines.sweep),
        _part(INSIDE, b"".join(inside)),
    ]
    return b"".join(outside)


def _options(spec: RunSpec, flags: int, window_bytes: int) -> bytes:
    return _OPTIONS.pack(
        flags,
        # Without a run directory there is nowhere for stragglers to go on.
        STRAGGLERS["kill" if spec.stragglers == "session" and not flags & LISTEN else spec.stragglers],
        spec.warn_signal,
        os.getpid(),
        _ns(spec.timeout_s),
        _ns(spec.max_timeout_s),
        _ns(spec.idle_timeout_s),
        _ns(spec.warn_before_s),
        _ns(spec.drain_s),
        _ns(spec.drain_idle_s),
        _ns(spec.kill_wait_s),
        spec.memory_bytes or 0,
        spec.pids or 0,
        spec.max_output_bytes or 0,
        window_bytes,
        _ns(spec.cpu_time_s),
    )


def _flags(spec: RunSpec, containment: Containment, wake_output: bool, listens: bool) -> int:
    flags = PTY if spec.pty else 0
    flags |= LISTEN if listens else 0
    flags |= MERGE if spec.merge else 0
    flags |= KEEP_INPUT if keeps_input(spec) else 0
    flags |= GIVES_STDOUT if spec.stdout != CAPTURE else 0
    flags |= GIVES_STDERR if spec.stderr != CAPTURE else 0
    flags |= _BEYOND_CAP[spec.on_max_output]
    flags |= NESTED if spec.parent is not None else 0
    flags |= GRACE_LADDER if isinstance(spec.ladder, GraceLadder) else 0
    flags |= OWNED if spec.lifetime == "owner" else 0
    flags |= WITH_STARTER if spec.starter is not None else 0
    flags |= WAKE_OUTPUT if wake_output else 0
    flags |= CGROUP_CONTROLS if containment.controls else 0
    for kind in spec.idle_counts:
        flags |= IDLE[kind]
    return flags


def encode_entry(entry: Entry) -> bytes:
    """Encode an entry as its child reads it: `struct entry`, groups, numbers of descriptors, program."""
    groups, passed = entry.groups, entry.passed
    head = _ENTRY.pack(
        sum([1 << number - 1 for number in entry.ignored]),
        -1 if entry.umask is None else entry.umask,
        -1 if groups is None else len(groups),
        _UNCHANGED if entry.user is None else entry.user,
        _UNCHANGED if entry.group is None else entry.group,
        len(passed),
    )
    numbers = struct.pack(f"<{len(groups or ())}I{len(passed)}i", *(groups or ()), *passed)
    return head + numbers + os.fsencode(entry.program) + b"\0"


def keeps_input(spec: RunSpec) -> bool:
    """Whether the guard keeps a writing end of stdin for the next owner. It keeps a terminal in any case."""
    return spec.lifetime != "owner" and spec.stdin == "pipe" and not spec.pty


class _Known(NamedTuple):
    """The last environment that was encoded: most runs of a program differ from the previous one only in their id."""

    base: object
    own: tuple[object, ...]
    encoded: bytes


_known: _Known | None = None


def _environment(spec: RunSpec, heartbeat: str | None) -> bytes:
    global _known
    known = _known  # read once: another thread may replace it
    own = (spec.env, spec.env_keep, spec.env_drop)
    if known is None or known.own != own or known.base != _raw_environment():
        known = _known = _Known(dict(_raw_environment()), own, _encode_environment(spec))
    of_this_run = own_variables(spec.run_id, spec.mark)
    if heartbeat is not None:
        of_this_run[HEARTBEAT] = heartbeat
    return known.encoded + environment_block(of_this_run)


def _encode_environment(spec: RunSpec) -> bytes:
    variables = child_environment(
        os.environ, run_id=spec.run_id, extra=spec.env, keep=spec.env_keep, drop=spec.env_drop
    )
    del variables[RUN_ID_VARIABLE]
    return environment_block(variables)


def _raw_environment() -> dict[bytes, bytes]:
    # os.environ's own dictionary of bytes: comparing it takes one microsecond, decoding every variable for a public
    # comparison takes forty. An interpreter without it gets the public way.
    raw: dict[bytes, bytes] | None = getattr(os.environ, "_data", None)
    return raw if raw is not None else dict(os.environb)


def _ns(seconds: float | None) -> int:
    return 0 if seconds is None else round(seconds * 1_000_000_000)


def _text(kind: int, text: str) -> bytes:
    return _part(kind, os.fsencode(text) + b"\0")


def _list(kind: int, words: Iterable[str]) -> bytes:
    return _part(kind, os.fsencode("".join([f"{word}\0" for word in words])))


def _part(kind: int, payload: bytes) -> bytes:
    return FRAME.pack(MARK, kind, 0, 0, len(payload), 0, 0) + payload
