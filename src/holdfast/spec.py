"""What a run is asked to be: `make_spec` turns loose input into one checked, immutable `RunSpec`.

Nothing here touches the system. Whether the directory and the program exist is for the guard to find out at the moment
it matters; everything that can be known to be wrong beforehand is a SpecError that names the field. Text that goes to
the kernel (argv, environment, paths) is kept as `os.fsdecode` gives it, so `os.fsencode` gives the exact bytes back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from .durations import format_duration, parse_duration, parse_size
from .errors import SpecError
from .records import TYPE_CHECKING, NamedTuple
from .records import signal as _signal
from .signals import parse_signal, signal_name

Text = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Duration = str | int | float
Ladder = str | Iterable[tuple[str | int, Duration]]

if TYPE_CHECKING:
    from typing import Any, TypedDict

    class SpecOptions(TypedDict, total=False):
        """The keywords of `make_spec`, for those who pass them on (`**options: Unpack[SpecOptions]`)."""

        cwd: Text | None
        env: Mapping[str, str] | None
        env_keep: str | Iterable[str]
        env_drop: str | Iterable[str]
        stdin: Text | None
        pty: bool
        merge: bool
        timeout: Duration | None
        max_timeout: Duration | None
        idle_timeout: Duration | None
        idle_counts: str | Iterable[str]
        grace: Duration
        ladder: Ladder | None
        drain: Duration
        drain_idle: Duration
        kill_wait: Duration
        stragglers: str
        warn_before: Duration | None
        warn_signal: str | int
        memory: str | int | None
        pids: str | int | None
        max_output: str | int | None
        on_max_output: str
        session: str | None
        labels: Mapping[str, str] | None
        name: str | None
        run_id: str | None
        lifetime: str
        parent: str | None
        queued_at: str | None
        in_container: str | None
        container_runtime: str | None


IDLE_COUNTS = ("output", "cpu", "heartbeat")
STRAGGLERS = ("kill", "wait", "leave")
LIFETIMES = ("owner", "session", "detached")
ON_MAX_OUTPUT = ("stop", "drop")
RUNTIMES = ("podman", "docker")
STDIN_WORDS = ("null", "inherit", "pipe")
MOST_RUNGS = 16  # the guard's SPEC_RUNGS_MAX
MOST_PIDS = 1 << 22  # the kernel's own bound on process ids
MOST_LABELS = 64

# What exec refuses whatever the limits are: one string of 32 pages, and 3/4 of the default stack in all. The limit
# in force may be lower and counts the inherited environment too; then exec itself says E2BIG and the run reports it.
LONGEST_STRING = 32 * os.sysconf("SC_PAGE_SIZE")
LARGEST_EXEC = 6 << 20

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_RUN_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


class Rung(NamedTuple):
    """One step of the ladder: send the signal, then wait this long for the tree to be gone."""

    signal: int
    wait_s: float


class RunSpec(NamedTuple):
    """One run as asked for, checked; only `make_spec` makes them."""

    argv: tuple[str, ...]
    cwd: str | None
    env: Mapping[str, str] | None
    env_keep: tuple[str, ...]
    env_drop: tuple[str, ...]
    stdin: str
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
    on_max_output: str
    session: str | None
    labels: tuple[tuple[str, str], ...]
    name: str | None
    run_id: str
    lifetime: str
    parent: str | None
    queued_at: str | None  # RFC 3339: since when a daemon had it; None for a run that no daemon queued
    in_container: str | None
    container_runtime: str | None  # the words of a command line; None outside of containers

    def __repr__(self) -> str:
        # The generated one would print environment values, and reprs end up in logs.
        return f"RunSpec({public_spec(self)!r})"


def make_spec(
    argv: Sequence[Text],
    *,
    cwd: Text | None = None,
    env: Mapping[str, str] | None = None,
    env_keep: str | Iterable[str] = (),
    env_drop: str | Iterable[str] = (),
    stdin: Text | None = None,
    pty: bool = False,
    merge: bool = False,
    timeout: Duration | None = None,
    max_timeout: Duration | None = None,
    idle_timeout: Duration | None = None,
    idle_counts: str | Iterable[str] = ("output",),
    grace: Duration = 10.0,
    ladder: Ladder | None = None,
    drain: Duration = 2.0,
    drain_idle: Duration = 0.25,
    kill_wait: Duration = 5.0,
    stragglers: str = "kill",
    warn_before: Duration | None = None,
    warn_signal: str | int = int(_signal.SIGUSR1),
    memory: str | int | None = None,
    pids: str | int | None = None,
    max_output: str | int | None = None,
    on_max_output: str = "stop",
    session: str | None = None,
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    run_id: str | None = None,
    lifetime: str = "owner",
    parent: str | None = None,
    queued_at: str | None = None,
    in_container: str | None = None,
    container_runtime: str | None = None,
) -> RunSpec:
    """Check everything and return the spec; SpecError names the first field that is wrong and what to write instead."""
    grace_s = parse_duration(grace, field="grace")
    spec = RunSpec(
        argv=_argv(argv),
        cwd=None if cwd is None else _path(cwd, "cwd"),
        env=None if env is None else _env(env),
        env_keep=_patterns(env_keep, "env_keep"),
        env_drop=_patterns(env_drop, "env_drop"),
        stdin=_stdin(stdin, pty=_flag(pty, "pty")),
        pty=pty,
        merge=_flag(merge, "merge") or pty,
        timeout_s=_limit(timeout, "timeout"),
        max_timeout_s=_limit(max_timeout, "max_timeout"),
        idle_timeout_s=_limit(idle_timeout, "idle_timeout"),
        idle_counts=_idle_counts(idle_counts),
        grace_s=grace_s,
        ladder=_derived_ladder(grace_s) if ladder is None else parse_ladder(ladder, grace_s=grace_s),
        drain_s=parse_duration(drain, field="drain"),
        drain_idle_s=parse_duration(drain_idle, field="drain_idle"),
        kill_wait_s=parse_duration(kill_wait, field="kill_wait"),
        stragglers=_word(stragglers, STRAGGLERS, "stragglers"),
        warn_before_s=_limit(warn_before, "warn_before"),
        warn_signal=parse_signal(warn_signal, field="warn_signal"),
        memory_bytes=_budget(memory, "memory"),
        pids=_budget(pids, "pids"),
        max_output_bytes=_budget(max_output, "max_output"),
        on_max_output=_word(on_max_output, ON_MAX_OUTPUT, "on_max_output"),
        session=None if session is None else _session(session),
        labels=_labels(labels),
        name=None if name is None else _line(name, "name", 200),
        run_id=new_run_id() if run_id is None else check_run_id(run_id),
        lifetime=_word(lifetime, LIFETIMES, "lifetime"),
        parent=None if parent is None else check_run_id(parent, field="parent"),
        queued_at=None if queued_at is None else _line(queued_at, "queued_at", 64),
        in_container=None if in_container is None else _container(in_container),
        container_runtime=_runtime(container_runtime, in_container),
    )
    _check_together(spec)
    return spec


def public_spec(spec: RunSpec) -> dict[str, Any]:
    """The spec for journals and people, ready for JSON: names of environment variables, never their values."""
    public: dict[str, Any] = spec._asdict()
    public["argv"] = [_printable(argument) for argument in spec.argv]
    public["cwd"] = None if spec.cwd is None else _printable(spec.cwd)
    del public["env"]
    public["env_names"] = sorted(_printable(variable) for variable in spec.env or ())
    public["env_keep"] = [_printable(pattern) for pattern in spec.env_keep]
    public["env_drop"] = [_printable(pattern) for pattern in spec.env_drop]
    public["stdin"] = _printable(spec.stdin)
    public["idle_counts"] = [kind for kind in IDLE_COUNTS if kind in spec.idle_counts]
    public["ladder"] = format_ladder(spec.ladder)
    public["warn_signal"] = signal_name(spec.warn_signal)
    public["labels"] = dict(spec.labels)
    return public


def new_run_id() -> str:
    """A fresh id: 10 characters of milliseconds, then 10 of chance; ids sort by time."""
    import time

    number = (time.time_ns() // 1_000_000) << 50 | int.from_bytes(os.urandom(7), "big") >> 6
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(95, -1, -5))


def check_run_id(text: str, *, field: str = "run_id") -> str:
    """The id itself when it is a safe file name; SpecError otherwise."""
    safe = (
        isinstance(text, str) and 1 <= len(text) <= 64 and text[0] not in "_-" and _RUN_ID_CHARACTERS.issuperset(text)
    )
    if not safe:
        remedy = "use 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit"
        raise SpecError(f"{field} {_short(text)} is not a run id", field=field, remedy=remedy)
    return text


def parse_ladder(ladder: Ladder, *, grace_s: float = 10.0) -> tuple[Rung, ...]:
    """The rungs of `INT:2s,TERM:8s,KILL` or of (signal, wait) pairs; KILL is added when it is not the last.

    A rung without a wait waits the grace. SpecError when it is empty, too long, not understood, or goes on after KILL.
    """
    if isinstance(ladder, str):
        pairs = [_text_rung(rung, grace_s) for rung in ladder.split(",")] if ladder.strip() else []
    else:
        pairs = [_pair(rung) for rung in _listed(ladder, "ladder", "a list of (signal, seconds) pairs")]
    rungs = [Rung(parse_signal(s, field="ladder"), parse_duration(wait, field="ladder")) for s, wait in pairs]
    remedy = "write rungs such as INT:2s,TERM:8s,KILL"
    if not rungs:
        raise SpecError("ladder has no rungs", field="ladder", remedy=remedy)
    if any(rung.signal == _signal.SIGKILL for rung in rungs[:-1]):
        raise SpecError("ladder goes on after KILL", field="ladder", remedy="nothing is left to signal: end with KILL")
    if rungs[-1].signal != _signal.SIGKILL:
        rungs.append(Rung(int(_signal.SIGKILL), 0.0))
    if len(rungs) > MOST_RUNGS:
        raise SpecError(f"ladder has more than {MOST_RUNGS} rungs, KILL included", field="ladder", remedy=remedy)
    if rungs[-1].wait_s:
        raise SpecError("ladder waits after KILL", field="ladder", remedy="set kill_wait instead")
    return tuple(rungs)


def format_ladder(ladder: Iterable[Rung]) -> str:
    """The text `parse_ladder` reads back."""
    return ",".join(
        signal_name(rung.signal).removeprefix("SIG")
        + ("" if rung.signal == _signal.SIGKILL else f":{format_duration(rung.wait_s)}")
        for rung in ladder
    )


def _check_together(spec: RunSpec) -> None:
    if spec.in_container is not None:
        _check_container(spec)
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
    env = spec.env or {}
    strings = [*spec.argv, *env, *env.values()]
    size = sum(len(os.fsencode(text)) for text in strings) + 9 * len(strings)  # the NUL and the pointer of each
    if size > LARGEST_EXEC:
        raise SpecError(
            f"arguments and environment take {size} bytes, more than any kernel limit allows",
            field="argv" if sum(map(len, spec.argv)) * 2 > size else "env",
            remedy="pass large data through a file or stdin",
        )


def _check_container(spec: RunSpec) -> None:
    """Refuse what could be promised only on this side of a container's wall."""
    for field, limit in (("memory", spec.memory_bytes), ("pids", spec.pids)):
        if limit is not None:
            remedy = "the container keeps that budget: set it when the container is made"
            raise SpecError(f"{field} cannot be limited for one run in a container", field=field, remedy=remedy)
    if spec.idle_counts != {"output"}:
        remedy = "cpu time and heartbeat files are not seen from outside a container: use output"
        raise SpecError("idle_counts in a container can only be output", field="idle_counts", remedy=remedy)
    if spec.stragglers == "leave":
        remedy = "nobody would listen to what is left in the container: use kill or wait"
        raise SpecError("stragglers 'leave' is not possible in a container", field="stragglers", remedy=remedy)


