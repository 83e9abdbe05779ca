"""`holdfast reap --session` and `holdfast prune`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..console import holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ..kept_runs import Runs


def test_a_closed_session_ends_its_runs_and_refuses_later_ones(runs: Runs) -> None:
    mine, other = runs.sleeper("--session", "s"), runs.sleeper("--session", "t")
    done = holdfast("reap", "--session", "s", "--reason", "over")
    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        f"{mine}  gone  cancelled/session",
        "session s is closed: 1 confirmed gone, 0 with survivors, 0 unknown",
    ]
    assert runs.report(other)["state"] == "running"
    for words in (["run", "--detach"], ["run"]):
        line = one_line(holdfast(*words, "--session", "s", "true"))
        assert "the session 's'" in line
        assert "use another session name, or open it again: holdfast session --open s" in line
    assert len(as_json(holdfast("ps", "--all", "--json"))) == 2  # nothing is left of the refused runs


def test_a_session_that_nobody_used_can_be_closed(state_directory: Path) -> None:
    assert as_json(holdfast("reap", "--session", "s", "--json")) == []
    assert "the session 's'" in one_line(holdfast("run", "--session", "s", "true"))
    assert state_directory.exists()
    assert "no session was given" in one_line(holdfast("reap"))


def test_prune_by_count_never_takes_a_live_run(runs: Runs) -> None:
    old, live, new = runs.ended("true"), runs.sleeper(), runs.ended("true")
    planned = as_json(holdfast("prune", "--keep", "1", "--dry-run", "--json"))
    assert [row["run_id"] for row in planned] == [old]
    assert holdfast("show", old).returncode == 0  # only planned
    done = holdfast("prune", "--keep", "1")
    assert done.returncode == 0
    assert done.stdout.startswith(b"removed 1 run, freed ")
    assert "there is no run" in one_line(holdfast("show", old))
    assert as_json(holdfast("prune", "--keep", "0", "--json"))["removed"] == [new]
    assert runs.report(live)["state"] == "running"


def test_prune_by_age_and_size(runs: Runs) -> None:
    run_id = runs.ended("true")
    assert as_json(holdfast("prune", "--older-than", "1h", "--json"))["removed"] == []
    assert as_json(holdfast("prune", "--max-size", "1G", "--json"))["removed"] == []
    assert as_json(holdfast("prune", "--older-than", "0", "--json"))["removed"] == [run_id]


def test_prune_has_to_be_told_what(runs: Runs) -> None:
    runs.ended("true")
    assert "nothing says what to prune: give --older-than, --keep or --max-size" in one_line(holdfast("prune"))
    assert "--keep 'all' is not a number" in one_line(holdfast("prune", "--keep", "all"))
    assert "--older-than" in one_line(holdfast("prune", "--older-than", "soon"))
    assert "prune takes no 'x'" in one_line(holdfast("prune", "x", "--keep", "1"))
