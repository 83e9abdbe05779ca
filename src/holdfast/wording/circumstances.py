"""The circumstances of an end as sentences: the memory a run had and used, and what it was doing at its timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..values.durations import format_size
from .plain import plain, size, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..journal.facts import Fact
    from ..outcome import Outcome
    from .timeline import OutputPeriod

# The beginning of a kernel function, and what a process does that sleeps in it. The first match counts.
_SLEEPS = (
    (("hrtimer_nanosleep", "do_nanosleep", "common_nsleep"), "was sleeping"),
    (("do_wait", "kernel_wait"), "was waiting for a child"),
    (("anon_pipe_read", "pipe_read", "pipe_wait_readable"), "was reading from a pipe"),
    (("anon_pipe_write", "pipe_write", "pipe_wait_writable"), "was writing to a pipe that nobody read"),
    (("n_tty_read", "tty_read"), "was reading from a terminal"),
    (("futex",), "was waiting for another of its threads, or for a lock"),
    (("do_poll", "do_sys_poll", "poll_schedule", "do_select", "ep_poll", "do_epoll"), "was waiting for events"),
    (("sk_wait_data", "inet_csk_accept", "unix_stream", "skb_wait", "__skb_wait"), "was waiting for the network"),
    (("wait_woken",), "was waiting for the network or a terminal"),
    (("locks_lock", "flock", "posix_lock"), "was waiting for the lock of a file"),
    (("sigsuspend", "do_sigtimedwait", "__x64_sys_pause", "sys_pause"), "was waiting for a signal"),
)
_STATES = {
    "R": "was running",
    "D": "was waiting for a disk or a file system",
    "T": "was stopped",
    "t": "was stopped by a debugger",
    "S": "was sleeping in the kernel",
}


def circumstances(
    outcome: Outcome, report: Mapping[str, Any], spec: Mapping[str, Any] | None, output: Sequence[OutputPeriod]
) -> list[str]:
    """Sentences that answer the usual question after this outcome; empty for outcomes that say everything."""
    if outcome.decided_by is None:
        return []
    if outcome.status == "timed_out" and outcome.cause in ("deadline", "idle"):
        return [*_doing(outcome.decided_by), _last_output(outcome.decided_by, output)]
    if report["limit"] == "memory":
        return _memory(outcome.decided_by, report, spec or {})
    return []


def _doing(timeout: Fact) -> list[str]:
    doing = timeout.detail.get("doing")
    if doing is None:
        return []
    function = doing["wait_channel"]
    known = next((what for names, what in _SLEEPS if (function or "").startswith(names)), None)
    what = known if known and doing["state"] in "SD" else _STATES.get(doing["state"], "did something unknown")
    where = f" (in the kernel function {plain(function)})" if function and doing["state"] in "SD" else ""
    return [f"When the time was over, process {doing['pid']} ({plain(doing['name'])}) {what}{where}."]


def _last_output(timeout: Fact, output: Sequence[OutputPeriod]) -> str:
    before = [period for period in output if not period.late]
    if not before:
        return "It had written nothing."
    last = max(before, key=lambda period: period.last_ns)
    return f"Its last output, on {last.stream}, came {span((timeout.at_ns - last.last_ns) / 1e9)} before that."


def _memory(decided_by: Fact, report: Mapping[str, Any], spec: Mapping[str, Any]) -> list[str]:
    limit = decided_by.detail.get("limit") or spec.get("memory_bytes")
    said = [f"Its memory limit was {format_size(limit)}."] if limit else []
    if decided_by.kind == "limit":
        said.append(f"All its processes had {size(decided_by.detail['seen'])} when the guard looked.")
    peak = report["usage"]["max_rss_bytes"]
    said.append(
        f"Its largest process had {size(peak)} at most." if peak else "How much its processes had at most is not known."
    )
    return said