def _container(value: str) -> str:
    name = _line(value, "in_container", 255)
    if name.startswith("-"):  # the runtime would take it for an option
        remedy = "give the name or the id of a running container"
        raise SpecError(f"in_container {_short(name)} is no container's name", field="in_container", remedy=remedy)
    return name


def _runtime(value: str | None, in_container: str | None) -> str | None:
    if in_container is None:
        if value is not None:
            remedy = "name the container with in_container"
            raise SpecError("container_runtime is set without a container", field="container_runtime", remedy=remedy)
        return None
    import shlex  # here, because nearly no run is in a container

    runtime = RUNTIMES[0] if value is None else _line(value, "container_runtime", 1000)
    try:
        words = shlex.split(runtime)
    except ValueError:  # a quotation mark that is never closed
        words = []
    if not words or os.path.basename(words[0]) not in RUNTIMES:
        remedy = f"use {' or '.join(RUNTIMES)}, with options of its own behind it when it needs any"
        raise SpecError(f"container_runtime {_short(runtime)} is unknown", field="container_runtime", remedy=remedy)
    return runtime


def _argv(argv: Sequence[Text]) -> tuple[str, ...]:
    if isinstance(argv, (str, bytes, os.PathLike)):
        remedy = 'pass a list such as ["ls", "-l"]; for a shell line use ["sh", "-c", line]'
        raise SpecError("argv must be a list, not one string", field="argv", remedy=remedy)
    words = _listed(argv, "argv", 'a list such as ["ls", "-l"]')
    if not words:
        raise SpecError("argv is empty", field="argv", remedy="give the command to run, then its arguments")
    arguments = tuple(_text(word, "argv", f"argument {position}") for position, word in enumerate(words))
    if not arguments[0]:
        raise SpecError("the command's name is empty", field="argv", remedy="give the command to run first")
    return arguments


