"""The spec of a run: `make_spec` turns a caller's options into one checked, immutable `RunSpec`.

Nothing here touches the system. The guard finds out whether the directory and the program exist, at the moment it needs
them. Every mistake that can be known before that is a SpecError that names the field: `fields` checks each field by
itself, and this module checks what must fit together.
"""

from __future__ import annotations

import os

from . import fields
from .durations import parse_duration
from .errors import SpecError
from .fast_imports import TYPE_CHECKING, Iterable, Mapping, NamedTuple, Sequence
from .fast_imports import signal as _signal
from .fields import Duration, Text, printable
from .ladder import Ladder, Rung, default_ladder, parse_ladder
from .options import JOURNAL, OPTIONS, options_from_json
from .run_id import check_run_id, new_mark, new_run_id
from .signals import parse_signal

if TYPE_CHECKING:
    from typing import Any

STRAGGLERS = ("kill", "wait", "leave", "session")
LIFETIMES = ("owner", "session", "detached")
ON_MAX_OUTPUT = ("stop", "drop", "roll")
KEPT_OUTPUT_BYTES = 1 << 30  # a run in a state directory keeps head and tail of more, if its caller sets no limit
LEAST_ROLLING = 4096

# exec refuses more than this, whatever the limits are: 3/4 of the default stack in all. The limit in force may be lower
# and counts the inherited environment, too; then exec itself fails with E2BIG, and the run reports that.
LARGEST_EXEC = 6 << 20


DEFAULT_GRACE_S = 10.0
DEFAULT_DRAIN_S = 2.0


class RunSpec(NamedTuple):
    """The checked spec of one run. Only `make_spec` makes one."""

    argv: tuple[str, ...]
    cwd: str | None
    env: Mapping[str, str] | None
    env_keep: tuple[str, ...]
    env_drop: tuple[str, ...]
    stdin: str | int  # a number is a descriptor of this process, which the command gets as its own
    stdout: str | int
    stderr: str | int
    pty: bool
    merge: bool
    timeout_s: float | None
    max_timeout_s: float | None
    idle_timeout_s: float | None
    idle_counts: frozenset[str]
    grace_s: float
    ladder: tuple[Rung, ...]
    drain_s: float
    drain_idle_s: float
    kill_wait_s: float
    stragglers: str
    warn_before_s: float | None
    warn_signal: int
    memory_bytes: int | None
    pids: int | None
    max_output_bytes: int | None
    on_max_output: str | None  # None: the default of the place where the run is kept
    cpu_time_s: float | None
    session: str | None
    labels: tuple[tuple[str, str], ...]
    name: str | None
    run_id: str
    mark: str | None  # what tells its processes from those of a run with the same id elsewhere; see `environment.token`
    lifetime: str
    parent: str | None
    queued_at: str | None  # RFC 3339: when a daemon queued the run; None for every other run
    priority: int | None  # in the queue of a daemon; None for every other run
    in_container: str | None
    container_runtime: str | None  # a command line; None outside of containers
    foreign: tuple[int, int] | None  # PID and start time of a process that another program started
    starter: tuple[int, int] | None  # PID and start time of the process that started the owner: the run ends with it
    left_by: str | None  # the run whose stragglers this run is
    ready: tuple[str, ...]  # conditions; the process that waits for the run to be ready looks at them

    def __repr__(self) -> str:
        # The generated repr would show environment values, and reprs end up in logs.
        return f"RunSpec({public_spec(self)!r})"


