"""The table of facts that a journal can hold: the Python half of native/frame.h (a test compares the two by name).

A fact's payload is a little-endian struct, sometimes followed by text. Numbers that stand for words are decoded to the
words of the public contract. A number that this version does not know becomes `unknown:N`, never an error, because a
newer guard may know more. Times stay in nanoseconds.
"""

from __future__ import annotations

from struct import Struct

from ..values.fast_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    _Fields = dict[str, Any]
else:
    _Fields = dict

PREAMBLE = b"HOLDFAST"
VERSION = 1
MARK = 0x46444C48
LATE = 1

HEADER, SPEC, OUTPUT, OUTPUT_GAP = 1, 2, 4, 40
NO_FACTS = (HEADER, SPEC, OUTPUT, OUTPUT_GAP)  # frames that are not told as facts
STREAMS = {1: "stdout", 2: "stderr"}


class Detail(_Fields):
    """The fields of a fact, as a mapping that cannot be changed, so that facts can be in sets. TypeError on changes."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]  # dict says None; values here are all hashable
        return hash(frozenset(self.items()))

    def _refuse(self, *_arguments: Any, **_keywords: Any) -> NoReturn:
        raise TypeError("facts are read-only: they are evidence")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Detail], tuple[dict[str, Any]]]:
        return Detail, (dict(self),)  # the default would restore item by item, which is refused


class Fact(NamedTuple):
    """Something that happened. `offset` is its place in the journal, -1 for a fact that no journal holds."""

    kind: str
    at_ns: int
    offset: int
    detail: Detail


class Words(NamedTuple):
    """The words for one enum of frame.h: its names without `prefix`, in lower case."""

    enum: str
    prefix: str
    words: dict[int, str]

    def word(self, number: int) -> str:
        """The word for a number; `unknown:N` for a number that is newer than this table."""
        return self.words.get(number) or f"unknown:{number}"

    def number(self, word: str) -> int:
        """The number for a word; ValueError for a word that is not in the table."""
        for number, known in self.words.items():
            if known == word:
                return number
        if word.startswith("unknown:"):
            return int(word[8:])
        raise ValueError(f"{word!r} is no {self.enum}: use one of {', '.join(self.words.values())}")


def _words(enum: str, prefix: str, *words: str) -> Words:
    return Words(enum, prefix, dict(enumerate(words, 1)))


CAUSES = _words("stop_cause", "CAUSE_", "user", "shutdown", "parent", "session", "owner", "superseded")
CONTAINMENTS = _words("containment", "CONTAINMENT_", "subreaper", "cgroup", "container", "none")
LIMITS = _words("limit", "LIMIT_", "memory", "processes", "output", "cpu", "session_memory", "session_processes")
DRAIN_ENDS = _words("drain_end", "DRAIN_", "eof", "idle", "absolute", "interrupted")
TREE_ENDS = _words("tree_end", "TREE_", "gone", "survivors", "unknown")
STRAGGLERS = _words("stragglers", "STRAGGLERS_", "kill", "wait", "leave", "session")
SPAWN_STEPS = _words("spawn_step", "STEP_", "setup", "fork", "stdio", "chdir", "exec", "interpreter")
LOST_WHYS = _words("lost_why", "LOST_", "guard", "host")
GUARD_LOST_WHYS = _words("guard_lost_why", "GUARD_LOST_", "died", "stopped", "stuck", "unseen")
CONTAINER_WHYS = _words("container_why", "CONTAINER_", "refused", "gone", "unreachable")
WORDS = (
    CAUSES,
    CONTAINMENTS,
    LIMITS,
    DRAIN_ENDS,
    TREE_ENDS,
    STRAGGLERS,
    SPAWN_STEPS,
    LOST_WHYS,
    GUARD_LOST_WHYS,
    CONTAINER_WHYS,
)

# Facts of which only the first thousand are recorded (native/repeats.h).
REPEATED_KINDS = Words(
    "fact",
    "FACT_",
    {
        5: "warned",
        6: "stop_asked",
        11: "signalled",
        18: "extended",
        19: "stopped",
        20: "continued",
        22: "owner_came",
        29: "grace_shortened",
    },
)


def _text(payload: bytes) -> str | None:
    # The evidence must be printable and valid JSON, whatever the bytes are. Nothing is dropped silently.
    return payload.rstrip(b"\0").decode("utf-8", "backslashreplace") or None


def _text_bytes(value: str | None) -> bytes:
    return (value or "").encode("utf-8", "backslashreplace")


def _survivors(payload: bytes) -> tuple[Detail, ...]:
    """Decode lines of `PID START_TICKS STATE WCHAN ERRNO`; a line of another shape is kept as `text`."""
    return tuple(_survivor(line) for line in (_text(payload) or "").splitlines() if line)


def _survivor(line: str) -> Detail:
    try:
        pid, start_ticks, state, wait_channel, error = line.split(" ")
        numbers = int(pid), int(start_ticks), int(error)
    except ValueError:
        return Detail(text=line)
    channel = None if wait_channel == "-" else wait_channel
    return Detail(pid=numbers[0], start_ticks=numbers[1], state=state, wait_channel=channel, error=numbers[2])


def _survivor_bytes(survivors: tuple[Mapping[str, Any], ...] | None) -> bytes:
    return b"".join(_text_bytes(_survivor_line(survivor)) for survivor in survivors or ())


def _survivor_line(survivor: Mapping[str, Any]) -> str:
    if "text" in survivor:
        return f"{survivor['text']}\n"
    numbers = survivor["pid"], survivor["start_ticks"], survivor["state"], survivor["wait_channel"] or "-"
    return "{} {} {} {} {}\n".format(*numbers, survivor["error"])


def _doing(payload: bytes) -> Detail | None:
    """Decode `PID STATE WCHAN NAME`: the process for which the command waited. None: nothing is known."""
    text = _text(payload)
    try:
        pid, state, wait_channel, name = (text or "").split(" ", 3)
        number = int(pid)
    except ValueError:
        return None
    return Detail(pid=number, state=state, wait_channel=None if wait_channel == "-" else wait_channel, name=name)


def _doing_bytes(doing: Mapping[str, Any] | None) -> bytes:
    if doing is None:
        return b""
    return _text_bytes(f"{doing['pid']} {doing['state']} {doing['wait_channel'] or '-'} {doing['name']}")


class TailField(NamedTuple):
    """The field of a fact that follows the struct in the payload.

    An `added` field is younger than its fact: a fact without it has no such field, so the report of an old journal
    stays as it was.
    """

    field: str
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    added: bool = False


class Layout(NamedTuple):
    """The layout of one kind of fact. Reserved fields are padding here."""

    name: str
    struct_name: str | None
    struct: Struct
    fields: tuple[str, ...]
    words: tuple[tuple[str, Words], ...]
    tail: TailField | None


def _layout(
    name: str,
    struct_name: str | None = None,
    layout: str = "",
    fields: str = "",
    tail: TailField | None = None,
    **words: Words,
) -> Layout:
    return Layout(name, struct_name, Struct("<" + layout), tuple(fields.split()), tuple(words.items()), tail)


_CGROUP = TailField("cgroup", _text, _text_bytes)
_REASON = TailField("reason", _text, _text_bytes)
_CONTAINER = TailField("container", _text, _text_bytes)
_RUN = TailField("run_id", _text, _text_bytes)
_DOING = TailField("doing", _doing, _doing_bytes, added=True)
_SURVIVORS = TailField("survivors", _survivors, _survivor_bytes)
_USAGE = "user_us system_us max_rss_kib"
_BYTES = "stdout_bytes stderr_bytes late_bytes dropped_bytes"
_KINDS = "stdout_bytes late_stdout_bytes stderr_bytes late_stderr_bytes"

FACTS: dict[int, Layout] = {
    HEADER: _layout("header"),
    SPEC: _layout("spec"),
    3: _layout(
        "started", "fact_started", "iiQI4x", "pid guard_pid start_ticks containment", _CGROUP, containment=CONTAINMENTS
    ),
    OUTPUT: _layout("output"),
    5: _layout("warned", "fact_warned", "ii", "signal reached"),
    6: _layout("stop_asked", "fact_stop_asked", "iiii", "cause signal by_pid by_uid", _REASON, cause=CAUSES),
    7: _layout("deadline", "fact_expired", "Q", "limit_ns", _DOING),
    8: _layout("idle", "fact_expired", "Q", "limit_ns", _DOING),
    9: _layout("limit", "fact_limit", "i4xQQ", "what limit seen", what=LIMITS),
    10: _layout("oom", "fact_oom", "Q", "kills"),
    11: _layout("signalled", "fact_signalled", "iiii", "signal rung reached refused"),
    12: _layout("exited", "fact_exited", "i4xqqq", f"wait_status {_USAGE}"),
    13: _layout("stragglers", "fact_stragglers", "ii", "count policy", policy=STRAGGLERS),
    14: _layout("drained", "fact_drained", "i4xQQQQ", f"how {_BYTES}", how=DRAIN_ENDS),
    15: _layout("tree", "fact_tree", "ii", "how count", _SURVIVORS, how=TREE_ENDS),
    16: _layout("end", "fact_end", "qqq", _USAGE),
    17: _layout("spawn_failed", "fact_spawn_failed", "ii", "step error", step=SPAWN_STEPS),
    18: _layout("extended", "fact_extended", "Q", "limit_ns"),
    19: _layout("stopped", "fact_stopped", "i", "signal"),
    20: _layout("continued"),
    21: _layout("owner_gone", "fact_owner", "ii", "pid uid"),
    22: _layout("owner_came", "fact_owner", "ii", "pid uid"),
    23: _layout("recording_failed", "fact_recording_failed", "i4x", "error"),
    24: _layout("lost", "fact_lost", "i4x", "why", why=LOST_WHYS),
    25: _layout("entered", "fact_entered", "iiQ", "pid agent_pid start_ticks", _CONTAINER),
    26: _layout("container_lost", "fact_container_lost", "i4x", "why", _REASON, why=CONTAINER_WHYS),
    27: _layout("vanished"),
    28: _layout("order_unknown"),
    29: _layout("grace_shortened", "fact_grace_shortened", "iiQ", "by_pid by_uid grace_ns"),
    30: _layout("guard_lost", "fact_guard_lost", "iiii", "guard_pid wait_status why stops", why=GUARD_LOST_WHYS),
    31: _layout("repeated", "fact_repeated", "i4xQQ", "of count last_ns", of=REPEATED_KINDS),
    32: _layout("sentinel_lost", "fact_sentinel_lost", "i4x", "pid"),
    33: _layout("recording_stalled", "fact_recording_stalled", "Q", "for_ns"),
    36: _layout("output_rolling", "fact_output_rolling", "QQ", "limit tail"),
    37: _layout("output_rolled", "fact_output_rolled", "QQ", "stdout_bytes stderr_bytes"),
    OUTPUT_GAP: _layout("output_gap", "fact_output_gap", "QQQQQ", f"resume_at {_KINDS}"),
    38: _layout("kept_on", tail=_RUN),
}
TYPES: dict[str, int] = {layout.name: number for number, layout in FACTS.items()}

# Facts that no guard writes, because they come before or after it. Their numbers begin far above those of a guard.
OBSERVED_FACTS: dict[int, Layout] = {128: _layout("queue_expired", None, "Q", "limit_ns")}
OBSERVED: dict[str, tuple[str, ...]] = {layout.name: layout.fields for layout in OBSERVED_FACTS.values()}


def make_fact(kind: str, at_ns: int, offset: int = -1, **detail: Any) -> Fact:
    """Make a fact that was not read from a journal. ValueError for a kind or a field that is not in the table."""
    known = _known_fields(kind)
    if unknown := detail.keys() - set(known):
        raise ValueError(f"a {kind} fact has no {', '.join(sorted(unknown))}: its fields are {', '.join(known)}")
    return Fact(kind, at_ns, offset, Detail({field: _frozen(value) for field, value in detail.items()}))


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return Detail(value)
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _known_fields(kind: str) -> tuple[str, ...]:
    if kind in OBSERVED:
        return OBSERVED[kind]
    if kind not in TYPES:
        raise ValueError(f"there is no fact {kind!r}: use one of {', '.join([*TYPES, *OBSERVED])}")
    layout = FACTS[TYPES[kind]]
    return layout.fields if layout.tail is None else (*layout.fields, layout.tail.field)