def _env(env: Mapping[str, str]) -> dict[str, str]:
    try:
        items = [(key, env[key]) for key in env.keys()]  # noqa: SIM118 - asks for a mapping, lists have no keys()
    except (AttributeError, TypeError):
        remedy = "pass a mapping of names to values"
        raise SpecError(f"env must be a mapping, not {type(env).__name__}", field="env", remedy=remedy) from None
    return dict(_variable(key, value) for key, value in items)


def _variable(key: object, value: object) -> tuple[str, str]:
    name = _text(key, "env", "the name of a variable")
    if not name or "=" in name:
        remedy = "names are not empty and hold no '='"
        raise SpecError(f"env has a variable named {_short(name)}", field="env", remedy=remedy)
    if value is None:
        remedy = f"to remove a variable use env_drop=[{name!r}]"
        raise SpecError(f"env gives {_short(name)} no value", field="env", remedy=remedy)
    return name, _text(value, "env", f"the value of {_short(name)}", room=len(os.fsencode(name)) + 1)


def _text(value: object, field: str, what: str, *, room: int = 0) -> str:
    """Text for the kernel; the error tells what is wrong with it, never the text, which may be secret."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        remedy = "use text, bytes or a path; str(...) makes text of a number"
        raise SpecError(f"{what} is of type {type(value).__name__}", field=field, remedy=remedy)
    try:
        raw = os.fsencode(value)
    except UnicodeEncodeError:
        raise SpecError(f"{what} cannot be encoded", field=field, remedy="pass the exact bytes instead") from None
    if b"\0" in raw:
        raise SpecError(f"{what} contains a NUL byte", field=field, remedy="no program can be given one: remove it")
    if len(raw) + room >= LONGEST_STRING:
        remedy = f"the kernel's limit is {LONGEST_STRING - 1} bytes: pass large data through a file or stdin"
        raise SpecError(f"{what} is {len(raw)} bytes long", field=field, remedy=remedy)
    return os.fsdecode(raw)


def _path(value: Text, field: str) -> str:
    path = _text(value, field, field)
    if not path:
        raise SpecError(f"{field} is empty", field=field, remedy="give a path, or leave it out")
    return path


def _stdin(value: Text | None, *, pty: bool) -> str:
    if pty:
        if value is not None and value != "pipe":
            raise SpecError("stdin is the terminal when pty is set", field="stdin", remedy="leave stdin out, or pty")
        return "pipe"
    if value is None:
        return "null"
    path = _path(value, "stdin")
    # Path("null") is a file; only the plain words have a meaning of their own.
    return f"./{path}" if path in STDIN_WORDS and not isinstance(value, str) else path


def _limit(value: Duration | None, field: str) -> float | None:
    if value is None:
        return None
    seconds = parse_duration(value, field=field)
    if seconds == 0:
        raise SpecError(f"{field} is zero, which leaves no time", field=field, remedy="use None for no limit")
    return seconds


def _budget(value: str | int | None, field: str) -> int | None:
    if value is None:
        return None
    amount = parse_size(value, field=field)
    if amount < 1:
        raise SpecError(f"{field} must be at least 1", field=field, remedy="use None for no limit")
    if field == "pids" and amount > MOST_PIDS:
        raise SpecError(
            f"pids is more than the {MOST_PIDS} a kernel can have", field=field, remedy="use None for no limit"
        )
    return amount


def _flag(value: bool, field: str) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{field} must be True or False, not {type(value).__name__}", field=field, remedy="pass a bool")
    return value


def _word(value: str, allowed: tuple[str, ...], field: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise SpecError(f"{field} {_short(value)} is unknown", field=field, remedy=f"use one of {', '.join(allowed)}")
    return value


def _listed(value: Iterable[Any], field: str, form: str) -> list[Any]:
    try:
        return list(value)
    except TypeError:
        raise SpecError(f"{field} is of type {type(value).__name__}", field=field, remedy=f"pass {form}") from None


def _words(value: str | Iterable[str], field: str) -> list[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return _listed(value, field, "a list of text, or text with commas")


def _idle_counts(value: str | Iterable[str]) -> frozenset[str]:
    kinds = frozenset(_word(word, IDLE_COUNTS, "idle_counts") for word in _words(value, "idle_counts"))
    if not kinds:
        remedy = f"use one or more of {', '.join(IDLE_COUNTS)}"
        raise SpecError("idle_counts is empty, so nothing would count as activity", field="idle_counts", remedy=remedy)
    return kinds


def _patterns(value: str | Iterable[str], field: str) -> tuple[str, ...]:
    patterns = tuple(_text(word, field, "a pattern") for word in _words(value, field))
    for pattern in patterns:
        if not pattern or any(character in pattern for character in "=?["):
            remedy = "give names of variables; * stands for any characters, nothing else does"
            raise SpecError(f"{field} has the pattern {_short(pattern)}", field=field, remedy=remedy)
    return patterns


def _line(value: str, field: str, longest: int) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{field} must be text, not {type(value).__name__}", field=field, remedy="pass a str")
    # isprintable() also refuses lone surrogates, which no JSON reader is bound to accept.
    if not 1 <= len(value) <= longest or not value.isprintable():
        remedy = f"use 1 to {longest} printable characters"
        raise SpecError(f"{field} {_short(value)} is not usable", field=field, remedy=remedy)
    return value


def _session(value: str) -> str:
    session = _line(value, "session", 128)
    if "/" in session or session in (".", ".."):
        raise SpecError(f"session {_short(session)} looks like a path", field="session", remedy="leave out the slashes")
    return session


def _labels(labels: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    try:
        items = [] if labels is None else [(key, labels[key]) for key in labels.keys()]  # noqa: SIM118 - as in _env
    except (AttributeError, TypeError):
        kind = type(labels).__name__
        raise SpecError(f"labels must be a mapping, not {kind}", field="labels", remedy="pass a mapping") from None
    if len(items) > MOST_LABELS:
        raise SpecError(f"there are more than {MOST_LABELS} labels", field="labels", remedy="put data in files")
    if any(isinstance(key, str) and "=" in key for key, _ in items):
        raise SpecError("a label's name contains '='", field="labels", remedy="use another character")
    return tuple(
        (_line(key, "labels", 64), "" if value == "" else _line(value, "labels", 1024)) for key, value in items
    )


def _derived_ladder(grace_s: float) -> tuple[Rung, ...]:
    return (Rung(int(_signal.SIGTERM), grace_s), Rung(int(_signal.SIGKILL), 0.0))


def _text_rung(text: str, grace_s: float) -> tuple[str, Duration]:
    name, colon, wait = text.partition(":")
    is_kill = name.strip().upper().removeprefix("SIG") in ("KILL", str(int(_signal.SIGKILL)))
    return name, wait if colon else (0 if is_kill else grace_s)


def _pair(rung: Any) -> tuple[Any, Any]:
    if isinstance(rung, (tuple, list)) and len(rung) == 2:
        return rung[0], rung[1]
    raise SpecError("a rung is not a pair", field="ladder", remedy="pass (signal, seconds) pairs, or text: INT:2s,KILL")


def _printable(text: str) -> str:
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