def make_spec(
    argv: Sequence[Text],
    *,
    cwd: Text | None = None,
    env: Mapping[str, str] | None = None,
    env_keep: str | Iterable[str] = (),
    env_drop: str | Iterable[str] = (),
    stdin: Text | int | None = None,
    stdout: str | int = fields.CAPTURE,
    stderr: str | int = fields.CAPTURE,
    pty: bool = False,
    merge: bool = False,
    timeout: Duration | None = None,
    max_timeout: Duration | None = None,
    idle_timeout: Duration | None = None,
    idle_counts: str | Iterable[str] = ("output",),
    grace: Duration = DEFAULT_GRACE_S,
    ladder: Ladder | None = None,
    drain: Duration = DEFAULT_DRAIN_S,
    drain_idle: Duration = 0.25,
    kill_wait: Duration = 5.0,
    stragglers: str = "kill",
    warn_before: Duration | None = None,
    warn_signal: str | int = int(_signal.SIGUSR1),
    memory: str | int | None = None,
    pids: str | int | None = None,
    max_output: str | int | None = None,
    on_max_output: str | None = None,
    cpu_time: Duration | None = None,
    session: str | None = None,
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    run_id: str | None = None,
    mark: str | None = None,
    lifetime: str = "owner",
    parent: str | None = None,
    queued_at: str | None = None,
    priority: int | None = None,
    in_container: str | None = None,
    container_runtime: str | None = None,
    foreign: Sequence[int] | None = None,
    starter: Sequence[int] | None = None,
    left_by: str | None = None,
    ready: str | Iterable[str] = (),
) -> RunSpec:
    """Check every option and return the spec. SpecError names the first wrong field and what to write instead."""
    grace_s = parse_duration(grace, field="grace")
    spec = RunSpec(
        argv=fields.check_argv(argv),
        cwd=None if cwd is None else fields.check_path(cwd, "cwd"),
        env=None if env is None else fields.check_env(env),
        env_keep=fields.check_patterns(env_keep, "env_keep"),
        env_drop=fields.check_patterns(env_drop, "env_drop"),
        stdin=fields.check_stdin(stdin, pty=fields.check_flag(pty, "pty")),
        stdout=fields.check_output(stdout, "stdout"),
        stderr=fields.check_output(stderr, "stderr"),
        pty=pty,
        merge=fields.check_flag(merge, "merge") or pty,
        timeout_s=fields.check_limit(timeout, "timeout"),
        max_timeout_s=fields.check_limit(max_timeout, "max_timeout"),
        idle_timeout_s=fields.check_limit(idle_timeout, "idle_timeout"),
        idle_counts=fields.check_idle_counts(idle_counts),
        grace_s=grace_s,
        ladder=default_ladder(grace_s) if ladder is None else parse_ladder(ladder, grace_s=grace_s),
        drain_s=parse_duration(drain, field="drain"),
        drain_idle_s=parse_duration(drain_idle, field="drain_idle"),
        kill_wait_s=parse_duration(kill_wait, field="kill_wait"),
        stragglers=fields.check_word(stragglers, STRAGGLERS, "stragglers"),
        warn_before_s=fields.check_limit(warn_before, "warn_before"),
        warn_signal=parse_signal(warn_signal, field="warn_signal"),
        memory_bytes=fields.check_budget(memory, "memory"),
        pids=fields.check_pids(pids),
        max_output_bytes=fields.check_budget(max_output, "max_output"),
        on_max_output=_check_beyond(max_output, on_max_output),
        cpu_time_s=fields.check_limit(cpu_time, "cpu_time"),
        session=None if session is None else fields.check_session(session),
        labels=fields.check_labels(labels),
        name=None if name is None else fields.check_line(name, "name", 200),
        run_id=new_run_id() if run_id is None else check_run_id(run_id),
        mark=_mark_of(run_id, mark),
        lifetime=fields.check_word(lifetime, LIFETIMES, "lifetime"),
        parent=None if parent is None else check_run_id(parent, field="parent"),
        queued_at=None if queued_at is None else fields.check_line(queued_at, "queued_at", 64),
        priority=priority,
        in_container=None if in_container is None else fields.check_container(in_container),
        container_runtime=fields.check_runtime(container_runtime, in_container),
        foreign=None if foreign is None else fields.check_foreign(foreign),
        starter=None if starter is None else fields.check_starter(starter),
        left_by=None if left_by is None else check_run_id(left_by, field="left_by"),
        ready=_conditions(ready) if ready else (),
    )
    _check_together(spec)
    return spec


def _mark_of(run_id: str | None, mark: str | None) -> str | None:
    if mark is not None:
        return check_run_id(mark, field="mark")
    return None if run_id is None else new_mark(run_id)


def shared_fields(spec: RunSpec) -> tuple[object, ...]:
    """The fields that the runs of one program usually share: all but the command, run id and mark, and `queued_at`.

    Descriptors of this process are equal here: their numbers are nowhere in the bytes.
    Callers keep the bytes that they made of these fields, and use them again for the next run with equal fields.
    """
    streams = [int if stream.__class__ is int else stream for stream in (spec.stdin, spec.stdout, spec.stderr)]
    return (
        *spec[1:_STDIN_FIELD],
        *streams,
        *spec[_STDIN_FIELD + 3 : _RUN_ID_FIELD],
        *spec[_MARK_FIELD + 1 : _QUEUED_FIELD],
        *spec[_QUEUED_FIELD + 1 :],
    )


