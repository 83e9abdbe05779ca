"""Write docs/benchmarks.md and its charts from the results; nothing in the page is typed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .chart import number
from .results import Results, section
from .sections import SECTIONS, table
from .targets import TARGETS, Target

if TYPE_CHECKING:
    from pathlib import Path


def write(measured: dict[str, Any], directory: Path) -> Path:
    """Write the page and its charts into `directory`; returns the page's path."""
    results: Results = measured["figures"]
    charts = directory / "benchmarks"
    charts.mkdir(parents=True, exist_ok=True)
    parts = [_opening(measured), targets_table(results)]
    for name, make in SECTIONS.items():
        if section(results, name):
            text, drawings = make(results)
            for drawing, svg in drawings.items():
                (charts / f"{drawing}.svg").write_text(svg, encoding="utf-8")
            images = "\n".join(f"![{drawing}](benchmarks/{drawing}.svg)\n" for drawing in drawings)
            parts.append(f"{text}\n{images}{_own_run(section(results, name))}{_failures(section(results, name))}")
    page = directory / "benchmarks.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def _opening(measured: dict[str, Any]) -> str:
    machine = measured["machine"]
    versions = ", ".join(f"{name} {text}" for name, text in machine["versions"].items())
    virtual = ", a virtual machine" if machine["virtual"] else ""
    return f"""# Benchmarks

Written by `make bench` from the results of one run (`benchmarks.json`); scale `{measured["scale"]}`, {machine["at"]},
{measured["took_s"]:.0f} s.

Machine: {machine["processor"]}, {machine["cores"]} cores, {machine["memory_gib"]} GiB{virtual};
Linux {machine["kernel"]}; {machine["python"]}; {versions}. Containment: {machine["containment"]}.

{_quietness(machine)}

Every measurement runs in an interpreter of its own. Peers take turns within each round. A number is the median of the
rounds, a ratio is the median of the ratios within each round, percentiles are over all observations of all rounds. CPU
time covers the owner and every process that it started and reaped. A ratio "by CPU time" is the CPU time of the peer
for each second of Holdfast's.
"""


def _own_run(figures: dict[str, Any]) -> str:
    """When and how figures were measured that did not come with the others."""
    machines = [result["machine"] for result in figures.values() if "machine" in result]
    if not machines:
        return ""
    machine = machines[0]
    return f"Measured in a run of its own, {machine['at']}, {machine['python']}.\n\n{_quietness(machine)}\n"


def _quietness(machine: dict[str, Any]) -> str:
    """The sentence that says how far wall times can be believed."""
    loads = (
        f"Load average {machine['load_before']} before, {machine['load_most']} at most, {machine['load_after']} after."
    )
    # 256 commands at once count in the load average as well, so only the load before shows other programs.
    if machine["load_before"] <= machine["cores"]:
        return loads
    return (
        f"**Not a quiet machine.** {loads} Other programs used its {machine['cores']} cores at the same time. Wall\n"
        "times and their ratios include that load, and it does not affect every peer alike. It affects CPU time less.\n"
        "A verdict on a target that depends on time needs a run on a quiet machine."
    )


def targets_table(results: Results) -> str:
    """Every target with its measured value; a target that was not measured is neither met nor missed."""
    rows = []
    for target in TARGETS:
        value = target.measure(results)
        sign = "≥" if target.at_least else "≤"
        floor = f"{sign} {target.floor:g}{target.unit}"
        goal = "" if target.goal is None else f"{sign} {target.goal:g}{target.unit}"
        shown = "not measured" if value is None else f"{number(value)}{target.unit}"
        by_cpu = None if target.by_cpu is None else target.by_cpu(results)
        by_cpu_shown = "" if by_cpu is None else f"{number(by_cpu)}{target.unit}"
        rows.append((target.what, shown, by_cpu_shown, floor, _verdict(value, target, target.floor), goal,
                     _verdict(value, target, target.goal)))  # fmt: skip
    return "## Targets\n" + table(("", "measured", "by CPU time", "floor", "", "goal", ""), rows)


def excerpt(measured: dict[str, Any]) -> str:
    """The table for the README: each promise and its measured value."""
    rows = []
    for target in TARGETS:
        value = target.measure(measured["figures"])
        bound = f"{'≥' if target.at_least else '≤'} {target.floor:g}{target.unit}"
        rows.append((target.what, "not measured" if value is None else f"{number(value)}{target.unit}", bound))
    return table(("", "measured", "promised"), rows)


def _verdict(value: float | None, target: Target, bound: float | None) -> str:
    if value is None or bound is None:
        return ""
    return "met" if target.holds(value, bound) else "**not met**"


def _failures(figures: dict[str, Any]) -> str:
    lines = [
        f"- {result['setting']}, {peer}: {error}"
        for result in figures.values()
        for peer, error in result["errors"].items()
    ]
    return "\nNot measured:\n\n" + "\n".join(lines) + "\n" if lines else ""
