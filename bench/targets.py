"""The targets beside their measured values: a floor that must hold, and the goal beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .chart import TIMES
from .plan import BASELINE, DAEMON, DURABLE, RUN, SUPERVISOR
from .results import Results, median, percentile, ratio, section

if TYPE_CHECKING:
    from collections.abc import Callable

_KEEP_MIB = 64.0  # "bounded": the window, one read, and the interpreter's own need


class Target(NamedTuple):
    """`at_least` tells whether more is better; `unit` follows the numbers."""

    what: str
    measure: Callable[[Results], float | None]
    floor: float
    goal: float | None
    unit: str
    at_least: bool
    by_cpu: Callable[[Results], float | None] | None = None  # the same in CPU time, which a busy machine changes less

    def holds(self, value: float, bound: float) -> bool:
        """Whether a value is on the right side."""
        return value >= bound if self.at_least else value <= bound


def _times(figure: str, peer: str, other: str, field: str) -> Callable[[Results], float | None]:
    return lambda results: ratio(results, figure, peer, other, field)


def _cpu_share(figure: str, peer: str, other: str, field: str) -> Callable[[Results], float | None]:
    """The CPU time of the peer for each microsecond of ours: comparable with a ratio of speeds."""
    return lambda results: ratio(results, figure, other, peer, field)


def _late(figure: str) -> Callable[[Results], float | None]:
    return lambda results: percentile(results, figure, SUPERVISOR, "late_ms", "p99")


def _largest(*fields: str) -> Callable[[Results], float | None]:
    """The worst sum for 100 live runs or more: with ten, a page more or less is most of the result."""

    def worst(results: Results) -> float | None:
        figures = [name for name, result in section(results, "memory").items() if result["parameters"]["live"] >= 100]
        found = [[median(results, figure, SUPERVISOR, field) for field in fields] for figure in figures]
        known = [[value for value in values if value is not None] for values in found]
        return max((sum(values) for values in known if values), default=None)

    return worst


def _streaming_peak(results: Results) -> float | None:
    found = [median(results, "stream", peer, "peak_mib") for peer in (RUN, SUPERVISOR)]
    return max((value for value in found if value is not None), default=None)


TARGETS = (
    Target("runs per second, 16 at once: Supervisor / asyncio",
           _times("spawn-16", SUPERVISOR, BASELINE, "per_second"), 1.0, 1.25, TIMES, True,
           _cpu_share("spawn-16", SUPERVISOR, BASELINE, "cpu_us")),
    Target("runs per second, one after the other: Supervisor / asyncio",
           _times("spawn-1", SUPERVISOR, BASELINE, "per_second"), 0.8, 0.95, TIMES, True,
           _cpu_share("spawn-1", SUPERVISOR, BASELINE, "cpu_us")),
    Target("captured output: holdfast.run / subprocess.run",
           _times("capture", RUN, "subprocess.run", "mib_per_second"), 1.5, 2.0, TIMES, True,
           _cpu_share("capture", RUN, "subprocess.run", "cpu_us_per_mib")),
    Target("memory while streaming, owner and journal", _streaming_peak, _KEEP_MIB, None, " MiB", False),
    Target("private memory that guarding adds to an idle run",
           _largest("guard_kib", "sentinel_kib"), 128.0, 96.0, " KiB", False),
    Target("memory of an idle run in Python", _largest("python_resident_kib"), 64.0, None, " KiB", False),
    Target("live runs at once",
           lambda results: median(results, "memory-1000", SUPERVISOR, "alive"), 1000.0, None, "", True),
    Target("deadline, idle event loop: p99 late", _late("deadline-idle"), 10.0, None, " ms", False),
    Target("deadline, blocked event loop: p99 late", _late("deadline-blocked"), 10.0, None, " ms", False),
    Target("submit to verdict, 16 at once: daemon / library with a state directory",
           _times("submit-16", DAEMON, DURABLE, "per_second"), 0.5, None, TIMES, True),
    Target("holdfast run -- true / python3 -c pass",
           _times("startup", "holdfast run -- true", "python3 -c pass", "ms"), 4.0, 2.5, TIMES, False,
           _times("startup", "holdfast run -- true", "python3 -c pass", "cpu_ms")),
)  # fmt: skip
