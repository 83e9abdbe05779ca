"""Changes of a session as text that a model can use: one paragraph for each run, and how to learn more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wording.plain import command_line, plain, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..state.parallel_stop import StopResult
    from .changes import RunChange, SessionChanges

_LONGEST = 300
_HEAD = "Runs of this session that Holdfast keeps, as they are now:"
_MORE = "`holdfast logs RUN` prints the whole output of a run, and `holdfast cancel RUN` ends one that is running."


def changes_in_words(changes: SessionChanges) -> str:
    """The changes as text that stands alone: what it is about, the runs, and how to learn more; empty without runs."""
    return f"{_HEAD}\n{runs_in_words(changes)}\n{_MORE}\n" if changes.runs else ""


def runs_in_words(changes: SessionChanges) -> str:
    """The runs, a paragraph each; empty when there are none."""
    left_out = [f"{changes.left_out} more runs are not shown."] if changes.left_out else []
    return "\n".join([*map(_paragraph, changes.runs), *left_out])


def ends_in_words(session: str, ended: Sequence[StopResult]) -> str:
    """The end of a session's runs as one sentence; empty when none was running."""
    if not ended:
        return ""
    confirmed = sum(run.how == "confirmed" for run in ended)
    others = [f"{run.run_id} ({run.how})" for run in ended if run.how != "confirmed"]
    rest = f"; not confirmed: {', '.join(others)}" if others else ""
    return f"Session {plain(session)}: {confirmed} of {len(ended)} runs are confirmed gone{rest}.\n"


def _paragraph(change: RunChange) -> str:
    report, tail = change.report, change.tail
    head = f"- run {report['run_id']}: {_state(change)}: {_short(command_line(report.get('argv')))}"
    if tail is None or not tail.text.strip():
        return head
    cut = "the end of its output" if tail.offset else "its output"
    lines = [f"    {plain(line)}" for line in tail.text.rstrip().splitlines()]
    return "\n".join([head, f"  {cut}:", *lines])


def _state(change: RunChange) -> str:
    report = change.report
    if report.get("status") is None:
        return f"{report.get('state')} for {span(change.age_s)}"
    after = f" after {span(report['duration_s'])}" if report.get("duration_s") is not None else ""
    return f"{report['status']} ({plain(report.get('reason') or report.get('cause') or 'unknown')}){after}"


def _short(command: str) -> str:
    """A command with its middle left out, if it is long: harnesses wrap theirs in scripts of many lines."""
    return command if len(command) <= _LONGEST else f"{command[: _LONGEST // 3]} [...] {command[-_LONGEST * 2 // 3 :]}"
