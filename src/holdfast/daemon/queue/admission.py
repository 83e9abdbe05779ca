"""What may start next: pure bookkeeping over runs that wait and runs that take place. Nothing here starts anything.

The rules, strongest first:

1. No more than `max_runs` at once, and no more of a key than its limit. The keys of a run are its `concurrency_key`,
   `session:NAME` and `label:NAME=VALUE`; a run needs room under each of them. A run that has to wait for its key holds
   up only those that share it.
2. The higher priority first.
3. Among equals, the one of whose main key (its `concurrency_key`, else its session) fewest take place, so that whoever
   queued a thousand runs does not shut out the others; then the one that waited longest.

Runs that compete in the same way form a lane, and only the first of each lane is looked at: choosing costs as much as
there are lanes, not as there are runs.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...config import Config

Lane: TypeAlias = tuple[str, ...]


class AdmissionLimits(NamedTuple):
    """How many at once: in all, of named keys, and of every other concurrency key or session."""

    max_runs: int
    by_key: Mapping[str, int]
    per_key: int | None = None

    def of(self, key: str, main: str | None) -> int | None:
        """How many of this key at once; None: as many as there are."""
        return self.by_key.get(key, self.per_key if key == main else None)


def limits_of(config: Config) -> AdmissionLimits:
    """The limits that these settings give."""
    return AdmissionLimits(config.max_runs, config.concurrency, config.concurrency_per_key)


class ConcurrencyKeys(NamedTuple):
    """What a run is counted under; `main` is the one that `per_key` and fairness go by."""

    main: str | None
    all: tuple[str, ...]


class WaitingRun(NamedTuple):
    """A run in the queue. `sequence` is its place among those of its priority."""

    sequence: int
    run_id: str
    priority: int
    keys: ConcurrencyKeys


def keys_of(concurrency_key: str | None, session: str | None, labels: Mapping[str, str] | None) -> ConcurrencyKeys:
    """The keys of a run that says this of itself."""
    of_session = None if session is None else f"session:{session}"
    of_labels = (f"label:{name}={value}" for name, value in sorted((labels or {}).items()))
    found = [key for key in (concurrency_key, of_session, *of_labels) if key is not None]
    return ConcurrencyKeys(concurrency_key or of_session, tuple(dict.fromkeys(found)))


class Admission:
    """Who waits, who takes place, and who is next."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self._waiting: dict[str, WaitingRun] = {}
        self._lanes: dict[int, dict[Lane, list[WaitingRun]]] = {}  # by priority; each sorted, the longest waiting first
        self._running: dict[str, ConcurrencyKeys] = {}
        self._by_key: Counter[str] = Counter()
        self._by_main: Counter[str | None] = Counter()

    @property
    def waiting(self) -> int:
        """How many are queued."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many take up room."""
        return len(self._running)

    def change(self, limits: AdmissionLimits) -> None:
        """These limits from now on. What takes place goes on, also when it is too much now."""
        self.limits = limits
        waiting, self._waiting, self._lanes = self._waiting, {}, {}
        for run in waiting.values():
            self.enqueue(run)

    def enqueue(self, run: WaitingRun) -> None:
        """It waits from now on, at the place its sequence gives it: also when it was tried and could not be started."""
        self._waiting[run.run_id] = run
        insort(self._lanes.setdefault(run.priority, {}).setdefault(self._lane(run.keys), []), run)

    def withdraw(self, run_id: str) -> WaitingRun | None:
        """It does not wait any more; None when it did not."""
        run = self._waiting.pop(run_id, None)
        if run is None:
            return None
        lanes, lane = self._lanes[run.priority], self._lane(run.keys)
        lanes[lane].remove(run)
        if not lanes[lane]:
            del lanes[lane]
        if not lanes:
            del self._lanes[run.priority]
        return run

    def take_next(self) -> WaitingRun | None:
        """The run that may start now, which takes up room from here on; None when nobody may."""
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
        """It takes place: a run that was found again takes up room whatever the limits say now."""
        if run_id not in self._running:
            self._running[run_id] = keys
            self._by_main[keys.main] += 1
            self._by_key.update(keys.all)

    def keys(self, run_id: str) -> ConcurrencyKeys | None:
        """What a run is counted under that takes place; None when it does not."""
        return self._running.get(run_id)

    def vacate(self, run_id: str) -> None:
        """It is over, or was never started. Once more does no harm."""
        keys = self._running.pop(run_id, None)
        if keys is None:
            return
        self._by_main -= Counter([keys.main])  # what is 0 then is dropped
        self._by_key -= Counter(keys.all)

    def _lane(self, keys: ConcurrencyKeys) -> Lane:
        # ConcurrencyKeys without a limit do not matter: labels that differ in each run would make a lane for each.
        return tuple(key for key in keys.all if key == keys.main or key in self.limits.by_key)

    def _has_room(self, keys: ConcurrencyKeys) -> bool:
        limits = ((key, self.limits.of(key, keys.main)) for key in keys.all)
        return all(limit is None or self._by_key[key] < limit for key, limit in limits)
