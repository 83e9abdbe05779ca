"""`holdfast ps`."""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.outcome import STATUSES

from ...support.processes import holding_stopped
from ..console import HOLDFAST, Console, holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ..kept_runs import Runs


def ids(*options: str) -> list[str]:
    """The ids that `ps` lists, in its order."""
    return [row["run_id"] for row in as_json(holdfast("ps", "--json", *options))]


def test_nothing_yet(state_directory: Path) -> None:
    done = holdfast("ps")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.split() == b"RUN STATE EXIT BEGUN TIME PORTS SESSION NAME COMMAND".split()
    assert ids("--all") == []
    assert not state_directory.exists()  # looking makes nothing
    assert "start a run to make it" in one_line(holdfast("ps", "--state-dir", str(state_directory)))
    state_directory.mkdir()
    for words in ([], ["--state-dir", str(state_directory)]):
        assert ids("--all", *words) == [], "an empty directory holds no runs"
    told = as_json(holdfast("doctor", "--json"))
    assert not [one for one in told["findings"] if one["topic"] == "state" and one["level"] != "ok"]


def test_live_ones_and_all(runs: Runs) -> None:
    over = runs.ended("true")
    first, second = runs.sleeper(), runs.sleeper()
    assert ids() == [second, first]
    assert ids("--all") == [second, first, over]
    table = holdfast("ps", "--all").stdout.decode()
    lines = {line.split()[0]: line for line in table.splitlines()[1:]}
    assert "running" in lines[first]
    assert "sh -c 'echo ready; exec sleep 600'" in lines[first]
    assert "succeeded/exit" in lines[over]


def test_whoever_is_stopped_with_the_index_hides_no_live_run(runs: Runs) -> None:
    """A daemon is stopped while it makes the index: live runs are on disk, and listing them needs no lock."""
    live, over = runs.sleeper(), runs.ended("true")
    with holding_stopped(str(runs.state / "index.lock")) as pid:
        done = holdfast("ps", "--json")
        assert [row["run_id"] for row in as_json(done)] == [live]
        line = done.stderr.decode()
        assert line.startswith("holdfast: the history is not brought up to date: ")
        assert f"process {pid} holds" in line
        assert runs.report(over[:-1])["status"] == "succeeded"
        refused = holdfast("ps", "--all")
        assert (refused.returncode, refused.stdout) == (125, b"")
        assert f"kill -CONT {pid}" in one_line(refused)
    assert ids("--all") == [over, live]


def test_filters(runs: Runs) -> None:
    failed = runs.ended("false", options=("--session", "a", "--label", "x=1", "--label", "y=2"))
    fine = runs.ended("true", options=("--session", "a", "--name", "n"))
    live = runs.sleeper("--session", "b", "--label", "x=1")
    assert ids("--status", "failed") == [failed]
    assert ids("--status", "failed,succeeded") == [fine, failed]
    assert ids("--cause", "exit") == [fine, failed]
    assert ids("--all", "--session", "a") == [fine, failed]
    assert ids("--session", "b") == [live]
    assert ids("--all", "--label", "x=1") == [live, failed]
    assert ids("--all", "--label", "x=1", "--label", "y=2") == [failed]
    assert ids("--all", "--name", "n") == [fine]
    assert ids("--all", "--name", "nobody") == []
    done = holdfast("ps", "--all", "--limit", "1")
    assert b"only the newest 1 ended runs are shown: --limit 0 shows all" in done.stderr
    assert ids("--all", "--limit", "0") == [live, fine, failed]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--status", "good"], "--status 'good' is unknown: use one of succeeded"),
        (["--cause", "bogus"], "--cause 'bogus' is unknown: use one of exit, signal, spawn, "),
        (["--cause", "exit,bogus"], "--cause 'bogus' is unknown: "),
        (["--limit", "many"], "--limit 'many' is not a number"),
        (["--label", "x"], "a value of --label is not of the form NAME=VALUE"),
        (["--watch", "--interval", "1ms"], "--interval is too short"),
        (["some-id"], "ps takes no 'some-id'"),
        (["--al"], "unknown option '--al': did you mean --all?"),
    ],
)
def test_a_wrong_command_line(words: list[str], line: str, runs: Runs) -> None:
    assert line in one_line(holdfast("ps", *words))
    assert runs.ids == []


def test_every_cause_can_be_asked_for() -> None:
    assert ids("--cause", ",".join(cause for causes in STATUSES.values() for cause in causes)) == []


def test_nested_runs_are_below_the_run_they_were_started_in(runs: Runs) -> None:
    inner = " ".join([*HOLDFAST, "run", "--id", "inner", "--", "sh", "-c", "'echo in; exec sleep 600'"])
    outer = runs.start("sh", "-c", inner, options=("--id", "outer"))
    runs.until(outer, b"in")
    other = runs.sleeper("--id", "other")
    lines = holdfast("ps", "--tree").stdout.decode().splitlines()[1:]
    assert [line[:9].rstrip() for line in lines] == [other, "outer", "└ inner"]


def test_nothing_is_cut_off_in_a_pipe_and_nothing_coloured(runs: Runs) -> None:
    long = "x" * 3000
    runs.ended("true", long)
    done = holdfast("ps", "--all", env={**os.environ, "COLUMNS": "40", "FORCE_COLOR": "1"})
    assert long in done.stdout.decode()
    assert b"\x1b" not in done.stdout


