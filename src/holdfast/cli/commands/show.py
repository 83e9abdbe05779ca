"""`holdfast show`: print the report of one run, as text or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...wording.plain import command_line, local_time, plain, size, span
from ...wording.rows import queue_text
from ...wording.spec_rows import spec_rows
from ..lookup.records import damage_of
from ..lookup.selection import show_run
from ..parsing.command import JSON, Command, put, show_json
from ..printing.templates import FORMAT, show_as

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...proc.listeners import PortListener
    from ...state.record import RunRecord
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    def show(record: RunRecord) -> None:
        waiting = None if record.reader.ended else record.stdin.is_waited_for()
        listening = None if record.reader.ended else record.tree.listening()
        ports = None if listening is None else listening.ports
        report = {**record.report(), "run_id": record.run_id, "waiting_for_input": waiting, "ports": ports}
        report["queue"] = None  # it has begun
        if _is_formatted(given):
            damage = damage_of(record)
            _show_as(given, {**report, "guard": record.guard} | ({"problem": damage} if damage else {}))
        else:
            put(_text(report, record, () if listening is None else listening.found))

    def show_queued(report: dict[str, Any]) -> None:
        if _is_formatted(given):
            _show_as(given, {**report, "waiting_for_input": None, "guard": "none"})
        else:
            put(_text(report, None, ()))

    return show_run(given, "show", show, show_queued)


def _is_formatted(given: CommandLine) -> bool:
    return given.has("--json") or given.has("--format")


def _show_as(given: CommandLine, report: dict[str, Any]) -> None:
    template = given.last("--format") or "json"
    if template == "json":
        show_json(report)
    else:
        show_as(template, [report])


def _text(report: dict[str, Any], record: RunRecord | None, listeners: Sequence[PortListener]) -> str:
    lines = [(name, value) for name, value in _fields(report, record, listeners) if value not in (None, "", "-")]
    return "".join(f"{name:<13}{value}\n" for name, value in lines)


def _fields(
    report: dict[str, Any], record: RunRecord | None, listeners: Sequence[PortListener]
) -> list[tuple[str, str | None]]:
    output, usage = report["output"], report["usage"]
    cpu = None if usage["cpu_user_s"] is None else usage["cpu_user_s"] + usage["cpu_system_s"]
    return [
        ("run", report["run_id"]),
        ("name", _plain(report["name"])),
        ("command", command_line(report["argv"])),
        ("state", _state(report, record)),
        ("reason", _plain(report["reason"])),
        ("exit code", _plain(report["exit_code"])),
        ("signal", _plain(report["signal"])),
        ("session", _plain(report["session"])),
        ("parent", _plain(report["parent"])),
        ("labels", ", ".join(f"{plain(name)}={plain(value)}" for name, value in report["labels"].items())),
        ("host", _plain(report.get("host"))),
        ("process", _plain(report["pid"])),
        ("listens on", ", ".join(f"{one} (process {one.pid})" for one in listeners)),
        *spec_rows(report.get("spec")),
        ("queued", report["queued_at"]),
        ("queue", _plain(queue_text(report))),
        ("begun", None if record is None else local_time(record.begun_ns)),
        ("started", report["started_at"]),
        ("verdict", report["verdict_at"]),
        ("exited", report["exited_at"]),
        ("settled", report["settled_at"]),
        ("duration", span(report["duration_s"])),
        ("tree", _tree(report)),
        ("stragglers", _plain(report["stragglers"] or None)),
        ("escalated", "yes, to SIGKILL" if report["escalated"] else None),
        ("containment", report["containment"]),
        ("output", None if record is None else _output(output)),
        ("used", None if cpu is None else f"{span(cpu)} of cpu, {size(usage['max_rss_bytes'])} of memory at most"),
        ("directory", None if record is None else plain(record.path)),
    ]


def _plain(value: object) -> str | None:
    return None if value is None else plain(value)


def _state(report: dict[str, Any], record: RunRecord | None) -> str:
    verdict = "no verdict yet" if report["status"] is None else f"{report['status']}, cause {report['cause']}"
    guard = "" if report["state"] == "settled" or record is None else f"; its guard is {record.guard}"
    waiting = ", waiting for input" if report.get("waiting_for_input") else ""
    return f"{report['state']}{waiting}: {verdict}{guard}"


def _tree(report: dict[str, Any]) -> str | None:
    if report["state"] != "settled":
        return None
    pids = report["survivors"]
    return f"{report['tree']}: process {', '.join(map(str, pids))}" if pids else str(report["tree"])


def _output(output: dict[str, Any]) -> str:
    text = f"{size(output['stdout_bytes'])} stdout, {size(output['stderr_bytes'])} stderr"
    text += f", {size(output['late_bytes'])} of it late" if output["late_bytes"] else ""
    text += f", {size(output['dropped_bytes'])} dropped" if output["dropped_bytes"] else ""
    return text + ("; not complete" if output["complete"] is False else "")


COMMAND = Command(
    "show ID [--json] [--format FORMAT]",
    "Show the report of a run.",
    (JSON, FORMAT),
    act,
    "ID is a part of an id that no other run has, a name, @last or @failed.\n",
)
