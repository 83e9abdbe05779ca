"""`holdfast doctor`: examine the host and the state directory, and with `--reap` repair what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doctor import carry_out, examine, open_for_repair
from ...doctor.finding import RepairResult
from ...wording.plain import plain
from ..parsing.command import JSON, Command, no_words, put, show_json
from ..parsing.options import Option, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...doctor.finding import Diagnosis, DoctorFinding, PlannedRepair
    from ..parsing.options import CommandLine

NOT_HEALTHY = 1


def act(given: CommandLine) -> int:
    no_words(given, "doctor")
    if given.has("--dry-run") and not given.has("--reap"):
        raise UsageError("--dry-run is about --reap", remedy="without --reap nothing is changed anyway")
    path = given.last("--state-dir")
    diagnosis = examine(path)
    done: Sequence[PlannedRepair | RepairResult] = ()
    if given.has("--dry-run"):
        done = diagnosis.repairs
    elif given.has("--reap") and diagnosis.repairs:
        done = carry_out(open_for_repair(path), diagnosis.repairs)
        # Examine again after the repairs. The first examination has tried the guard already.
        diagnosis = examine(path, trial=False)
    _tell(diagnosis, done, given)
    return 0 if diagnosis.healthy else NOT_HEALTHY


def _tell(diagnosis: Diagnosis, done: Sequence[PlannedRepair | RepairResult], given: CommandLine) -> None:
    if given.has("--json"):
        document = {
            "healthy": diagnosis.healthy,
            "findings": [finding.as_dict() for finding in diagnosis.findings],
            "repairs": [each.as_dict() for each in done],
            "dry_run": given.has("--dry-run"),
        }
        show_json(document)
        return
    lines = [_line(each) for each in done]
    if given.has("--reap") and not done:
        lines.append("nothing to do")
    lines += [line for finding in diagnosis.findings for line in _finding(finding)]
    put("".join(f"{plain(line)}\n" for line in [*lines, _summary(diagnosis)]))


def _finding(finding: DoctorFinding) -> list[str]:
    about = f" (run {finding.run_id})" if finding.run_id else ""
    lines = [f"{finding.level:<8} {finding.topic:<12} {finding.what}{about}"]
    if finding.remedy is not None and finding.needs_action:
        lines.append(f"{'':<21} remedy: {finding.remedy}")
    return lines


def _line(each: PlannedRepair | RepairResult) -> str:
    if isinstance(each, RepairResult):
        about = f" (run {each.repair.run_id})" if each.repair.run_id else ""
        return f"{'done' if each.confirmed else 'not done':<8} {each.repair.what}{about}: {each.what}"
    about = f" (run {each.run_id})" if each.run_id else ""
    return f"would    {each.what}{about}"


def _summary(diagnosis: Diagnosis) -> str:
    if diagnosis.healthy:
        return "healthy"
    count = sum(finding.needs_action for finding in diagnosis.findings)
    return f"{count} finding{'' if count == 1 else 's'} to look at"


COMMAND = Command(
    "doctor [--reap [--dry-run]] [OPTIONS]",
    "Look for problems: of this host, the state directory and its runs, and for processes that no guard looks after.",
    (
        Option("--reap", None, "finish lost records, kill orphans, remove leftover files and cgroups"),
        Option("--dry-run", None, "with --reap: only say what it would do"),
        JSON,
    ),
    act,
    "Exit codes: 0 healthy, 1 there is something to look at, 125 Holdfast failed.\n",
)
