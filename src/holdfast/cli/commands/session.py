"""`holdfast session`: show what a session uses, and set the budget that all its runs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...state.session_budget import SessionBudget, budget_of, set_budget, usage_of
from ...state.sessions import is_closed
from ...values.fields import check_budget, check_pids, check_session
from ...wording.plain import plain, size
from ..parsing.command import JSON, Command, open_state, put, show_json
from ..parsing.options import Option, UsageError

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    if len(given.words) != 1:
        raise UsageError("session is about one session", remedy="write holdfast session NAME")
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
    shown = _shown(state, session)
    if given.has("--json"):
        show_json(shown)
    else:
        put(_text(shown))
    return 0


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
    "session [OPTIONS] NAME",
    "Show what the runs of a session use together, or set how much they may use.",
    (
        Option("--memory", "SIZE", "the memory that all runs of the session may use together"),
        Option("--pids", "COUNT", "the processes and threads that they may have together"),
        Option("--no-budget", None, "remove the budget"),
        JSON,
    ),
    act,
    "When the session uses more, the run that uses most ends, with cause `limit`. Runs that were started before the\n"
    "session had a budget, processes in containers and registered processes are not counted.\n",
)
