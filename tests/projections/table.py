"""Every verdict through every projection, one line each. `python -m tests.projections.table` prints the lines.

`reviewed.txt` holds the same lines as people have read and agreed to them; it is changed by hand. `--docs` writes
docs/projections.md from it.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.journal.facts import CAUSES, LIMITS, LOST_WHYS, SPAWN_STEPS, Fact, make_fact
from holdfast.outcome import Outcome, decide
from holdfast.projections.a2a import a2a_state
from holdfast.projections.acp_v1 import AcpAnswer, acp_v1_stop, acp_v1_terminal
from holdfast.projections.acp_v2 import acp_v2_stop
from holdfast.projections.exit_code import exit_code
from holdfast.projections.http import STATUS_CODE, http_headers
from holdfast.projections.json_rpc import json_rpc
from holdfast.projections.mcp import TASKS_2025, TASKS_2026, mcp_result, mcp_task
from holdfast.projections.otel import RESULT, otel
from holdfast.projections.responses import responses
from holdfast.projections.systemd import systemd

REVIEWED = Path(__file__).with_name("reviewed.txt")
SEEN = Path(__file__).with_name("seen.txt")
RESPONSES = "Responses"
ACP_V1_STOP = "ACP v1 stop"
ACP_V2_STOP = "ACP v2 stop"
DOCS = Path(__file__).parents[2] / "docs" / "projections.md"
RUN_ID = "run-1"
USAGE = {"user_us": 0, "system_us": 0, "max_rss_kib": 0}


def _fact(kind: str, at: int, **detail: Any) -> Fact:
    return make_fact(kind, at, at, **detail)


def _exited(wait_status: int, at: int = 9) -> Fact:
    return _fact("exited", at, wait_status=wait_status, **USAGE)


def _rung(signal: int, rung: int) -> Fact:
    return _fact("signalled", 6 + rung, signal=signal, rung=rung, reached=1, refused=0)


def _stop(cause: str, signal: int = 0) -> Fact:
    return _fact("stop_asked", 5, cause=cause, signal=signal, by_pid=0, by_uid=0, reason=None)


def _not_spawned(step: str, error: int) -> Fact:
    return _fact("spawn_failed", 5, step=step, error=error)


def cases() -> dict[str, list[Fact]]:
    """Facts by a name that says what happened; every status and cause of the contract, and their variants."""
    term, kill = _rung(15, 0), _rung(9, 1)
    deadline, idle = _fact("deadline", 5, limit_ns=1), _fact("idle", 5, limit_ns=1)
    found: dict[str, list[Fact]] = {
        "exit 0": [_exited(0)],
        "exit 3": [_exited(3 << 8)],
        "exit 124, its own": [_exited(124 << 8)],
        "signal 15, nobody of us": [_exited(15)],
        "signal 11, core dumped": [_exited(0x80 | 11)],
        "deadline, exit 0 late": [deadline, term, _exited(0)],
        "deadline, ended by SIGTERM": [deadline, term, _exited(15)],
        "deadline, SIGKILL needed": [deadline, term, kill, _exited(9)],
        "deadline, not ended yet": [deadline, term],
        "idle, ended by SIGTERM": [idle, term, _exited(15)],
        "queue, never started": [_fact("queue_expired", 5, limit_ns=1)],
        "user by SIGINT, exit 0 late": [_stop("user", 2), term, _exited(0)],
        "user before the start": [_stop("user")],
        "oom": [_fact("oom", 5, kills=1), _exited(9)],
    }
    for cause in CAUSES.words.values():
        found[f"stopped: {cause}"] = [_stop(cause), term, _exited(15)]
    for what in LIMITS.words.values():
        found[f"limit: {what}"] = [_fact("limit", 5, what=what, limit=1, seen=2), kill, _exited(9)]
    for step in SPAWN_STEPS.words.values():
        found[f"not spawned: {step}"] = [_not_spawned(step, errno.EACCES)]
    found["not spawned: no such program"] = [_not_spawned("exec", errno.ENOENT)]
    for why in LOST_WHYS.words.values():
        found[f"lost: {why}"] = [_fact("lost", 5, why=why)]
    found["vanished"] = [_fact("vanished", 5)]
    return found


def _answer(answer: AcpAnswer, show: Callable[[dict[str, Any]], str]) -> str:
    return show(answer.result) if answer.result is not None else "RPC error"


def _terminal(status: dict[str, Any]) -> str:
    return f"null+{status['signal']}" if status["exitCode"] is None else f"code {status['exitCode']}"


def _rpc(outcome: Outcome) -> str:
    answer = json_rpc(outcome, RUN_ID)
    return "result" if answer.error is None else str(answer.error["code"])


def _systemd(outcome: Outcome) -> str:
    ended = systemd(outcome)
    process = f" ({ended.exit_code} {ended.exit_status})" if ended.exit_code else ""
    return f"{ended.result or 'none'}{process}"


SURFACES: dict[str, Callable[[Outcome], str]] = {
    "verdict": lambda outcome: f"{outcome.status}/{outcome.cause}",
    "exit code": lambda outcome: str(exit_code(outcome)),
    "HTTP": lambda outcome: f"{STATUS_CODE} {http_headers(outcome, RUN_ID)['Holdfast-Status']}",
    "JSON-RPC": _rpc,
    "MCP result": lambda outcome: "isError" if mcp_result(outcome, RUN_ID).is_error else "ok",
    "MCP task 2026 / 2025-11": lambda outcome: f"{mcp_task(outcome, TASKS_2026)} / {mcp_task(outcome, TASKS_2025)}",
    "ACP v1 terminal": lambda outcome: _answer(acp_v1_terminal(outcome, RUN_ID), _terminal),
    ACP_V1_STOP: lambda outcome: _answer(acp_v1_stop(outcome, RUN_ID), lambda result: str(result["stopReason"])),
    ACP_V2_STOP: lambda outcome: str(acp_v2_stop(outcome, RUN_ID)["stopReason"]),
    "A2A": lambda outcome: a2a_state(outcome).removeprefix("TASK_STATE_"),
    RESPONSES: lambda outcome: str(responses(outcome, RUN_ID)["status"]),
    "systemd": _systemd,
    "OTel": lambda outcome: str(otel(outcome, RUN_ID).attributes[RESULT]),
}


def rows() -> list[tuple[str, ...]]:
    """The header, then one row per case."""
    made = [(name, decide(facts)) for name, facts in cases().items()]
    return [
        ("what happened", *SURFACES),
        *[(name, *(show(outcome) for show in SURFACES.values())) for name, outcome in made],
    ]


def aligned(table: list[tuple[str, ...]]) -> str:
    """The table as text."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = (" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def read(path: Path) -> list[tuple[str, ...]]:
    """The rows of a table in a file."""
    lines = path.read_text().splitlines()
    return [tuple(cell.strip() for cell in line.split("|")) for line in lines if line and not line.startswith("#")]