def test_what_others_wrote_cannot_do_anything_to_the_terminal(runs: Runs) -> None:
    runs.ended("printf", "\x1b[31mred\x07\u202e", options=("--id", "wild"))
    for words in (["ps", "--all"], ["show", "wild"], ["why", "wild"]):
        done = holdfast(*words)
        assert b"\\x1b[31mred\\x07\\u202e" in done.stdout
        assert b"\x1b" not in done.stdout
        assert "\u202e".encode() not in done.stdout


def test_on_a_terminal_the_ids_are_short_and_no_color_is_respected(runs: Runs) -> None:
    run_id = runs.ended("false", "y" * 300)
    for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        with Console(*HOLDFAST, "ps", "--all", size=(24, 100), environment=variables) as console:
            assert console.wait() == 0
            assert run_id[-6:].encode() in console.rest
            assert run_id.encode() not in console.rest
            assert (b"\x1b[31m" in console.rest) == coloured
            assert all(len(line) <= 100 or "\x1b" in line for line in console.rest.decode().splitlines())


def test_watch_redraws_until_ctrl_c(runs: Runs) -> None:
    run_id = runs.sleeper()
    with Console(*HOLDFAST, "ps", "--watch", "--interval", "100ms", size=(24, 120)) as console:
        console.until(run_id[-6:].encode())
        console.until(run_id[-6:].encode())  # drawn again
        another = runs.sleeper()
        console.until(another[-6:].encode())
        console.type(b"\x03")
        assert console.wait() == 0


def test_a_broken_run_is_listed_and_the_others_are_unaffected(runs: Runs) -> None:
    good = runs.ended("true")
    broken = runs.state / "runs" / "half-made"
    broken.mkdir()
    (runs.state / "live" / "half-made").touch()
    done = holdfast("ps", "--all")
    assert done.returncode == 0
    assert b"run half-made: its directory holds no journal" in done.stderr
    assert b"unreadable" in done.stdout
    assert good.encode() in done.stdout


def test_a_run_that_waits_for_input_is_shown_as_such(runs: Runs) -> None:
    waits = runs.start("sh", "-c", "echo ready; read line", options=("--pty",))
    runs.until(waits, b"ready")
    sleeps = runs.sleeper("--pty")
    end = time.monotonic() + 60
    while runs.report(waits)["waiting_for_input"] is not True:  # no event says that the command has fallen asleep
        assert time.monotonic() < end
    listed = {run["run_id"]: run["waiting_for_input"] for run in as_json(holdfast("ps", "--json"))}
    assert listed == {waits: True, sleeps: False}
    lines = {line.split()[0]: line for line in holdfast("ps").stdout.decode().splitlines()}
    assert "waiting for input" in lines[waits]
    assert "running" in lines[sleeps]
    assert b"running, waiting for input: no verdict yet" in holdfast("show", waits).stdout
    holdfast("cancel", "--now", waits)
    assert runs.report(waits)["waiting_for_input"] is None


def test_only_ids_formats_and_since(runs: Runs) -> None:
    failed = runs.ended("sh", "-c", "exit 3", options=("--name", "one"))
    killed = runs.ended("sh", "-c", "kill -9 $$")
    assert holdfast("ps", "-aq").stdout.decode().split() == [killed, failed]
    assert holdfast("ps", "-a", "-n1", "-q").stdout.decode().split() == [killed]
    assert ids("-a", "--since", "1h") == [killed, failed]
    assert ids("-a", "--since", "2100-01-01") == []
    form = "{run_id:>22}\\t{name} {exit_code} {output.stdout_bytes} {argv}"
    lines = holdfast("ps", "-a", "--format", form).stdout.decode().splitlines()
    assert lines == [f"  {killed}\t- - 0 sh,-c,kill -9 $$", f"  {failed}\tone 3 0 sh,-c,exit 3"]
    assert [json.loads(line)["run_id"] for line in holdfast("ps", "-a", "--format", "jsonl").stdout.splitlines()] == [
        killed,
        failed,
    ]
    exits = [line.split()[2] for line in holdfast("ps", "-a").stdout.decode().splitlines()[1:]]
    assert exits == ["SIGKILL", "3"]


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("{nothing}", "--format: a report has no 'nothing': it has argv, "),
        ("{run_id", "--format is no template: expected '}' before end of string: write fields as {run_id}"),
        ("{status:d}", "--format cannot show status as 'd': after the colon write a width, as in {status:<12}"),
    ],
)
def test_a_format_that_cannot_be_filled(runs: Runs, form: str, line: str) -> None:
    runs.ended("true")
    assert line in one_line(holdfast("ps", "-a", "--format", form))


@pytest.mark.parametrize("columns", [30, 80, 200])
def test_no_row_is_wider_than_the_terminal(runs: Runs, columns: int) -> None:
    run_id = runs.ended("echo", "x" * 100, options=("--name", "nightly-build", "--session", "s" * 30))
    with Console(*HOLDFAST, "ps", "--all", size=(24, columns)) as console:
        assert console.wait() == 0
        text = re.sub(r"\x1b\[[0-9;]*m", "", console.rest.decode())
    lines = text.splitlines()
    assert len(lines) == 2, text
    assert all(len(line) <= columns for line in lines)
    assert lines[1].startswith(f"{run_id[-6:]}  succeeded/exit")
    assert ("nightly-build" in text) == (columns > 60)
    assert holdfast("show", lines[1].split()[0]).returncode == 0
