"""Checks of a spec's fields, one function each: take the caller's value, return the value that the spec keeps.

Each function raises SpecError, which names the field and what to write instead. Text for the kernel (argv,
environment, paths) is kept as `os.fsdecode` gives it, so `os.fsencode` gives the exact bytes back.
"""

from __future__ import annotations

import os

from .durations import BYTES, COUNT, Measure, parse_duration, parse_size
from .errors import SpecError
from .fast_imports import TYPE_CHECKING, Iterable, Mapping, Sequence

if TYPE_CHECKING:
    from typing import Any

Text = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Duration = str | int | float

IDLE_COUNTS = ("output", "cpu", "heartbeat")
RUNTIMES = ("podman", "docker")
STDIN_WORDS = ("null", "inherit", "pipe")
CAPTURE = "capture"  # the guard reads the stream and records it
OUTPUT_WORDS = (CAPTURE, "inherit")
MOST_PIDS = 1 << 22  # the kernel's own bound on process ids
MOST_LABELS = 64
# exec refuses a single string of this length, whatever the limits are: 32 pages.
LONGEST_STRING = 32 * os.sysconf("SC_PAGE_SIZE")


def check_argv(argv: Sequence[Text]) -> tuple[str, ...]:
    if isinstance(argv, (str, bytes, os.PathLike)):
        remedy = 'pass a list such as ["ls", "-l"]; for a shell line use ["sh", "-c", line]'
        raise SpecError("argv must be a list, not one string", field="argv", remedy=remedy)
    words = listed(argv, "argv", 'a list such as ["ls", "-l"]')
    if not words:
        raise SpecError("argv is empty", field="argv", remedy="give the command to run, then its arguments")
    arguments = tuple(check_text(word, "argv", f"argument {position}") for position, word in enumerate(words))
    if not arguments[0]:
        raise SpecError("the command's name is empty", field="argv", remedy="give the command to run first")
    return arguments


def check_env(env: Mapping[str, str]) -> dict[str, str]:
    try:
        items = [(key, env[key]) for key in env.keys()]  # noqa: SIM118 - asks for a mapping, lists have no keys()
    except (AttributeError, TypeError):
        remedy = "pass a mapping of names to values"
        raise SpecError(f"env must be a mapping, not {type(env).__name__}", field="env", remedy=remedy) from None
    return dict(_variable(key, value) for key, value in items)


def _variable(key: object, value: object) -> tuple[str, str]:
    name = check_text(key, "env", "the name of a variable")
    if not name or "=" in name:
        remedy = "names are not empty and hold no '='"
        raise SpecError(f"env has a variable named {short(name)}", field="env", remedy=remedy)
    if value is None:
        remedy = f"to remove a variable use env_drop=[{name!r}]"
        raise SpecError(f"env gives {short(name)} no value", field="env", remedy=remedy)
    return name, check_text(value, "env", f"the value of {short(name)}", room=len(os.fsencode(name)) + 1)


def check_text(value: object, field: str, what: str, *, room: int = 0) -> str:
    """Check text for the kernel. The error says what is wrong and never shows the text, which may be secret."""
    if value.__class__ is str and value.isascii() and "\0" not in value and len(value) + room < LONGEST_STRING:
        return value  # nearly every text is like this, and its bytes need not be made
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


def check_path(value: Text, field: str) -> str:
    path = check_text(value, field, field)
    if not path:
        raise SpecError(f"{field} is empty", field=field, remedy="give a path, or leave it out")
    return path


def check_stdin(value: Text | int | None, *, pty: bool) -> str | int:
    if pty:
        if value is not None and value != "pipe":
            raise SpecError("stdin is the terminal when pty is set", field="stdin", remedy="leave stdin out, or pty")
        return "pipe"
    if value is None:
        return "null"
    if isinstance(value, int):
        return check_descriptor(value, "stdin")
    path = check_path(value, "stdin")
    # Path("null") is a file; only a plain str can be one of the words.
    return f"./{path}" if path in STDIN_WORDS and not isinstance(value, str) else path


def check_output(value: str | int, field: str) -> str | int:
    if isinstance(value, int):
        return check_descriptor(value, field)
    if value not in OUTPUT_WORDS:
        remedy = f"use {' or '.join(map(repr, OUTPUT_WORDS))}, or the number of an open descriptor"
        raise SpecError(f"{field} cannot be {short(value)}", field=field, remedy=remedy)
    return value


def check_descriptor(value: int, field: str) -> int:
    if isinstance(value, bool) or not 0 <= value < 1 << 30:
        remedy = "pass the number of an open descriptor, such as file.fileno()"
        raise SpecError(f"{field} is {value!r}, which is no descriptor", field=field, remedy=remedy)
    return value


def check_limit(value: Duration | None, field: str) -> float | None:
    if value is None:
        return None
    seconds = parse_duration(value, field=field)
    if seconds == 0:
        raise SpecError(f"{field} is zero, which leaves no time", field=field, remedy="use None for no limit")
    return seconds


def check_budget(value: str | int | None, field: str, of: Measure = BYTES) -> int | None:
    if value is None:
        return None
    amount = parse_size(value, field=field, of=of)
    if amount < 1:
        raise SpecError(f"{field} must be at least 1", field=field, remedy="use None for no limit")
    return amount