_STDIN_FIELD = RunSpec._fields.index("stdin")  # stdout and stderr follow it
_RUN_ID_FIELD = RunSpec._fields.index("run_id")
_MARK_FIELD = RunSpec._fields.index("mark")  # follows the run id
_QUEUED_FIELD = RunSpec._fields.index("queued_at")


def public_spec(spec: RunSpec) -> dict[str, Any]:
    """The spec as JSON for journals and people: names of environment variables, never their values."""
    public: dict[str, Any] = spec._asdict()
    del public["env"]
    public["env_names"] = sorted(printable(variable) for variable in spec.env or ())
    for name, to_json in _TO_JSON:
        public[name] = to_json(public[name])
    for name in _LISTS_OF_BYTES:
        public[name] = [printable(text) for text in public[name]]
    public["cwd"] = None if spec.cwd is None else printable(spec.cwd)
    return public


_TO_JSON = [(option.json_name, option.to_json) for option in OPTIONS if option.to_json and option.name != "env"]
_LISTS_OF_BYTES = ("argv", "env_keep", "env_drop")


def spec_on_record(run_id: str, public: Mapping[str, Any]) -> RunSpec:
    """Make the spec of an adopted run from its public spec, without the environment, which is not on record.

    A journal of another version may hold options that this version refuses. Then the spec has only the run's id: the
    guard keeps the real spec, and the reader must still be able to follow the run.
    """
    options = options_from_json(public, JOURNAL)
    options["run_id"] = run_id
    try:
        spec = make_spec(public.get("argv") or ["?"], **options)
    except (SpecError, TypeError):
        spec = make_spec(["?"], run_id=run_id)
    return spec._replace(mark=mark_on_record(public))


def mark_on_record(public: Mapping[str, Any]) -> str | None:
    """The mark of a run, from its public spec; None when it has none, or it was started before there were marks."""
    mark = public.get("mark")
    return mark if isinstance(mark, str) else None


def _check_beyond(max_output: str | int | None, given: str | None) -> str | None:
    if given is None:
        return None if max_output is None else "stop"
    return fields.check_word(given, ON_MAX_OUTPUT, "on_max_output")


def kept_spec(spec: RunSpec) -> RunSpec:
    """The spec of a run that is kept in a state directory: without a limit of its own, its output rolls at 1 GiB."""
    is_ours = spec.foreign is None and spec.stdout == spec.stderr == fields.CAPTURE
    if spec.max_output_bytes is not None or spec.on_max_output not in (None, "roll") or not is_ours:
        return spec
    return spec._replace(max_output_bytes=KEPT_OUTPUT_BYTES, on_max_output="roll")


def _check_together(spec: RunSpec) -> None:
    if spec.on_max_output == "roll" and spec.max_output_bytes is not None and spec.max_output_bytes < LEAST_ROLLING:
        raise SpecError(
            "an output limit that rolls is too small for a head and a tail",
            field="max_output",
            remedy=f"give at least {LEAST_ROLLING} bytes, or use on_max_output 'drop'",
        )
    if spec.stdout != fields.CAPTURE or spec.stderr != fields.CAPTURE:
        _check_given(spec)
    if spec.in_container is not None:
        _check_container(spec)
    if spec.foreign is not None:
        _check_foreign(spec)
    if spec.max_timeout_s is not None and (spec.timeout_s is None or spec.max_timeout_s < spec.timeout_s):
        raise SpecError(
            "max_timeout is the ceiling of extensions and must not be below timeout",
            field="max_timeout",
            remedy="give a timeout, and a max_timeout at least as long",
        )
    if spec.warn_before_s is not None and (spec.timeout_s is None or spec.warn_before_s >= spec.timeout_s):
        raise SpecError(
            "warn_before is counted back from the timeout and must be shorter",
            field="warn_before",
            remedy="give a timeout longer than warn_before",
        )
    if spec.lifetime == "session" and spec.session is None:
        raise SpecError(
            "lifetime 'session' needs a session", field="session", remedy="name the session, or use 'detached'"
        )
    if spec.priority is not None and spec.queued_at is None:
        raise SpecError(
            "only a queued run has a priority", field="priority", remedy="post the run to a daemon (holdfast submit)"
        )
    if spec.starter is not None and spec.lifetime == "detached":
        raise SpecError(
            "a detached run has no process with which it ends", field="lifetime", remedy="use 'owner' or 'session'"
        )
    if spec.stragglers == "session":
        _check_session_stragglers(spec)
    env = spec.env or {}
    strings = [*spec.argv, *env, *env.values()]
    size = sum(len(os.fsencode(text)) for text in strings) + 9 * len(strings)  # the NUL and the pointer of each
    if size > LARGEST_EXEC:
        raise SpecError(
            f"arguments and environment take {size} bytes, more than any kernel limit allows",
            field="argv" if sum(map(len, spec.argv)) * 2 > size else "env",
            remedy="pass large data through a file or stdin",
        )


