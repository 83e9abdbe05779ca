"""The usage of live runs: processes, CPU, memory, output, and the time until their deadlines.

The sampler measures only when a client asks. One look at /proc serves all runs, and every client that asks within a
moment. The tree of a run is everything below its guard, because the guard adopts every process of the run whose parent
ended. Processes in a container are not below the guard, and are not counted. A rate needs two looks, so the first look
has none.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import outcome as outcomes
from ...journal.codec import FRAME, FRAME_SIZE
from ...journal.reader import JournalReader
from ...proc.input_wait import Stdin
from ...proc.run_tree import RunTree
from ...state import run_directory
from ...values.errors import HoldfastError
from ...values.timestamps import format_timestamp
from .process_tree import all_processes, by_parent, descendants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...state.directory import StateDirectory
    from .process_tree import SampledProcess

_AGAIN_S = 0.4  # a client that asks sooner gets the last look


class _OutputCounter(JournalReader):
    """A journal reader that counts output and remembers only where the last piece is."""

    last = 0

    def _remember(self, name: str, late: int, offset: int, length: int) -> None:  # noqa: ARG002 - as in its base
        self.last = offset - FRAME_SIZE

    def activity_ns(self) -> int:
        """When the last output came, by the journal's clock; 0: there was none."""
        header = os.pread(self._fd, FRAME_SIZE, self.last) if self.last else b""
        return int(FRAME.unpack_from(header)[6]) if len(header) == FRAME_SIZE else 0

    def move_to(self, fd: int) -> None:
        """Read on through another descriptor of the same journal."""
        self._fd = fd


class _PreviousSample(NamedTuple):
    at: float
    cpu_s: float | None
    output_bytes: int


class UsageSampler:
    """Measures all live runs, and remembers the last look. `look` blocks for some milliseconds: call it in a thread."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._followers: dict[str, _OutputCounter] = {}
        self._seen: dict[str, _PreviousSample] = {}
        self._activity: dict[str, int] = {}
        self._last: tuple[float, list[dict[str, Any]]] | None = None

    def look(self) -> list[dict[str, Any]]:
        """One entry for each live run. A run that cannot be read is left out. StateError: no run can be listed."""
        with self._lock:
            now = time.monotonic()
            if self._last is None or now - self._last[0] >= _AGAIN_S:
                self._last = (now, self._look(now))
            return self._last[1]

    def _look(self, now: float) -> list[dict[str, Any]]:
        run_ids = self._state.live_ids()
        for known in (self._followers, self._seen, self._activity):
            for gone in known.keys() - set(run_ids):
                del known[gone]
        processes = all_processes()
        children = by_parent(processes)
        found = []
        for run_id in run_ids:
            try:
                follower = self._follow(run_id)
                entry = None if follower is None else self._entry(run_id, follower, processes, children, now)
            except (HoldfastError, OSError, ArithmeticError, LookupError, TypeError, ValueError):
                continue  # its report and the doctor say what is wrong with it
            if entry is not None:
                found.append(entry)
        return found

    def _follow(self, run_id: str) -> _OutputCounter | None:
        try:
            fd = run_directory.open_journal(self._state.run_path(run_id))
        except FileNotFoundError:
            return None
        try:
            follower = self._followers.setdefault(run_id, _OutputCounter(fd, run_id=run_id))
            follower.move_to(fd)
            follower.scan()
            self._activity[run_id] = follower.activity_ns()
            return follower
        finally:
            os.close(fd)

    def _entry(
        self,
        run_id: str,
        follower: _OutputCounter,
        processes: Mapping[int, SampledProcess],
        children: Mapping[int, list[int]],
        now: float,
    ) -> dict[str, Any]:
        outcome = outcomes.decide(follower.facts)
        is_here = (follower.header or {}).get("host") in (None, os.uname().nodename)  # else its PIDs are another host's
        guard_pid = None if outcome.started is None or not is_here else int(outcome.started.detail["guard_pid"])
        tree = [] if guard_pid is None else [processes[pid] for pid in descendants(guard_pid, children)]
        output = follower.stdout_bytes + follower.stderr_bytes
        cpu_s = _tree_cpu(guard_pid, processes, tree)
        before = self._seen.get(run_id)
        self._seen[run_id] = _PreviousSample(now, cpu_s, output)
        passed = 0.0 if before is None else now - before.at
        is_over = outcome.state == "settled"
        return {
            "run_id": run_id,
            "state": outcome.state,
            "processes": len(tree),
            "cpu_percent": None if is_over else _rate(before and before.cpu_s, cpu_s, passed, 100.0),
            "rss_bytes": None if guard_pid is None or is_over else sum(one.rss_bytes for one in tree),
            "output_bytes": output,
            "output_rate": _rate(before and before.output_bytes, output, passed, 1.0),
            "ports": RunTree.of(run_id, follower.header, outcome).ports() if is_here else None,
            "waiting_for_input": Stdin.of(follower.header, follower.spec, outcome).is_waited_for(),
            **self._limits(run_id, follower, outcome.started),
        }

    def _limits(self, run_id: str, follower: _OutputCounter, started: Any) -> dict[str, Any]:
        spec, header = follower.spec or {}, follower.header or {}
        begun = None if started is None else started.at_ns
        anchor = header.get("wall_ns", 0) - header.get("boottime_ns", 0)
        moved = [fact.detail["limit_ns"] for fact in follower.facts if fact.kind == "extended"]
        timeout_s, idle_s = spec.get("timeout_s"), spec.get("idle_timeout_s")
        limit_ns = moved[-1] if moved else None if timeout_s is None else round(timeout_s * 1e9)
        deadline = None if begun is None or limit_ns is None else format_timestamp(anchor + begun + limit_ns)
        idle_at = None
        if begun is not None and idle_s is not None and set(spec.get("idle_counts") or ()) <= {"output"}:
            idle_at = format_timestamp(anchor + max(begun, self._activity.get(run_id, 0)) + round(idle_s * 1e9))
        return {
            "timeout_s": None if limit_ns is None else limit_ns / 1e9,
            "deadline_at": deadline,
            "idle_timeout_s": idle_s,
            "idle_at": idle_at,
        }


def _tree_cpu(
    guard_pid: int | None, processes: Mapping[int, SampledProcess], tree: list[SampledProcess]
) -> float | None:
    """The CPU time of the tree, including processes that are gone: the process that reaped them has their share."""
    guard = None if guard_pid is None else processes.get(guard_pid)
    return None if guard is None else guard.reaped_s + sum(one.cpu_s + one.reaped_s for one in tree)


def _rate(before: float | None, now: float | None, passed: float, scale: float) -> float | None:
    if before is None or now is None or passed <= 0:
        return None
    return round(max(0.0, now - before) / passed * scale, 1)
