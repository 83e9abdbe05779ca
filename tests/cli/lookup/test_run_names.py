"""What a text on the command line names: each rule, the order of the rules, and what is said when several runs fit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.cli.lookup.run_names import FAILED, LAST, RunNames
from holdfast.state.directory import StateDirectory
from holdfast.state.index.index import Index
from holdfast.state.index.summary import RunSummary
from holdfast.values.errors import AmbiguousRunError, RunNotFoundError

from ...support.durable import put_run
from ..console import holdfast
from ..kept_runs import Runs, one_line

if TYPE_CHECKING:
    from pathlib import Path


ABOUT_RUNS = [["show"], ["why"], ["logs"], ["wait"], ["cancel"]]


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory.open(os.fspath(tmp_path / "state"), create=True)


def found(state: StateDirectory, text: str, *queued: RunSummary) -> str:
    with Index.open(state) as index:
        return RunNames(state, index, queued).find(text)


def waiting(run_id: str, name: str | None = None, begun_ns: int = 1 << 62) -> RunSummary:
    report = {"run_id": run_id, "name": name, "state": "queued", "status": None}
    return RunSummary(run_id, begun_ns, report, None, 0, 0, guard="none", final=False)


@pytest.mark.parametrize("words", ABOUT_RUNS)
def test_every_command_about_runs_takes_names_words_and_parts(words: list[str], runs: Runs) -> None:
    first = runs.ended("true", options=("--name", "one"))
    runs.ended("false")
    last = runs.ended("true")
    for text, run_id in (("one", first), (first[-5:], first), ("@last", last), (last[3:].upper(), last)):
        told = holdfast(*words, text)
        assert told.returncode == 0, told.stderr
        assert told.stdout == holdfast(*words, run_id).stdout
    assert holdfast("wait", "@failed").returncode == 1


def test_a_live_run_is_meant_before_those_that_ended(runs: Runs) -> None:
    for _ in range(2):
        runs.ended("true", options=("--name", "nightly"))
    line = one_line(holdfast("logs", "nightly"))
    assert "'nightly' is the name of 2 runs: " in line
    assert all(run_id in line for run_id in runs.ids)
    live = runs.sleeper("--name", "nightly")
    assert holdfast("cancel", "nightly").stdout.decode().startswith(live)


def test_the_order_of_the_rules(state: StateDirectory) -> None:
    for run_id in ("abc1", "xabc", "abc", "xyz-abc-xyz"):
        put_run(state, run_id)
    assert found(state, "abc") == "abc", "a whole id"
    assert found(state, "abc", waiting("new", name="abc")) == "abc"
    assert found(state, "abc1", waiting("new", name="abc1")) == "abc1"
    assert found(state, "bc1", waiting("new", name="bc1")) == "new", "a name before a part"
    assert found(state, "1") == "abc1", "the end of an id"
    assert found(state, "xa") == "xabc", "the beginning"
    assert found(state, "c-x") == "xyz-abc-xyz", "the middle"
    with pytest.raises(AmbiguousRunError, match="'xyz' is the name of 2 runs: q2, q1") as raised:
        found(state, "xyz", waiting("q1", name="xyz"), waiting("q2", name="xyz"))
    assert raised.value.remedy == "give the end of one of these ids, or more of it"
    assert found(state, "xyz") == "xyz-abc-xyz"
    with pytest.raises(AmbiguousRunError, match="'x' is a part of the ids of 2 runs: xabc, xyz-abc-xyz"):
        found(state, "x")


def test_a_part_at_an_end_is_preferred_to_one_in_the_middle(state: StateDirectory) -> None:
    for number in range(30):
        put_run(state, f"r{number:02}z9")
    put_run(state, "z")
    put_run(state, "other-z")
    assert found(state, "-z") == "other-z"
    with pytest.raises(AmbiguousRunError, match=r"more than 5 runs: r00z9, .*, \.\.\."):
        found(state, "z9")


def test_the_words(state: StateDirectory) -> None:
    with pytest.raises(RunNotFoundError, match="there is no run yet"):
        found(state, LAST)
    put_run(state, "only")
    with pytest.raises(RunNotFoundError, match="no run has failed"):
        found(state, FAILED)
    assert found(state, LAST) == "only"
    assert found(state, LAST, waiting("queued")) == "queued"
    assert found(state, LAST, waiting("old", begun_ns=1)) == "only"


@pytest.mark.parametrize("text", ["", "nobody", "..", "../runs", "/", ".new-a", "@first", "%", "a\0"])
def test_nobody(state: StateDirectory, text: str) -> None:
    put_run(state, "a")
    with pytest.raises(RunNotFoundError, match=r"there is no run .* lists those in /"):
        found(state, text)


def test_without_an_index_the_directories_are_read(state: StateDirectory) -> None:
    put_run(state, "abc1")
    assert RunNames(state, None, []).find("bc") == "abc1"
    assert RunNames(state, None, []).find(LAST) == "abc1"