def _check_given(spec: RunSpec) -> None:
    """Refuse options that need a stream which the guard does not read, because the command has the caller's own."""
    given = "stderr" if spec.stdout == fields.CAPTURE else "stdout"
    if spec.pty or spec.in_container is not None or spec.foreign is not None:
        other = "pty" if spec.pty else "in_container" if spec.foreign is None else "foreign"
        remedy = f"leave {given} out, and its output is captured"
        raise SpecError(f"{given} cannot be given to the command together with {other}", field=given, remedy=remedy)
    if spec.merge and spec.stderr != fields.CAPTURE:
        remedy = "leave one of them out"
        raise SpecError("merge sends stderr to stdout, and stderr names another place", field="stderr", remedy=remedy)
    if spec.max_output_bytes is not None:
        remedy = f"capture {given}, or leave max_output out"
        raise SpecError(f"max_output cannot count a {given} that is not captured", field="max_output", remedy=remedy)
    if spec.idle_timeout_s is not None and "output" in spec.idle_counts:
        remedy = f"capture {given}, or count cpu or heartbeat instead of output (idle_counts)"
        raise SpecError(f"idle_timeout cannot see a {given} that is not captured", field="idle_timeout", remedy=remedy)


def _conditions(ready: str | Iterable[str]) -> tuple[str, ...]:
    from .ready_condition import check_ready  # here, because few runs have conditions

    return check_ready(ready)


def _check_container(spec: RunSpec) -> None:
    """Refuse options that Holdfast can keep only outside of a container."""
    for field, limit in (("memory", spec.memory_bytes), ("pids", spec.pids), ("cpu_time", spec.cpu_time_s)):
        if limit is not None:
            remedy = "the container keeps that budget: set it when the container is made"
            raise SpecError(f"{field} cannot be limited for one run in a container", field=field, remedy=remedy)
    if spec.idle_counts != {"output"}:
        remedy = "cpu time and heartbeat files are not seen from outside a container: use output"
        raise SpecError("idle_counts in a container can only be output", field="idle_counts", remedy=remedy)
    if any(condition.startswith("port:") for condition in spec.ready):
        remedy = "the processes of a container are not seen from outside: use log or http"
        raise SpecError("ready cannot be a port in a container", field="ready", remedy=remedy)
    if spec.stragglers == "leave":
        remedy = "Holdfast cannot watch processes that stay in the container: use kill or wait"
        raise SpecError("stragglers 'leave' is not possible in a container", field="stragglers", remedy=remedy)


def _check_session_stragglers(spec: RunSpec) -> None:
    """Refuse `session` where stragglers cannot go on as a run of the session."""
    if spec.session is None:
        remedy = "name the session (--session), or use another policy"
        raise SpecError("stragglers 'session' needs a session", field="stragglers", remedy=remedy)
    if spec.lifetime != "owner":
        remedy = "use 'wait': such a run may itself go on until its stragglers have ended"
        raise SpecError("stragglers 'session' needs lifetime 'owner'", field="stragglers", remedy=remedy)
    if spec.pty or spec.in_container is not None:
        remedy = "leave out the terminal or the container, or use another policy"
        what = "stragglers 'session' is not possible with a terminal or in a container"
        raise SpecError(what, field="stragglers", remedy=remedy)


def _check_foreign(spec: RunSpec) -> None:
    """Refuse options that need the guard to be the parent of the process, or to have its output."""
    needs_parent = {
        "pty": spec.pty,
        "stdin": spec.stdin != "null",
        "cwd": spec.cwd,
        "env": spec.env,
        "idle_timeout": spec.idle_timeout_s,
        "memory": spec.memory_bytes,
        "pids": spec.pids,
        "max_output": spec.max_output_bytes,
        "cpu_time": spec.cpu_time_s,
        "in_container": spec.in_container,
    }
    for field, value in needs_parent.items():
        if value:
            remedy = "leave it out; a process that Holdfast starts itself can have it"
            raise SpecError(f"{field} is not possible for a process of another program", field=field, remedy=remedy)
