"""`holdfast session`: the budget of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..console import holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from ..kept_runs import Runs


def test_a_budget_is_set_shown_changed_and_removed(runs: Runs) -> None:
    assert "start a run to make it" in one_line(holdfast("session", "team"))
    assert holdfast("session", "--memory", "2G", "team").returncode == 0
    assert holdfast("session", "--pids", "500", "team").stdout.decode().split("\n")[:3] == [
        "session    team",
        "memory     0B of 2.0G",
        "processes  0 of 500",
    ]
    runs.sleeper("--session", "team")
    shown = as_json(holdfast("session", "--json", "team"))
    assert (shown["memory_bytes"], shown["pids"], shown["used"]["runs"]) == (2 << 30, 500, 1)
    assert shown["closed"] is False
    assert holdfast("session", "--no-budget", "team").stdout.decode() == "session    team\nbudget     none\n"
    assert holdfast("session", "--memory", "1G", "team").returncode == 0
    assert holdfast("reap", "--session", "team", "--now").returncode == 0
    assert as_json(holdfast("session", "--json", "team"))["closed"] is True


def test_a_run_over_the_budget_says_so(runs: Runs) -> None:
    holdfast("session", "--pids", "5", "team")
    crowd = "for i in 1 2 3 4 5 6; do sleep 600 & done; wait"
    done = holdfast("run", "--session", "team", "--id", "crowd", "--", "sh", "-c", crowd)
    assert (done.returncode, runs.report("crowd")["limit"]) == (137, "processes")
    assert "the session had more than its 5 processes, and this run most" in done.stderr.decode()
    assert b"the session went over its limit of 5 processes: its runs had" in holdfast("why", "crowd").stdout
    holdfast("reap", "--session", "team", "--now")


def test_sessions_are_listed_and_opened_again(runs: Runs) -> None:
    assert as_json(holdfast("session", "--json")) == []  # there is no state directory yet
    runs.ended("true", options=("--session", "night"))
    live = runs.sleeper("--session", "day")
    assert holdfast("reap", "--session", "night", "--reason", "over").returncode == 0
    listed = {one["name"]: one for one in as_json(holdfast("session", "--json"))}
    assert (listed["day"]["live"], listed["day"]["closed"], listed["day"]["closed_at"]) == (1, False, None)
    assert (listed["night"]["ended"], listed["night"]["closed"], listed["night"]["reason"]) == (1, True, "over")
    title, *rows = holdfast("sessions").stdout.decode().splitlines()
    assert title.split() == ["SESSION", "STATE", "QUEUED", "LIVE", "ENDED", "NEWEST", "RUN", "CLOSED", "REASON"]
    assert {tuple(row.split()[:5]) for row in rows} == {
        ("day", "open", "0", "1", "0"),
        ("night", "closed", "0", "0", "1"),
    }
    refused = one_line(holdfast("run", "--session", "night", "true"))
    assert "holdfast session --open night" in refused
    assert holdfast("session", "--open", "night").stdout.startswith(b"session night is open again\n")
    assert holdfast("run", "--session", "night", "true").returncode == 0
    assert holdfast("session", "--open", "day").stdout.startswith(b"session day was not closed\n")
    assert runs.report(live)["state"] == "running"


def test_bad_input() -> None:
    assert "one session" in one_line(holdfast("session", "a", "b"))
    assert "one session" in one_line(holdfast("session", "--open"))
    assert "--memory" in one_line(holdfast("session", "--memory", "x", "team"))
    assert "both given" in one_line(holdfast("session", "--pids", "5", "--no-budget", "team"))
    assert "looks like a path" in one_line(holdfast("session", "a/b"))
