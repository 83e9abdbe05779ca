"""Write docs/conformance.md and its heat map from the results; nothing in the page is typed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.sections import table

from .heatmap import heatmap
from .tally import aspects, tally

if TYPE_CHECKING:
    from pathlib import Path

Measured = dict[str, Any]
_SHOWN = {"held": "✓", "not applicable": "·", "absent": "", "broken": "?"}


def write(measured: Measured, directory: Path) -> Path:
    """Write the page and its heat map into `directory`; returns the page's path."""
    charts = directory / "conformance"
    charts.mkdir(parents=True, exist_ok=True)
    (charts / "heatmap.svg").write_text(heatmap(measured), encoding="utf-8")
    parts = (_opening, _peers, _table, _failures, _not_applied, _broken, _elsewhere)
    page = directory / "conformance.md"
    page.write_text("\n".join(text for part in parts if (text := part(measured))), encoding="utf-8")
    return page


def _opening(measured: Measured) -> str:
    machine = measured["machine"]
    virtual = ", a virtual machine" if machine["virtual"] else ""
    return f"""# Conformance

Each row is an adversarial command, each column a way to run a command; a cell says whether the promise held.
`make conformance` writes this page from the results of one run (`conformance.json`): {machine["at"]},
{measured["took_s"]:.0f} s.{measured.get("joined", "")}

![heat map](conformance/heatmap.svg)

{_sentence(measured)}

Machine: {machine["processor"]}, {machine["cores"]} cores{virtual}; Linux {machine["kernel"]};
load average {machine["load_before"]} before, {machine["load_most"]} at most. Containment of Holdfast's runs:
{machine["containment"]}.

## How a cell is judged

Every cell is a process of its own that starts one adapter. The adapter uses the peer in its best way (the table below
says how). It answers with a status, an exit code or signal, and the output. A cell holds when all of these hold:

- **S**tatus: the peer reports what really happened, and a handler that should have run did run.
- **B**ytes: the whole output that had been written is there, and no other output.
- **T**ime: the answer comes in time, measured by the adapter; bounds are several times the necessary time.
- **L**eft: no process of the command lives at the answer, and no process at all after the adapter's end. The peer is
  not asked about this: each cell has a cgroup of its own, which these commands do not leave, and the campaign looks at
  it from outside. Without cgroups, a subreaper above the peer does this.

A peer that is not installed is absent. A row is not applicable if it needs a feature that the peer does not have.
"""


def _sentence(measured: Measured) -> str:
    """The sentence that says how many rows hold for Holdfast."""
    ours = [peer["name"] for peer in measured["peers"] if peer["ours"]]
    counts = [(name, *tally(measured, name)) for name in ours]
    told = ", ".join(f"{held} of {applied} as `{name}`" for name, held, applied in counts)
    return f"Holdfast holds {told}." if told else ""


def excerpt(measured: Measured) -> str:
    """The table for the README: how many rows held for each peer."""
    counts = [(peer["name"], *tally(measured, peer["name"])) for peer in measured["peers"]]
    rows = [(f"`{name}`", f"{held} of {applied}" if applied else "absent") for name, held, applied in counts]
    return table(("", "held"), rows)


def _peers(measured: Measured) -> str:
    rows = []
    for peer in measured["peers"]:
        held, applied = tally(measured, peer["name"])
        version = peer["version"] or "absent"
        rows.append((f"`{peer['name']}`", version, peer["best"], f"{held} of {applied}" if applied else ""))
    return "## Peers\n" + table(("", "version", "used with", "held"), rows, "---")


def _table(measured: Measured) -> str:
    peers = [peer["name"] for peer in measured["peers"]]
    heads = ("", "the command", "must hold", *peers)
    rows = []
    for row in measured["rows"]:
        found = measured["cells"][row["name"]]
        rows.append((str(row["number"]), row["child"], row["holds"], *(_shown(found[peer]) for peer in peers)))
    opening = "✓ held, · not applicable, empty: absent; the letters above name the parts that did not hold.\n"
    return f"## Rows\n{opening}{table(heads, rows, '---')}"


def _shown(cell: dict[str, Any]) -> str:
    if cell["verdict"] != "failed":
        return _SHOWN[cell["verdict"]]
    return "**" + "".join(letter for letter, _ in aspects(cell)) + "**"


def _failures(measured: Measured) -> str:
    parts = ["## What did not hold"]
    for row in measured["rows"]:
        told: dict[str, list[str]] = {}
        for peer, cell in measured["cells"][row["name"]].items():
            if cell["verdict"] == "failed":
                told.setdefault("; ".join(finding["what"] for finding in cell["findings"]), []).append(peer)
        if told:
            lines = "\n".join(f"- {', '.join(peers)}: {_inline(what)}" for what, peers in told.items())
            parts.append(f"\n**{row['number']}. {row['child']}** (must hold: {row['holds']})\n\n{lines}")
    return "\n".join(parts) + "\n" if len(parts) > 1 else ""


def _not_applied(measured: Measured) -> str:
    """The cells without a verdict: for each reason its peers and rows."""
    told: dict[str, tuple[list[str], list[str]]] = {}
    for row in measured["rows"]:
        for peer, cell in measured["cells"][row["name"]].items():
            if cell["verdict"] in ("not applicable", "absent"):
                peers, rows = told.setdefault(cell["reason"], ([], []))
                _add(peers, peer)
                _add(rows, row["child"] if cell["verdict"] == "not applicable" else "all rows")
    rows_shown = [(reason, ", ".join(peers), "; ".join(rows)) for reason, (peers, rows) in told.items()]
    return "## Not applicable, or absent\n" + table(("why", "peers", "rows"), rows_shown, "---") if told else ""


def _broken(measured: Measured) -> str:
    lines = [
        f"- {row}, {peer}: {_inline(cell['reason'])}"
        for row, found in measured["cells"].items()
        for peer, cell in found.items()
        if cell["verdict"] == "broken"
    ]
    return "## Not judged: the pack itself failed\n\n" + "\n".join(lines) + "\n" if lines else ""


def _elsewhere(measured: Measured) -> str:
    """The table of fixtures that cannot be checked from outside."""
    rows = [(number, why) for number, why in measured["elsewhere"].items()]
    opening = "A black box cannot check these fixtures. For Holdfast they are tests, in `tests/`.\n"
    return f"## Fixtures that are not here\n{opening}{table(('', 'why'), rows, '---')}" if rows else ""


def _add(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)


def _inline(text: str) -> str:
    """Escape Markdown characters in the words of a peer."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