def reviewed() -> list[tuple[str, ...]]:
    """The table that people agreed to."""
    return read(REVIEWED)


def seen() -> dict[str, dict[str, str]]:
    """The cells that real runs showed, by line and column. `seen.py` writes them."""
    header, *lines = read(SEEN)
    cells = {line[0]: zip(header[1:], line[1:], strict=True) for line in lines}
    return {line: {column: cell for column, cell in found if cell} for line, found in cells.items()}


def shown_by_door(line: str, column: str, cell: str) -> str:
    """What a door shows of a reviewed cell.

    An agent that was not started has no turn and no stop reason: `initialize` gets an error, in version 2 too.
    """
    if (line.partition(":")[0], column) == ("not spawned", ACP_V2_STOP):
        return "RPC error"
    return cell


# The lines of real runs that cannot occur behind `holdfast acp`, and why.
NOT_IN_ACP = {
    "queue, never started": "the proxy has no queue",
    "user before the start": "the editor speaks to an agent that has started",
    "limit: output": "the agent's output is the protocol, and has no budget there",
}

_PAGE = """\
# Projections: one outcome, many surfaces

Every surface is a pure function of the one outcome ([`src/holdfast/projections/`](../src/holdfast/projections/), a file
each); none keeps a status of its own. Where a surface loses detail, its metadata carries `status, cause, exit_code,
signal, escalated, run_id`.

A line that is marked as seen was brought about by real runs. In such a line the cells of {columns}
are what clients of these surfaces were told. The stops of ACP are from prompts through
[`holdfast acp`](acp.md#an-agent-for-an-editor), except where the mark says that the line cannot occur there. The others
are from a run of a daemon's [agent](agents.md), after a restart of the daemon where the run had ended. The cells of the
other surfaces are the projections' own, of an outcome made from facts. People agreed to every cell; tests compare them.
`python -m tests.projections.seen` plays the runs, and `python -m tests.projections.table --docs` makes this page.

{table}
Details that are not obvious:

- **Exit code.** Every timeout is 124, even if SIGKILL was needed. A command may exit with 124 itself: the report is the
  truth, not the code. A cancel is 130 when it came from SIGINT, 143 otherwise.
- **HTTP.** The HTTP status says how the request ended, not how the run ended: the answer is 200 with the report, and
  `Holdfast-Status`, `Holdfast-Cause` and `Holdfast-Exit-Code` as headers.
- **JSON-RPC.** This is the answer to a call that represents the run, such as the sidecar's `wait`. If the command ran,
  the answer is a result with its status. -32800: the client cancelled the run. -32802: something else cancelled it.
  -32603: it never ran, or nobody knows how it ended. The `data` of an error has the fields of the result.
- **MCP.** Everything but success is a result with `isError`, because a model can act on that; `structuredContent` has
  the detail. Since 2026-07-28 a task with an error result is `completed`; before that it is `failed`.
- **ACP v1.** A run that Holdfast ended has no exit code there, even if the command exited with 0 in time. If no signal
  was seen to end it, the answer names the signal that Holdfast sent last. A turn has no stop reason for failures, so
  the answer is an error. `cancelled` is only for the client's own cancel, in both versions.
- **ACP turns.** The line "exit 0" is an agent that ends its turn, and then exits. An agent that exits in the middle of
  a turn is an error there, with 0 too. An agent that was not started has no turn: the editor's first request gets the
  error, in both versions. There the cell of version 2 is what was seen; the projection alone says `error`. The editor
  is told at the verdict, so an agent that needs a SIGKILL gets it after that.
- **Not in ACP.** Behind `holdfast acp` some lines cannot occur:
{not_in_acp}
- **Responses.** There is no reason for a timeout: the message and the metadata tell it.
- **systemd.** `SERVICE_RESULT (EXIT_CODE EXIT_STATUS)` as `ExecStopPost=` gets them. A stop on request is a success
  there.
- **OpenTelemetry.** `cicd.pipeline.task.run.result`; the span has failed unless the run succeeded or was cancelled.

A program that has only a report, from the daemon or a file, gets the outcome from
`holdfast.projections.report.outcome_of(report)`, which decides once more from the evidence.
"""


def page() -> str:
    """The text of docs/projections.md."""
    header, *lines = reviewed()
    told = seen()
    rows = [(*header, "seen"), tuple("---" for _ in (*header, "")), *(_row(header, line, told) for line in lines)]
    columns = [column for column in header if column in next(iter(told.values()))]
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    not_in_acp = "".join(f"  - {line}: {why}.\n" for line, why in NOT_IN_ACP.items()).rstrip()
    return _PAGE.format(not_in_acp=not_in_acp, table=text, columns=f"{', '.join(columns[:-1])} and {columns[-1]}")


def _row(header: tuple[str, ...], line: tuple[str, ...], told: dict[str, dict[str, str]]) -> tuple[str, ...]:
    """The line with what was seen in the place of what was agreed to."""
    cells = told.get(line[0], {})
    found = [cells.get(column, cell) for column, cell in zip(header, line, strict=True)]
    return (*found, "" if not cells else "yes" if ACP_V1_STOP in cells else "yes, not in ACP")


if __name__ == "__main__":
    if sys.argv[1:] == ["--docs"]:
        DOCS.write_text(page())
    else:
        sys.stdout.write(aligned(rows()))
