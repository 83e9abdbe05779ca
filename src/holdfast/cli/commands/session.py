"""`holdfast session`: list sessions, open one again, show what one uses, and set the budget that all its runs share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...state.session_budget import SessionBudget, budget_of, set_budget, usage_of
from ...state.sessions import is_closed, open_again
from ...values.fields import check_budget, check_pids, check_session
from ...wording.plain import ago, plain, size
from ...wording.rows import Cell
from ..lookup.selection import has_daemon, open_index
from ..parsing.command import JSON, Command, open_state, put, show_json, used_state
from ..parsing.options import Option, UsageError
from ..printing.table import Column, show_table

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ...state.index.session_list import SessionState
    from ..parsing.options import CommandLine

_COLUMNS = (
    Column("SESSION", cut=True),
    Column("STATE"),
    Column("QUEUED", right=True, left_out=2),
    Column("LIVE", right=True),
    Column("ENDED", right=True),
    Column("NEWEST RUN", left_out=1),
    Column("CLOSED", left_out=3),
    Column("REASON", cut=True, left_out=4),
)


def act(given: CommandLine) -> int:
    if not given.words and not any(given.has(flag) for flag in ("--memory", "--pids", "--no-budget", "--open")):
        return _list(given)
    if len(given.words) != 1:
        remedy = "write holdfast session NAME; holdfast session alone lists all"
        raise UsageError("session is about one session", remedy=remedy)
    session = check_session(given.words[0])
    is_set = given.has("--memory") or given.has("--pids")
    if is_set and given.has("--no-budget"):
        raise UsageError("--no-budget and a budget were both given", remedy="leave one of them out")
    wanted = SessionBudget(check_budget(given.last("--memory"), "memory"), check_pids(given.last("--pids")))
    state = open_state(given, create=is_set)
    if is_set:
        known = budget_of(state, session) or SessionBudget()
        memory, pids = wanted.memory_bytes or known.memory_bytes, wanted.pids or known.pids
        set_budget(state, session, SessionBudget(memory, pids))
    elif given.has("--no-budget"):
        set_budget(state, session, None)
    if given.has("--open"):
        was_closed = open_again(state, session)
        if not given.has("--json"):
            put(f"session {plain(session)} {'is open again' if was_closed else 'was not closed'}\n")
    shown = _shown(state, session)
    if given.has("--json"):
        show_json(shown)
    else:
        put(_text(shown))
    return 0


def _list(given: CommandLine) -> int:
    """Print every session that has runs or is closed."""
    state = used_state(given)
    queued = {} if state is None else _queued(state)
    found = [] if state is None else _sessions(state, queued)
    if given.has("--json"):
        show_json([session.shown(queued.get(session.name, 0)) for session in found])
    else:
        show_table(_COLUMNS, [_row(session, queued.get(session.name, 0)) for session in found])
    return 0


def _sessions(state: StateDirectory, queued: dict[str, int]) -> list[SessionState]:
    from ...state.index.session_list import list_sessions, with_queued

    with open_index(state) as index:
        return with_queued(list_sessions(index), queued)


def _queued(state: StateDirectory) -> dict[str, int]:
    """How many queued runs each session has."""
    found: dict[str, int] = {}
    if has_daemon(state):
        from ..lookup.queued_runs import queued_reports

        for report in queued_reports(state).values():
            if report["session"] is not None:
                found[report["session"]] = found.get(report["session"], 0) + 1
    return found


def _row(session: SessionState, queued: int) -> list[Cell | str]:
    now_ns, closed = time.time_ns(), session.closed
    return [
        session.name,
        "open" if closed is None else Cell("closed", "dim"),
        str(queued),
        str(session.live),
        str(session.ended),
        ago(session.newest_ns or None, now_ns),
        ago(closed.closed_at_ns if closed else None, now_ns),
        (closed.reason if closed else "") or "-",
    ]


def _shown(state: StateDirectory, session: str) -> dict[str, Any]:
    budget = budget_of(state, session)
    usage = usage_of(state, session)
    counted = {"runs": usage.runs, "memory_bytes": usage.memory_bytes, "processes": usage.processes}
    return {
        "session": session,
        "closed": is_closed(state, session),
        "memory_bytes": None if budget is None else budget.memory_bytes,
        "pids": None if budget is None else budget.pids,
        "used": None if budget is None else counted,
    }


def _text(shown: dict[str, Any]) -> str:
    used = shown["used"]
    lines = [("session", plain(shown["session"]) + (" (closed)" if shown["closed"] else ""))]
    if used is None:
        lines.append(("budget", "none"))
    else:
        memory = "no limit" if shown["memory_bytes"] is None else f"of {size(shown['memory_bytes'])}"
        pids = "no limit" if shown["pids"] is None else f"of {shown['pids']}"
        lines += [
            ("memory", f"{size(used['memory_bytes'])} {memory}"),
            ("processes", f"{used['processes']} {pids}"),
            ("counted", f"{used['runs']} runs"),
        ]
    return "".join(f"{name:<11}{text}\n" for name, text in lines)


COMMAND = Command(
    "session [OPTIONS] [NAME]",
    "List the sessions; or show what the runs of one use together, set how much they may use, or open it again.",
    (
        Option("--open", None, "let a closed session take runs again; it must have no live run"),
        Option("--memory", "SIZE", "the memory that all runs of the session may use together"),
        Option("--pids", "COUNT", "the processes and threads that they may have together"),
        Option("--no-budget", None, "remove the budget"),
        JSON,
    ),
    act,
    "When the session uses more, the run that uses most ends, with cause `limit`. Runs that were started before the\n"
    "session had a budget, processes in containers and registered processes are not counted.\n",
)
