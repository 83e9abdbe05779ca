"""The sections of the page: for each, its text with its tables, and its charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import chart
from .chart import TIMES, Bar, Series, number
from .plan import BASELINE, COMPAT_ASYNCIO, COMPAT_RUN, DURABLE, LIMIT, RAY_TASK, SUPERVISOR
from .results import Results, median, percentile, ratio, section, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SHIM = "C, through a shim"
_RUNS_PER_SECOND = """\
## Runs per second
`/bin/true`, stdin from `/dev/null`, both output streams captured. "C, through a shim" is the limit of every design with
a second process beside the command: the distance to "C, the limit" is the price of a guard that outlives its owner.
With one run after the other, the kernel mostly wakes the guard on the core of its owner (`perf sched`). The two then
work in turn instead of at the same time, so a ratio by time is below the ratio by CPU time.
"""


def _spawn(results: Results) -> tuple[str, dict[str, str]]:
    text = _RUNS_PER_SECOND
    for figure, result in section(results, "spawn").items():
        rows = []
        for peer in result["peers"]:
            low, high = spread(results, figure, peer, "per_second") or (0.0, 0.0)
            rows.append((
                peer, _shown(median(results, figure, peer, "per_second")), f"{number(low)} to {number(high)}",
                _shown(ratio(results, figure, peer, BASELINE, "per_second"), TIMES),
                _shown(ratio(results, figure, peer, LIMIT, "per_second"), TIMES),
                _shown(median(results, figure, peer, "cpu_us")), _shown(median(results, figure, peer, "own_us")),
                _shown(median(results, figure, peer, "children_us")),
            ))  # fmt: skip
        heads = ("", "runs/s", "rounds", "of asyncio", "of the limit", "CPU µs/run", "owner", "children")
        text += f"\n### {result['setting'].capitalize()}\n{table(heads, rows)}"
        text += _where_the_time_goes(results, figure)
    groups = [
        (result["setting"], _bars(results, figure, "per_second"))
        for figure, result in section(results, "spawn").items()
    ]
    drawings = {"spawn": chart.bars("Runs per second", "more is better", groups)}
    grown = _growth(results, "spawn", "at_once", "per_second", (LIMIT, BASELINE, "trio", SUPERVISOR))
    if grown:
        drawings["spawn-growth"] = chart.lines(
            "Runs per second as more run at once", "more is better", "at once", grown
        )
    return text, drawings


def _where_the_time_goes(results: Results, figure: str) -> str:
    """The parts of a supervised run's CPU time, by comparison with the peers."""
    command = median(results, figure, LIMIT, "children_us")
    shim = median(results, figure, _SHIM, "children_us")
    ours = median(results, figure, SUPERVISOR, "children_us")
    own = median(results, figure, SUPERVISOR, "own_us")
    baseline = median(results, figure, BASELINE, "own_us")
    if command is None or shim is None or ours is None or own is None or baseline is None:
        return ""
    return (
        f"\nWhere a supervised run's CPU time goes: the command itself {number(command)} µs, the smallest possible "
        f"second process {number(shim - command)} µs, {_guards_share(ours - shim)}, Python {number(own)} µs "
        f"(asyncio: {number(baseline)} µs).\n"
    )


def _guards_share(beyond_us: float) -> str:
    """The guard's share; a guard from the pool may cost less than a shim that is started each time."""
    if beyond_us >= 0:
        return f"the guard's own work {number(beyond_us)} µs"
    return f"the guard, used again, {number(-beyond_us)} µs less than that"


def _output(results: Results) -> tuple[str, dict[str, str]]:
    text = "## Large output\nOne command writes as fast as its pipe takes the bytes.\n"
    groups = []
    for figure, result in section(results, "output").items():
        other = "subprocess.run" if figure == "capture" else BASELINE
        rows = [
            (
                peer, _shown(median(results, figure, peer, "mib_per_second")),
                _shown(ratio(results, figure, peer, other, "mib_per_second"), TIMES),
                _shown(median(results, figure, peer, "cpu_us_per_mib")),
                _shown(median(results, figure, peer, "owner_peak_mib")),
                _shown(median(results, figure, peer, "journal_peak_mib")),
            )
            for peer in result["peers"]
        ]  # fmt: skip
        size = result["parameters"]["size"] >> 20
        heads = ("", "MiB/s", f"of {other}", "CPU µs/MiB", "owner's peak MiB", "journal's peak MiB")
        text += f"\n### {size:,} MiB {result['setting']}\n{table(heads, rows)}"
        groups.append((f"{size:,} MiB {result['setting']}", _bars(results, figure, "mib_per_second")))
    return text, {"output": chart.bars("Large output, MiB per second", "more is better", groups)}


