"""The heat map: rows are children, columns are peers. Readable on light and dark pages, and without colours."""

from __future__ import annotations

from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape

from .tally import aspects, tally

_LEFT, _TOP, _BOTTOM = 430, 150, 74
_WIDE, _HIGH, _GAP, _GROUP_GAP = 36, 20, 3, 12
_TURN = -48
_STYLE = """
text { font: 12.5px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 16px } .quiet { fill: #57606a; font-size: 11.5px } .strong { font-weight: 600 }
.mark { font-size: 11px; font-weight: 600; fill: #fff } .held .mark { font-weight: 400 }
.held rect { fill: #2da44e } .failed rect { fill: #cf222e } .broken rect { fill: #bf8700 }
.ours.held rect { fill: #1a7f37 }
.none rect { fill: none; stroke: #d0d7de } .none .mark { fill: #8c959f } .absent rect { stroke-dasharray: 2 3 }
.band { fill: #eaeef2; opacity: .55 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .quiet { fill: #9198a1 }
  .held rect { fill: #238636 } .failed rect { fill: #b62324 } .broken rect { fill: #9e6a03 }
  .ours.held rect { fill: #2ea043 }
  .none rect { stroke: #3d444d } .none .mark { fill: #6e7681 } .band { fill: #151b23; opacity: 1 }
}
"""
_KINDS = {"held": "held", "failed": "failed", "broken": "broken", "absent": "none absent"}
_CHECK, _DOT = "\N{CHECK MARK}", "\N{MIDDLE DOT}"


def heatmap(measured: dict[str, Any]) -> str:
    """The results of one run as SVG."""
    peers, rows = measured["peers"], measured["rows"]
    across = _columns(peers)
    width = max(across) + _WIDE + 70
    height = _TOP + len(rows) * (_HIGH + _GAP) + _BOTTOM
    parts = [_text(0, 18, "What held", "title"), _text(0, 38, _caption(measured), "quiet")]
    parts += [_column_head(peer, x) for peer, x in zip(peers, across, strict=True)]
    for number, row in enumerate(rows):
        y = _TOP + number * (_HIGH + _GAP)
        if number % 2 == 0:
            parts.append(
                f'<rect class="band" x="0" y="{y - 1.5}" width="{max(across) + _WIDE}" height="{_HIGH + _GAP}"/>'
            )
        parts.append(_text(4, y + 14.5, str(row["number"]), "quiet"))
        parts.append(_text(30, y + 14.5, row["child"]))
        for peer, x in zip(peers, across, strict=True):
            parts.append(_cell(measured["cells"][row["name"]][peer["name"]], x, y, peer["ours"]))
    parts += _totals(measured, across, _TOP + len(rows) * (_HIGH + _GAP) + 4)
    parts.append(_legend(height - 14))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'


def _columns(peers: list[dict[str, Any]]) -> list[float]:
    """Where each column begins; groups stand apart."""
    places: list[float] = []
    x: float = _LEFT
    for _, members in groupby(peers, key=lambda peer: str(peer["group"])):
        for _ in members:
            places.append(x)
            x += _WIDE + _GAP
        x += _GROUP_GAP
    return places


def _column_head(peer: dict[str, Any], x: float) -> str:
    place = f'transform="translate({x + _WIDE / 2 + 4:.1f} {_TOP - 10}) rotate({_TURN})"'
    kind = "strong" if peer["ours"] else "quiet" if peer["version"] is None else ""
    return f'<text {place} class="{kind}">{escape(peer["name"])}</text>'


def _cell(cell: dict[str, Any], x: float, y: float, ours: bool) -> str:
    kind = _KINDS.get(cell["verdict"], "none") + (" ours" if ours else "")
    mark = _CHECK if cell["verdict"] == "held" else "".join(letter for letter, _ in aspects(cell))
    mark = {"not applicable": _DOT, "broken": "?"}.get(cell["verdict"], mark)
    box = f'<rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="3"/>'
    text = f'<text class="mark" x="{x + _WIDE / 2}" y="{y + 14}" text-anchor="middle">{mark}</text>' if mark else ""
    told = cell.get("reason") or "; ".join(finding["what"] for finding in cell.get("findings", ()))
    return f'<g class="{kind}">{box}{text}<title>{escape(told or "held")}</title></g>'


def _totals(measured: dict[str, Any], across: list[float], y: float) -> list[str]:
    parts = [_text(_LEFT - 10, y + 15, "held, of the rows that apply", "quiet", "end")]
    for peer, x in zip(measured["peers"], across, strict=True):
        held, applied = tally(measured, peer["name"])
        kind = "strong" if peer["ours"] else ""
        if applied:
            parts.append(_text(x + _WIDE / 2, y + 13, str(held), kind, "middle"))
            parts.append(_text(x + _WIDE / 2, y + 27, f"of {applied}", "quiet", "middle"))
    return parts


def _caption(measured: dict[str, Any]) -> str:
    return f"Adversarial commands and ways to run them; {measured['machine']['at'][:10]}, one run of make conformance"


def _legend(y: float) -> str:
    return _text(
        0, y, f"{_CHECK} held    S wrong status    B bytes lost, changed or leaked    T not in time    "
        f"L processes left    {_DOT} does not apply    dashed: not installed    ? not judged", "quiet",
    )  # fmt: skip


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" xml:space="preserve"'
    return f'<text {place} class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
