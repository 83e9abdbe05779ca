"""Small SVG charts: bars for comparing, lines for growth. Readable on light and dark pages, without any library."""

from __future__ import annotations

import math
from typing import NamedTuple
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT = 760, 200, 90
_BAR, _GAP, _HEAD = 18, 6, 26
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px } .quiet { fill: #57606a; font-size: 12px }
.peer { fill: #8c959f } .limit { fill: #afb8c1 } .ours { fill: #0969da }
.axis { stroke: #d0d7de } path { fill: none; stroke-width: 2.5 } .s0 { stroke: #0969da } .s1 { stroke: #8c959f }
.s2 { stroke: #bf8700 } .s3 { stroke: #1a7f37 } .d0 { fill: #0969da } .d1 { fill: #8c959f } .d2 { fill: #bf8700 }
.d3 { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .quiet { fill: #9198a1 } .peer { fill: #6e7681 } .limit { fill: #484f58 }
  .ours { fill: #4493f8 } .axis { stroke: #3d444d } .s0 { stroke: #4493f8 } .s1 { stroke: #6e7681 }
  .s2 { stroke: #d29922 } .s3 { stroke: #3fb950 } .d0 { fill: #4493f8 } .d1 { fill: #6e7681 } .d2 { fill: #d29922 }
  .d3 { fill: #3fb950 }
}
"""


TIMES = "\N{MULTIPLICATION SIGN}"


class Bar(NamedTuple):
    """One bar; `kind` is `ours`, `peer` or `limit`."""

    label: str
    value: float
    kind: str


class Series(NamedTuple):
    """One line over x."""

    label: str
    points: tuple[tuple[float, float], ...]


def bars(title: str, unit: str, groups: list[tuple[str, list[Bar]]]) -> str:
    """Horizontal bars in groups, each group on its own scale: only peers of one group are comparable."""
    parts, y = [_text(0, 16, title, "title"), _text(0, 34, unit, "quiet")], 52
    for name, group in groups:
        parts.append(_text(0, y + 13, name, "quiet"))
        y += _HEAD - 4
        top = max((bar.value for bar in group), default=1.0) or 1.0
        for bar in group:
            length = max(bar.value / top * (_WIDTH - _LEFT - _RIGHT), 1.0)
            parts.append(_text(_LEFT - 8, y + 14, bar.label, "", "end"))
            parts.append(f'<rect class="{bar.kind}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR}" rx="2"/>')
            parts.append(_text(_LEFT + length + 6, y + 14, number(bar.value)))
            y += _BAR + _GAP
        y += 10
    return _document(parts, y)


def lines(title: str, unit: str, x_name: str, series: list[Series]) -> str:
    """Lines over a logarithmic x axis; y begins at zero, so that slopes are honest."""
    height, bottom, top_y, left, right = 300, 250, 60, 60, _WIDTH - 220
    xs = sorted({x for one in series for x, _ in one.points})
    top = max((y for one in series for _, y in one.points), default=1.0) * 1.08 or 1.0

    def across(x: float) -> float:
        low, high = math.log(xs[0]), math.log(xs[-1])
        return left + (math.log(x) - low) / ((high - low) or 1.0) * (right - left)

    def up(y: float) -> float:
        return bottom - y / top * (bottom - top_y)

    parts = [_text(0, 16, title, "title"), _text(0, 34, unit, "quiet")]
    for share in (0.0, 0.5, 1.0):
        y = up(top * share)
        parts.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(left - 8, y + 4, number(top * share), "quiet", "end"))
    parts += [_text(across(x), bottom + 18, f"{x:,.0f}", "quiet", "middle") for x in xs]
    parts.append(_text((left + right) / 2, bottom + 38, x_name, "quiet", "middle"))
    # Push apart the labels of lines that end close together, in the order of the lines.
    label_y = -math.inf
    for index, one in sorted(enumerate(series), key=lambda item: -item[1].points[-1][1]):
        places = [(across(x), up(y)) for x, y in one.points]
        parts.append(f'<path class="s{index % 4}" d="M{" L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>')
        parts += [f'<circle class="d{index % 4}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
        label_y = max(places[-1][1] + 4, label_y + 17)
        parts.append(_text(right + 12, label_y, f"{one.label} ({number(one.points[-1][1])})"))
    return _document(parts, height)


def number(value: float) -> str:
    """A number with three significant digits and separated thousands."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 10 else f"{value:.1f}"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _document(parts: list[str], height: float) -> str:
    size = f'viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'