def _cancel(results: Results) -> tuple[str, dict[str, str]]:
    text = """## Cancel to gone
The time from the request to end until every process is seen to be gone, in milliseconds. The peers send SIGTERM to a
process group, which these trees do not leave. Holdfast climbs its ladder and proves that the tree is empty.
"""
    return text + _percentiles(results, "cancel", "took_ms"), {
        "cancel": chart.bars(
            "Cancel to gone, median", "milliseconds, less is better", _grouped(results, "cancel", "took_ms")
        )
    }


def _deadline(results: Results) -> tuple[str, dict[str, str]]:
    text = """## Deadlines
How late the verdict comes, in milliseconds. For Holdfast it is the guard's record in the journal, for asyncio the
moment when its coroutine kills the process. The blocked event loop sleeps 150 ms over a deadline of 50 ms.
"""
    return text + _percentiles(results, "deadline", "late_ms"), {
        "deadline": chart.bars(
            "Lateness of deadlines, p99",
            "milliseconds, less is better",
            _grouped(results, "deadline", "late_ms", "p99"),
        )
    }


def _memory(results: Results) -> tuple[str, dict[str, str]]:
    text = """## Memory of live runs
KiB for each idle run. Guard and sentinel: private pages. Python: growth of resident memory, and objects alone.
Journal: memory of the memfd. The figures do not include the command's own memory and the kernel's (stacks, tables,
descriptors).
"""
    rows = []
    for figure, result in section(results, "memory").items():
        fields = (
            "guard_kib", "sentinel_kib", "python_resident_kib", "python_objects_kib", "journal_kib",
            "started_per_second",
        )  # fmt: skip
        for peer in result["peers"]:
            shown = (_shown(median(results, figure, peer, field)) for field in fields)
            rows.append((f"{result['setting']}, {peer}", *shown))
    text += table(("", "guard", "sentinel", "Python", "Python's objects", "journal", "started per second"), rows)
    grown = [
        *_growth(results, "memory", "live", "guard_kib", (SUPERVISOR,), "guard"),
        *_growth(results, "memory", "live", "python_resident_kib", (SUPERVISOR,), "Python, Supervisor"),
        *_growth(results, "memory", "live", "python_resident_kib", (BASELINE,), "Python, asyncio"),
    ]
    return text, {"memory": chart.lines("Memory of one idle run", "KiB, less is better", "live runs", grown)}


def _daemon(results: Results) -> tuple[str, dict[str, str]]:
    text = """## Through the daemon
The time from submitting `/bin/true` to its verdict. The daemon answers a submit when the run is on disk. With a state
directory the library keeps a run's journal, too. In the daemon's line, the owner's CPU time is the client's.
"""
    rows = [
        (
            peer, _shown(median(results, figure, peer, "per_second")),
            _shown(ratio(results, figure, peer, DURABLE, "per_second"), TIMES),
            _shown(median(results, figure, peer, "own_us")),
        )
        for figure, result in section(results, "daemon").items()
        for peer in result["peers"]
    ]  # fmt: skip
    text += table(("16 at once", "runs/s", f"of {DURABLE}", "owner's CPU µs/run"), rows)
    return text, {
        "daemon": chart.bars(
            "Submit to verdict, runs per second", "more is better", _grouped(results, "daemon", "per_second", "median")
        )
    }


def _startup(results: Results) -> tuple[str, dict[str, str]]:
    text = """## Start-up of the command line
The installed commands of one environment, with compiled bytecode (the first start compiles and is not counted). uv and
pip 26.3 write the script of the last row; the script of an older pip imports `re` before it imports Holdfast.
"""
    rows = [
        (
            peer, _shown(median(results, "startup", peer, "ms")),
            _shown(ratio(results, "startup", peer, "python3 -c pass", "ms"), TIMES),
            _shown(median(results, "startup", peer, "cpu_ms")),
            _shown(ratio(results, "startup", peer, "python3 -c pass", "cpu_ms"), TIMES),
        )
        for peer in results["startup"]["peers"]
    ]  # fmt: skip
    text += table(("", "ms", "of bare Python", "CPU ms", "of bare Python"), rows)
    groups = [("", _bars(results, "startup", "ms"))]
    return text, {
        "startup": chart.bars("Start to end of a command that does nothing", "milliseconds, less is better", groups)
    }


