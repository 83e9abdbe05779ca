"""Admission: which queued run may start next. Pure bookkeeping; nothing here starts anything.

The rules, strongest first:

1. At most `max_runs` runs at once, and at most as many runs of a key as its limit. The keys of a run are its
   `concurrency_key`, `session:NAME` and `label:NAME=VALUE`, and a run needs a free slot under each of them. A run that
   waits for its key holds up only runs that share the key. A run may ask for a lower limit of its main key
   (`parallel`): it starts only while fewer runs of that key are running.
2. The run with the higher priority starts first.
3. Among runs of equal priority, the one whose main key (its `concurrency_key`, else its session) has the fewest running
   runs starts first, so that a client that queued a thousand runs does not shut out the others. Then the run that has
   waited longest.

Runs of the same priority and the same keys form a lane. Only the first run of each lane is looked at, so a choice costs
time in proportion to the number of lanes, not of runs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...config import Config

Lane: TypeAlias = tuple[str, ...]


class AdmissionLimits(NamedTuple):
    """How many runs at once: in all, of named keys, and of every other concurrency key or session."""

    max_runs: int
    by_key: Mapping[str, int]
    per_key: int | None = None

    def of(self, key: str, main: str | None) -> int | None:
        """How many runs of this key at once; None: no limit."""
        return self.by_key.get(key, self.per_key if key == main else None)


def limits_of(config: Config) -> AdmissionLimits:
    """The limits that these settings give."""
    return AdmissionLimits(config.max_runs, config.concurrency, config.concurrency_per_key)


class ConcurrencyKeys(NamedTuple):
    """The keys under which a run is counted; `per_key` and fairness use the `main` key."""

    main: str | None
    all: tuple[str, ...]
    parallel: int | None = None  # how many runs of the main key at once, as the run itself asks; None: it does not


class WaitingRun(NamedTuple):
    """A run in the queue. `sequence` is its place among the runs of its priority."""

    sequence: int
    run_id: str
    priority: int
    keys: ConcurrencyKeys


def keys_of(
    concurrency_key: str | None, session: str | None, labels: Mapping[str, str] | None, parallel: int | None = None
) -> ConcurrencyKeys:
    """The keys of a run with this concurrency key, session and labels."""
    of_session = None if session is None else f"session:{session}"
    of_labels = (f"label:{name}={value}" for name, value in sorted((labels or {}).items()))
    found = [key for key in (concurrency_key, of_session, *of_labels) if key is not None]
    return ConcurrencyKeys(concurrency_key or of_session, tuple(dict.fromkeys(found)), parallel)


class Admission:
    """The queued runs, the running runs, and the choice of the next run."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self._waiting: dict[str, WaitingRun] = {}
        self._lanes: dict[int, dict[Lane, list[WaitingRun]]] = {}  # by priority; each lane is sorted by sequence
        self._held: dict[str, WaitingRun] = {}  # queued, and without a place in the line yet
        self._order: list[tuple[int, int]] = []  # of all queued runs: the highest priority first, then by sequence
        self._running: dict[str, ConcurrencyKeys] = {}
        self._by_key: Counter[str] = Counter()
        self._by_main: Counter[str | None] = Counter()

    @property
    def waiting(self) -> int:
        """How many runs are queued."""
        return len(self._waiting) + len(self._held)

    @property
    def running(self) -> int:
        """How many runs occupy a slot."""
        return len(self._running)

    def change(self, limits: AdmissionLimits) -> None:
        """Use these limits from now on. Running runs go on, even if they are too many now."""
        self.limits = limits
        waiting, self._waiting, self._lanes, self._order = self._waiting, {}, {}, []
        for run in waiting.values():
            self.enqueue(run)

    def enqueue(self, run: WaitingRun) -> None:
        """Queue this run at the place of its sequence number; a run that could not be started gets its old place."""
        self._waiting[run.run_id] = run
        insort(self._order, _rank(run))
        insort(self._lanes.setdefault(run.priority, {}).setdefault(self._lane(run.keys), []), run)

    def hold(self, run: WaitingRun) -> None:
        """Keep this run out of the line until it is released."""
        self._held[run.run_id] = run

    def release(self, run_id: str) -> bool:
        """Give a held run its place in the line; False: it is not held."""
        run = self._held.pop(run_id, None)
        if run is not None:
            self.enqueue(run)
        return run is not None

    def withdraw(self, run_id: str) -> WaitingRun | None:
        """Remove a run from the queue and return it; None: it is not queued."""
        run = self._waiting.pop(run_id, None)
        if run is None:
            return self._held.pop(run_id, None)
        del self._order[bisect_left(self._order, _rank(run))]
        lanes, lane = self._lanes[run.priority], self._lane(run.keys)
        lanes[lane].remove(run)
        if not lanes[lane]:
            del lanes[lane]
        if not lanes:
            del self._lanes[run.priority]
        return run

    def position(self, run_id: str) -> int | None:
        """The place of a queued run by priority and time, from 1; None: it is not in the line now.

        Runs behind it may start earlier, when its keys have no free slot.
        """
        run = self._waiting.get(run_id)
        return None if run is None else bisect_left(self._order, _rank(run)) + 1

    def obstacle(self, keys: ConcurrencyKeys) -> str | None:
        """The limit that keeps a run with these keys from starting, as a phrase; None: only runs before it do."""
        if len(self._running) >= self.limits.max_runs:
            return f"a free slot: {len(self._running)} of {self.limits.max_runs} are taken"
        if (full := self._full_key(keys)) is None:
            return None
        return f"a free slot of {full[0]}: {self._by_key[full[0]]} of {full[1]} are taken"

    def take_next(self) -> WaitingRun | None:
        """Choose the run that starts now, and give it a slot; None: no run may start."""
        if len(self._running) >= self.limits.max_runs:
            return None
        for priority in sorted(self._lanes, reverse=True):
            heads = [runs[0] for runs in self._lanes[priority].values() if self._has_room(runs[0].keys)]
            if heads:
                chosen = min(heads, key=lambda run: (self._by_main[run.keys.main], run.sequence))
                self.withdraw(chosen.run_id)
                self.occupy(chosen.run_id, chosen.keys)
                return chosen
        return None

    def occupy(self, run_id: str, keys: ConcurrencyKeys) -> None:
        """Give a run a slot, whatever the limits are: a run that a recovery finds is running already."""
        if run_id not in self._running:
            self._running[run_id] = keys
            self._by_main[keys.main] += 1
            self._by_key.update(keys.all)

    def keys(self, run_id: str) -> ConcurrencyKeys | None:
        """The keys under which a run occupies a slot; None: it occupies none."""
        return self._running.get(run_id)

    def vacate(self, run_id: str) -> None:
        """Free the slot of a run that is over or was not started. Doing it twice is harmless."""
        keys = self._running.pop(run_id, None)
        if keys is None:
            return
        self._by_main -= Counter([keys.main])  # a Counter drops what is 0 then
        self._by_key -= Counter(keys.all)

    def _lane(self, keys: ConcurrencyKeys) -> Lane:
        # Keys without a limit are left out: otherwise labels that differ in each run would make a lane for each run.
        named = tuple(key for key in keys.all if key == keys.main or key in self.limits.by_key)
        return named if keys.parallel is None else (*named, f"parallel {keys.parallel}")

    def _has_room(self, keys: ConcurrencyKeys) -> bool:
        return self._full_key(keys) is None

    def _full_key(self, keys: ConcurrencyKeys) -> tuple[str, int] | None:
        """The first key of these that has no free slot, and its limit."""
        for key in keys.all:
            limit = self._limit(key, keys)
            if limit is not None and self._by_key[key] >= limit:
                return key, limit
        return None

    def _limit(self, key: str, keys: ConcurrencyKeys) -> int | None:
        """The lower one of the daemon's limit and of the run's own; None: there is neither."""
        own = keys.parallel if key == keys.main else None
        limits = [limit for limit in (self.limits.of(key, keys.main), own) if limit is not None]
        return min(limits, default=None)


def _rank(run: WaitingRun) -> tuple[int, int]:
    return -run.priority, run.sequence