def check_pids(value: str | int | None) -> int | None:
    count = check_budget(value, "pids", COUNT)
    if count is not None and count > MOST_PIDS:
        remedy = "use None for no limit"
        raise SpecError(f"pids is more than the {MOST_PIDS} a kernel can have", field="pids", remedy=remedy)
    return count


def check_flag(value: bool, field: str) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{field} must be True or False, not {type(value).__name__}", field=field, remedy="pass a bool")
    return value


def check_word(value: str, allowed: tuple[str, ...], field: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise SpecError(f"{field} {short(value)} is unknown", field=field, remedy=f"use one of {', '.join(allowed)}")
    return value


def listed(value: Iterable[Any], field: str, form: str) -> list[Any]:
    try:
        return list(value)
    except TypeError:
        raise SpecError(f"{field} is of type {type(value).__name__}", field=field, remedy=f"pass {form}") from None


def _words(value: str | Iterable[str], field: str) -> list[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return listed(value, field, "a list of text, or text with commas")


def check_idle_counts(value: str | Iterable[str]) -> frozenset[str]:
    kinds = frozenset(check_word(word, IDLE_COUNTS, "idle_counts") for word in _words(value, "idle_counts"))
    if not kinds:
        remedy = f"use one or more of {', '.join(IDLE_COUNTS)}"
        raise SpecError("idle_counts is empty, so nothing would count as activity", field="idle_counts", remedy=remedy)
    return kinds


def check_patterns(value: str | Iterable[str], field: str) -> tuple[str, ...]:
    patterns = tuple(check_text(word, field, "a pattern") for word in _words(value, field))
    for pattern in patterns:
        if not pattern or any(character in pattern for character in "=?["):
            remedy = "give names of variables; * stands for any characters, nothing else does"
            raise SpecError(f"{field} has the pattern {short(pattern)}", field=field, remedy=remedy)
    return patterns


def check_line(value: str, field: str, longest: int) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{field} must be text, not {type(value).__name__}", field=field, remedy="pass a str")
    # isprintable() also refuses lone surrogates, which no JSON reader is bound to accept.
    if not 1 <= len(value) <= longest or not value.isprintable():
        remedy = f"use 1 to {longest} printable characters"
        raise SpecError(f"{field} {short(value)} is not usable", field=field, remedy=remedy)
    return value


def check_session(value: str) -> str:
    session = check_line(value, "session", 128)
    if "/" in session or session in (".", ".."):
        raise SpecError(f"session {short(session)} looks like a path", field="session", remedy="leave out the slashes")
    return session


def check_labels(labels: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    try:
        items = [] if labels is None else [(key, labels[key]) for key in labels.keys()]  # noqa: SIM118 - as in check_env
    except (AttributeError, TypeError):
        kind = type(labels).__name__
        raise SpecError(f"labels must be a mapping, not {kind}", field="labels", remedy="pass a mapping") from None
    if len(items) > MOST_LABELS:
        raise SpecError(f"there are more than {MOST_LABELS} labels", field="labels", remedy="put data in files")
    if any(isinstance(key, str) and "=" in key for key, _ in items):
        raise SpecError("a label's name contains '='", field="labels", remedy="use another character")
    return tuple(
        (check_line(key, "labels", 64), "" if value == "" else check_line(value, "labels", 1024))
        for key, value in items
    )


def check_foreign(value: Sequence[int]) -> tuple[int, int]:
    """PID and start time of a process that another program started."""
    if len(value) != 2 or not all(type(number) is int and number > 0 for number in value) or value[0] >= 1 << 31:
        remedy = "use Supervisor.register, which finds them out"
        raise SpecError("foreign is a pair of a PID and a start time", field="foreign", remedy=remedy)
    return value[0], value[1]


def check_starter(value: Sequence[int]) -> tuple[int, int]:
    """PID and start time of the process with which a run ends; 0 for what is not known."""
    if len(value) != 2 or not all(type(number) is int and number >= 0 for number in value) or value[0] >= 1 << 31:
        remedy = "use --with-parent of the command line, which finds them out"
        raise SpecError("starter is a pair of a PID and a start time", field="starter", remedy=remedy)
    return value[0], value[1]


def check_container(value: str) -> str:
    name = check_line(value, "in_container", 255)
    if name.startswith("-"):  # the runtime would take it for an option
        remedy = "give the name or the id of a running container"
        raise SpecError(f"in_container {short(name)} is no container's name", field="in_container", remedy=remedy)
    return name


def check_runtime(value: str | None, in_container: str | None) -> str | None:
    if in_container is None:
        if value is not None:
            remedy = "name the container with in_container"
            raise SpecError("container_runtime is set without a container", field="container_runtime", remedy=remedy)
        return None
    import shlex  # here, because nearly no run is in a container

    runtime = RUNTIMES[0] if value is None else check_line(value, "container_runtime", 1000)
    try:
        words = shlex.split(runtime)
    except ValueError:  # a quotation mark that is never closed
        words = []
    if not words or os.path.basename(words[0]) not in RUNTIMES:
        remedy = f"use {' or '.join(RUNTIMES)}, with options of its own behind it when it needs any"
        raise SpecError(f"container_runtime {short(runtime)} is unknown", field="container_runtime", remedy=remedy)
    return runtime


def printable(text: str) -> str:
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
