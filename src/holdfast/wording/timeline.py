"""The timeline of a run: one event for each fact, in plain words, and the output in between."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ..outcome import exit_of, order
from ..values.durations import format_duration, format_size
from ..values.signals import signal_name
from .plain import plain, size, span
from .sentences import rolled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..journal.facts import Fact
    from ..journal.reader import Chunk
    from ..outcome import Outcome


class TimelineEvent(NamedTuple):
    """One event, `at_s` seconds after the run began. `mark` is `decided`, `late` (too late to count), or empty."""

    at_s: float | None
    fact: str
    words: str
    mark: str = ""


class OutputPeriod:
    """The output of one stream, either before or after the verdict: its first and last time, and its bytes."""

    def __init__(self, stream: str, late: bool, at_ns: int) -> None:
        self.stream, self.late = stream, late
        self.first_ns = self.last_ns = at_ns
        self.bytes = 0

    @property
    def words(self) -> str:
        """A sentence about this output: its stream, size and duration, and whether it is late."""
        lasted_s = (self.last_ns - self.first_ns) / 1e9
        until = f", over {span(lasted_s)}" if lasted_s >= 0.001 else ""
        return f"output on {self.stream}: {size(self.bytes)}{until}" + (
            "; after the verdict, so no part of the result" if self.late else ""
        )


def output_periods(chunks: Iterable[Chunk]) -> list[OutputPeriod]:
    """The output periods of a run: up to two for each stream, one before and one after the verdict."""
    found: dict[tuple[str, bool], OutputPeriod] = {}
    for chunk in chunks:
        period = found.setdefault((chunk.stream, chunk.late), OutputPeriod(chunk.stream, chunk.late, chunk.at_ns))
        period.last_ns = chunk.at_ns
        period.bytes += len(chunk.data)
    return list(found.values())


def timeline(
    header: Mapping[str, Any] | None, facts: Iterable[Fact], outcome: Outcome, output: Iterable[OutputPeriod]
) -> list[TimelineEvent]:
    """Every event in order. A decisive fact that came after the verdict is marked `late`."""
    begin_ns = (header or {}).get("boottime_ns")

    def at_s(at_ns: int) -> float | None:
        return round((at_ns - begin_ns) / 1e9, 6) if isinstance(begin_ns, int) else None

    ordered = sorted(facts, key=order)
    around = {fact.kind: fact for fact in ordered}
    events = [
        (fact.at_ns, 1, TimelineEvent(at_s(fact.at_ns), fact.kind, words(fact, around), _mark(fact, outcome)))
        for fact in ordered
    ]
    for period in output:
        event = TimelineEvent(at_s(period.first_ns), "output", period.words, "late" if period.late else "")
        # The guard read late output after the verdict; at equal times it follows the verdict.
        events.append((period.first_ns, 2 if period.late else 0, event))
    return [event for _, _, event in sorted(events, key=lambda item: item[:2])]


def _mark(fact: Fact, outcome: Outcome) -> str:
    if fact == outcome.decided_by:
        return "decided"
    decisive = fact.kind in _DECISIVE and outcome.decided_by is not None
    return "late" if decisive and order(fact) > order(outcome.decided_by) else ""  # type: ignore[arg-type]


def words(fact: Fact, around: Mapping[str, Fact] | None = None) -> str:
    """One fact in plain words. A fact that this version does not know is shown by its name and fields.

    `around` holds the facts of the run by their kinds: some facts change the words for others.
    """
    tell = _WORDS.get(fact.kind)
    around = around or {}
    if fact.kind == "end" and "recording_failed" in around:
        tell = _used_without_record
    if fact.kind == "started" and _was_held(around):
        tell = _held
    elif fact.kind == "started" and "spawn_failed" in around:
        tell = _never_ran
    if fact.kind == "tree" and "kept_on" in around:
        tell = _kept_tree
    elif fact.kind == "tree" and "stragglers" in around and around["stragglers"].detail["policy"] == "leave":
        tell = _left_tree
    if fact.kind in _OF_A_PARENT and "started" in around and around["started"].detail["containment"] == "none":
        return _OF_A_PARENT[fact.kind]
    if tell is None:
        return plain(f"{fact.kind} {dict(fact.detail)}" if fact.detail else fact.kind)
    return plain(tell(fact.detail))


def _count(count: int, noun: str = "process") -> str:
    plural = "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{'' if count == 1 else plural}"


def _started(detail: Mapping[str, Any]) -> str:
    if detail["containment"] == "none":
        watched = f"process {detail['pid']} of another program is watched by guard process {detail['guard_pid']}"
        return f"{watched}; nothing contains it, and its children are known only as far as /proc shows them"
    where = f"contained by a {detail['containment']}"
    return f"started as process {detail['pid']}, guarded by process {detail['guard_pid']}, {where}"


def _held(detail: Mapping[str, Any]) -> str:
    held = f"process {detail['pid']} was held by guard process {detail['guard_pid']} until its start was on record"
    return f"{held}; the end came first, and the command never ran"


def _never_ran(detail: Mapping[str, Any]) -> str:
    return f"guard process {detail['guard_pid']} made process {detail['pid']} for it; the command never ran"


def _was_held(around: Mapping[str, Fact]) -> bool:
    """Whether the command was ended before the guard let it run.

    The guard holds the command until storage has taken its start. A guard that ends a command which runs records a
    signal or an exit, and a record that is not whole says so.
    """
    is_whole = "end" in around and "tree" in around and around["tree"].detail["how"] == "gone"
    contained = "started" in around and around["started"].detail["containment"] in ("cgroup", "subreaper")
    return is_whole and contained and "stop_asked" in around and not around.keys() & _OF_A_COMMAND_THAT_RAN


def _stop(detail: Mapping[str, Any]) -> str:
    who = f" by process {detail['by_pid']} of user {detail['by_uid']}" if detail["by_pid"] > 0 else ""
    how = f" with {signal_name(detail['signal'])}" if detail["signal"] else ""
    why = f": {detail['reason']}" if detail.get("reason") else ""
    return f"asked to stop{who}{how}, cause {detail['cause']}{why}"


def _shortened(detail: Mapping[str, Any]) -> str:
    who = f"process {detail['by_pid']} of user {detail['by_uid']}" if detail["by_pid"] > 0 else "the request"
    return f"{who} shortened its grace to {format_duration(detail['grace_ns'] / 1e9)} from then on"


def _signalled(detail: Mapping[str, Any]) -> str:
    step = "on request" if detail["rung"] < 0 else f"step {detail['rung'] + 1} of the ladder"
    refused = f"; {_count(detail['refused'])} refused it" if detail["refused"] else ""
    return f"{signal_name(detail['signal'])} sent to {_count(detail['reached'])} ({step}){refused}"


def _repeated(detail: Mapping[str, Any]) -> str:
    what = {
        "stopped": "stopped",
        "continued": "continued",
        "owner_came": "connected to",
        "signalled": "signalled on request",
        "stop_asked": "asked to stop",
        "extended": "its deadline was moved",
        "warned": "warned",
        "grace_shortened": "its grace was shortened",
    }.get(detail["of"], detail["of"])
    return f"{what} {_count(detail['count'], 'more time')}: after a thousand times the guard only counts"


def _exited(detail: Mapping[str, Any]) -> str:
    code, signal = exit_of(detail["wait_status"])
    if signal is None:
        return f"the command exited with code {code}"
    core = ", core dumped" if detail["wait_status"] & 0x80 else ""
    return f"the command was ended by {signal_name(signal)}{core}"


def _limit(detail: Mapping[str, Any]) -> str:
    if detail["what"] == "session_processes":
        there = f"its runs had {detail['seen']}, and this run most of them"
        return f"the session went over its limit of {_count(detail['limit'])}: {there}"
    if detail["what"] == "session_memory":
        there = f"its runs were at {size(detail['seen'])}, and this run used most"
        return f"the session went over its limit of {format_size(detail['limit'])} of memory: {there}"
    if detail["what"] == "processes":
        return f"went over its limit of {_count(detail['limit'])}: there were {detail['seen']}"
    if detail["what"] == "cpu":
        limit = format_duration(detail["limit"] / 1e9)
        return f"went over its limit of {limit} of cpu time: it had used {span(detail['seen'] / 1e9)}"
    return (
        f"went over its limit of {format_size(detail['limit'])} of {detail['what']}: it was at {size(detail['seen'])}"
    )


def _drained(detail: Mapping[str, Any]) -> str:
    how = {
        "eof": "output was read to its end" if detail["dropped_bytes"] else "all captured output was read to its end",
        "idle": "output was still open, but nothing more came: reading ended",
        "absolute": "output was still coming when the time for it was over: reading ended",
        "interrupted": "the guard died while it was reading output: up to 256 KiB may be missing",
    }.get(detail["how"], f"reading ended ({detail['how']})")
    dropped = f"; {size(detail['dropped_bytes'])} were not kept" if detail["dropped_bytes"] else ""
    return f"{how}; {size(detail['stdout_bytes'])} stdout, {size(detail['stderr_bytes'])} stderr{dropped}"


def _tree(detail: Mapping[str, Any], left: str = "could not be ended") -> str:
    if detail["how"] == "gone":
        return "every process of the run is gone"
    if detail["how"] != "survivors":
        return "whether processes of the run are left is not known"
    pids = ", ".join(str(survivor.get("pid", survivor.get("text"))) for survivor in detail.get("survivors") or ())
    return f"{_count(detail['count'])} {left}: {pids}"


def _left_tree(detail: Mapping[str, Any]) -> str:
    return _tree(detail, "left alone")


def _kept_tree(detail: Mapping[str, Any]) -> str:
    return _tree(detail, "going on")


def _stragglers(detail: Mapping[str, Any]) -> str:
    what = {
        "kill": "they are ended",
        "wait": "they are waited for",
        "leave": "they are left alone",
        "session": "they go on",
    }
    return f"{_count(detail['count'])} of the run still there; {what.get(detail['policy'], detail['policy'])}"


def _used(detail: Mapping[str, Any], record: str = "the record is complete") -> str:
    if not detail["max_rss_kib"]:  # no process has no memory: nobody saw what it used
        return f"settled: {record}; what it used is not known"
    cpu = span((detail["user_us"] + detail["system_us"]) / 1e6)
    return f"settled: {record}; {cpu} of cpu, {size(detail['max_rss_kib'] * 1024)} of memory at most"


def _used_without_record(detail: Mapping[str, Any]) -> str:
    return _used(detail, "the record is not complete")


def _container_lost(detail: Mapping[str, Any]) -> str:
    what = {"refused": "the container could not be entered", "gone": "the container went away"}
    said = f": {detail['reason']}" if detail.get("reason") else ""
    return what.get(detail["why"], "the connection into the container was lost") + said


def _guard_lost(detail: Mapping[str, Any]) -> str:
    which = f"the guard, process {detail['guard_pid']},"
    if detail["why"] == "died":
        code, signal = exit_of(detail["wait_status"])
        how = f"exited with code {code}" if signal is None else f"was ended by {signal_name(signal)}"
    elif detail["why"] == "stopped":
        how = f"was stopped {detail['stops']} times"
    elif detail["why"] == "unseen":
        how = "died after its sentinel"
    else:
        how = "did not go on in time"
    ended_by = "the sentinel's stand-in" if detail["why"] == "unseen" else "its sentinel"
    return f"{which} {how}: {ended_by} ends the run"


def _span(detail: Mapping[str, Any]) -> str:
    return format_duration(detail["limit_ns"] / 1e9)


# Each of these says that the command ran, or that what it did may not be on record.
_OF_A_COMMAND_THAT_RAN = frozenset(
    ("signalled", "exited", "stragglers", "spawn_failed", "guard_lost", "lost", "recording_failed")
)

_WORDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "started": _started,
    "warned": lambda d: f"warned of its deadline with {signal_name(d['signal'])}: {_count(d['reached'])} listened",
    "stop_asked": _stop,
    "grace_shortened": _shortened,
    "deadline": lambda d: f"its deadline of {_span(d)} passed",
    "idle": lambda d: f"nothing happened for {_span(d)}",
    "queue_expired": lambda d: f"it did not start within {_span(d)}",
    "limit": _limit,
    "oom": lambda d: f"out of memory: the kernel killed {_count(d['kills'])}",
    "signalled": _signalled,
    "exited": _exited,
    "stragglers": _stragglers,
    "drained": _drained,
    "tree": _tree,
    "end": _used,
    "spawn_failed": lambda d: f"could not be started, step {d['step']}: {os.strerror(d['error'])}",
    "extended": lambda d: f"its deadline was moved to {_span(d)} after the start",
    "stopped": lambda d: f"stopped by {signal_name(d['signal'])}",
    "continued": lambda _: "continued",
    "repeated": _repeated,
    "output_rolling": lambda d: (
        f"more output than {size(d['limit'] - d['tail'])}: of what follows, about the last {size(d['tail'])} are kept"
    ),
    "output_rolled": lambda d: f"{rolled(d)} were not kept, between the head and the tail of the output",
    "owner_gone": lambda d: f"its owner, process {d['pid']}, went away",
    "owner_came": lambda d: f"process {d['pid']} of user {d['uid']} connected",
    "recording_failed": lambda d: f"the journal could not be written: {os.strerror(d['error'])}",
    "recording_stalled": lambda d: (
        f"the disk of this record did not answer for {format_duration(round(d['for_ns'] / 1e9, 1))}"
    ),
    "entered": lambda d: (
        f"in container {d['container']} it is process {d['pid']}, kept there by process {d['agent_pid']}"
    ),
    "container_lost": _container_lost,
    "order_unknown": lambda _: (
        "nobody saw whether the command ended before its deadline: the guard did not run then, and the deadline counts"
    ),
    "vanished": lambda _: "the process has ended; only its parent could see how",
    "guard_lost": _guard_lost,
    "kept_on": lambda d: f"they go on in the session as run {d['run_id']}",
    "sentinel_lost": lambda d: f"the sentinel, process {d['pid']}, died: the guard goes on without it",
    "lost": lambda d: (
        "the host went down before an end was recorded" if d["why"] == "host" else "the guard was found dead"
    ),
}
# What only a parent knows of a process; a guard that watches the process of another program does not.
_OF_A_PARENT = {
    "drained": "its output went elsewhere: there was none to read",
    "end": "settled: the record is complete; cpu and memory are not known",
}
_DECISIVE = frozenset(
    (
        "exited",
        "spawn_failed",
        "oom",
        "limit",
        "deadline",
        "idle",
        "queue_expired",
        "stop_asked",
        "container_lost",
        "vanished",
        "guard_lost",
        "lost",
    )
)
