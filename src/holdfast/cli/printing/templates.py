"""`--format`: reports as one JSON document, as lines of JSON, or as lines of a template such as `{run_id} {status}`."""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING, Any

from ...wording.plain import plain
from ..parsing.command import put, show_json
from ..parsing.options import Option, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT = Option("--format", "FORMAT", "json, jsonl, or a template of report fields: '{run_id} {output.stdout_bytes}'")
_ESCAPES = {"\\n": "\n", "\\t": "\t"}


def show_as(text: str, reports: Sequence[Mapping[str, Any]]) -> None:
    """Print the reports in this format. UsageError: it is a template that cannot be filled."""
    if text == "json":
        show_json(list(reports))
    elif text == "jsonl":
        import json

        put("".join(f"{json.dumps(report)}\n" for report in reports))
    else:
        put("".join(f"{fill(text, report)}\n" for report in reports))


def fill(template: str, report: Mapping[str, Any]) -> str:
    """The template with the fields of one report in it; a field without a value is `-`."""
    for written, meant in _ESCAPES.items():
        template = template.replace(written, meant)
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise UsageError(f"--format is no template: {error}", remedy="write fields as {run_id}") from None
    return "".join(text + ("" if name is None else _field(name, spec or "", report)) for text, name, spec, _ in parts)


def _field(name: str, spec: str, report: Mapping[str, Any]) -> str:
    try:
        return format(_value(name, report), spec)
    except ValueError:
        remedy = "after the colon write a width, as in {status:<12}"
        raise UsageError(f"--format cannot show {name} as {spec!r}", remedy=remedy) from None


def _value(name: str, report: Mapping[str, Any]) -> str:
    found: Any = report
    for key in name.split("."):
        if found is None:
            break
        if not isinstance(found, dict) or key not in found:
            known = ", ".join(sorted(report))
            raise UsageError(f"--format: a report has no {name!r}", remedy=f"it has {known}")
        found = found[key]
    if isinstance(found, (list, tuple)):
        return ",".join(plain(one) for one in found)
    return "-" if found is None else plain(found)