_DROP_INS = """\
## Drop-ins
`/bin/true` as in "Runs per second", through the interfaces of `holdfast.compat` and of the originals. The drop-ins wait
until the whole tree is gone. Each of their runs starts a guard of its own.
"""


def _compat(results: Results) -> tuple[str, dict[str, str]]:
    text = _DROP_INS
    originals = {COMPAT_RUN: "subprocess.run", COMPAT_ASYNCIO: BASELINE}
    for figure, result in section(results, "compat").items():
        rows = [
            (peer, _shown(median(results, figure, peer, "per_second")),
             _shown(ratio(results, figure, peer, originals.get(peer, peer), "per_second"), TIMES),
             _shown(ratio(results, figure, originals.get(peer, peer), peer, "cpu_us"), TIMES),
             _shown(median(results, figure, peer, "cpu_us")))
            for peer in result["peers"]
        ]  # fmt: skip
        heads = ("", "runs/s", "of the original", "by CPU time", "CPU µs/run")
        text += f"\n### {result['setting'].capitalize()}\n{table(heads, rows)}"
    return text, {}


_PLACED = """\
## On a Ray cluster
Submit to verdict of `/bin/true`, and output that is read to its end, on a cluster of one node with as many CPUs as the
machine has cores. A plain Ray task takes one CPU, so Ray has one worker process for each core, and the others wait. The
runs of Holdfast are all alive at once. CPU time covers the program, Ray's processes and the commands. What Holdfast
adds to a run is the difference: a guard, a record on disk, and the messages about it.
"""


def _placing(results: Results) -> tuple[str, dict[str, str]]:
    text = _PLACED
    for figure, result in section(results, "placing").items():
        is_output = "size" in result["parameters"]
        field, cpu = ("mib_per_second", "cpu_us_per_mib") if is_output else ("per_second", "cpu_us")
        plain = median(results, figure, RAY_TASK, cpu)
        rows = [
            (peer, _shown(median(results, figure, peer, field)),
             _shown(ratio(results, figure, peer, RAY_TASK, field), TIMES), _shown(spent),
             _shown(None if spent is None or plain is None else spent - plain))
            for peer in result["peers"]
            for spent in (median(results, figure, peer, cpu),)
        ]  # fmt: skip
        unit = "MiB" if is_output else "run"
        heads = ("", f"{unit}s/s", "of a Ray task", f"CPU µs/{unit}", "added")
        text += f"\n### {result['setting'].capitalize()}\n{table(heads, rows)}"
    return text, {}


SECTIONS: dict[str, Callable[[Results], tuple[str, dict[str, str]]]] = {
    "spawn": _spawn,
    "output": _output,
    "cancel": _cancel,
    "deadline": _deadline,
    "memory": _memory,
    "daemon": _daemon,
    "startup": _startup,
    "compat": _compat,
    "placing": _placing,
}


def _percentiles(results: Results, name: str, field: str) -> str:
    rows = [
        (f"{result['setting']}, {peer}",
         *(_shown(percentile(results, figure, peer, field, which)) for which in ("p50", "p99", "max")),
         str(result["peers"][peer][field]["count"]))
        for figure, result in section(results, name).items()
        for peer in result["peers"]
    ]  # fmt: skip
    return table(("", "p50", "p99", "max", "observations"), rows)


def _grouped(results: Results, name: str, field: str, which: str = "p50") -> list[tuple[str, list[Bar]]]:
    return [
        (result["setting"], _bars(results, figure, field, which)) for figure, result in section(results, name).items()
    ]


def _bars(results: Results, figure: str, field: str, which: str = "median") -> list[Bar]:
    peers = results[figure]["peers"]
    return [Bar(peer, found[field][which], _kind(peer)) for peer, found in peers.items() if field in found]


def _kind(peer: str) -> str:
    return "ours" if peer.startswith("holdfast") else "limit" if peer.startswith("C, ") else "peer"


def _growth(
    results: Results, name: str, over: str, field: str, peers: tuple[str, ...], label: str | None = None
) -> list[Series]:
    """One line per peer, as soon as there are two points."""
    grown = []
    for peer in peers:
        points = [
            (float(result["parameters"][over]), value)
            for figure, result in section(results, name).items()
            if (value := median(results, figure, peer, field)) is not None
        ]
        if len(points) > 1:
            grown.append(Series(label or peer, tuple(points)))
    return grown


def _shown(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{number(value)}{unit}"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], align: str = "---:") -> str:
    """A Markdown table; all columns but the first hold numbers, unless `align` says otherwise."""
    heads = tuple(heads)
    lines = [heads, ("---", *(align for _ in heads[1:])), *map(tuple, rows)]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
