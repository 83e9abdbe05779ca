"""Chaos, as much as CI can take; and controls that show that its checks find violations."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from chaos import catalogue, frames, leftovers, oracle
from chaos.plan import Blow, Command, Plan, expected_lines, line_of
from chaos.running import Hit, Running

from holdfast.journal.codec import encode, encode_fact, journal_preamble
from holdfast.journal.facts import OUTPUT
from holdfast.state.directory import StateDirectory
from holdfast.state.index.index import Index

from .support.durable import USAGE, journal_bytes, put_run, run_to_end
from .support.shimmed import mutated_guard

if TYPE_CHECKING:
    from chaos.crew import Member

ROOT = Path(__file__).resolve().parent.parent
STARTED = ("started", {"pid": 4_000_001, "guard_pid": 4_000_000, "start_ticks": 1, "containment": "cgroup"})
EXITED = ("exited", {"wait_status": 7 << 8, **USAGE})
GONE = ("tree", {"how": "gone", "count": 0})
COUNTS = {"stdout_bytes": 0, "stderr_bytes": 0, "late_bytes": 0, "dropped_bytes": 0}
DRAINED = ("drained", {"how": "eof", **COUNTS})
LOST = ("lost", {"why": "guard"})
END = ("end", USAGE)
DEADLINE = ("deadline", {"limit_ns": 1})
GUARD_HIT = Hit("guard", "kill", "started", 0, None)
HELD_UP = Hit("both", "stop", "started", 0, None)


CONTROL = ("--runs", "120", "--seed", "7", "--containment", "subreaper", "--keep-going", "--bound", "15")


def chaos(*words: str, violated: bool = False, **environment: str) -> str:
    """The summary of a campaign, and its violations if there have to be any."""
    command = [sys.executable, "-m", "chaos", *words]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == int(violated), done.stdout + done.stderr
    return done.stdout


def counted(summary: str, row: str, what: str) -> int:
    """How many `what` there were in this row."""
    line = next(line for line in summary.splitlines() if line.startswith(row))
    found = re.search(rf"{what} (\d+)", line)
    return int(found[1]) if found else 0


@pytest.mark.alone
@pytest.mark.slow
def test_two_hundred_runs() -> None:
    summary = chaos("--runs", "200", "--seed", "1")
    for campaign in summary.split("seed, containment")[1:]:  # one in each containment
        assert counted(campaign, "violations", "") == 0
        assert counted(campaign, "processes left", "") == 0
        assert counted(campaign, "killed", "guard") > 5  # otherwise nothing was tested
        assert counted(campaign, "killed", "sentinel") > 0
        assert counted(campaign, "killed", "owner") > 0
        assert counted(campaign, "killed", "writer") > 0
        for whom in ("guard", "sentinel", "both at once", "writer", "owner"):
            assert counted(campaign, "stopped", whom) > 0, whom
        assert counted(campaign, "outcomes", "lost/guard") > 0


def without_watchdog(directory: Path) -> str:
    """A PYTHONPATH with which owners do not continue what is stopped."""
    off = "import holdfast.runs.guard_watch as watch\nwatch._continue = lambda live: None\n"
    (directory / "sitecustomize.py").write_text(off)
    return str(directory)


@pytest.mark.alone
@pytest.mark.slow
def test_control_without_the_sentinels_takeover_the_oracle_finds_violations(tmp_path: Path) -> None:
    never = "(lost.guard_pid < 0 ? takeover(run, signals, &lost) : 0)"
    guard = mutated_guard(tmp_path, "sentinel.c", "takeover(run, signals, &lost)", never)
    found = chaos(*CONTROL, violated=True, HOLDFAST_GUARD=str(guard), PYTHONPATH=without_watchdog(tmp_path))
    assert re.search("left behind|its tree is on record as unknown", found)


@pytest.mark.alone
@pytest.mark.slow
def test_control_without_the_owners_watchdog_both_stay_stopped(tmp_path: Path) -> None:
    found = chaos(*CONTROL, violated=True, PYTHONPATH=without_watchdog(tmp_path))
    assert "target='both', weapon='stop'" in found


class TestOracle:
    """Each test breaks one promise; with the promise kept the oracle finds nothing."""

    @pytest.fixture
    def state(self, tmp_path: Path) -> StateDirectory:
        return StateDirectory.open(str(tmp_path / "state"))

    def found(self, state: StateDirectory, *facts: Any, output: bytes = b"", **about: Any) -> list[str]:
        """The oracle's violations for a run with this journal, which exits with 7 by itself."""
        data = journal_preamble("one", "boot", 1, 1, b"{}")
        late_ns, same_time = int(about.pop("late_s", 0) * 1e9), about.pop("same_time", False)
        for number, fact in enumerate(facts):
            at_ns = 2 if same_time else number + 2 + (late_ns if number else 0)
            data += fact if isinstance(fact, bytes) else encode_fact(fact[0], fact[1], at_ns=at_ns)
            data += encode(OUTPUT, output, at_ns=number + 2, stream=1) if fact is STARTED and output else b""
        put_run(state, "one", data)
        command = Command("exits", ["true"], 7 << 8, lines=about.pop("lines", None))
        options = {"lifetime": "owner", "drain": 0.3, **about.pop("options", {})}
        blow = about.pop("blow", None)
        run = Running(Plan(1, "one", command, options, None, blow, None), cast("Member", None), state.path)
        run.journal.take()
        for name, value in about.items():
            setattr(run, name, value)
        return list(oracle.violations(run))

    def test_a_run_as_it_must_be(self, state: StateDirectory) -> None:
        assert self.found(state, STARTED, EXITED, GONE, DRAINED, END, said=["failed", "exit", "7", "None"]) == []

    def test_not_terminal(self, state: StateDirectory) -> None:
        assert self.found(state, STARTED, EXITED) == ["it is not terminal"]

    def test_lost_with_a_guard_that_was_well(self, state: StateDirectory) -> None:
        assert "lost/guard has no reason" in self.found(state, STARTED, GONE, LOST, END)

    def test_lost_with_its_guard(self, state: StateDirectory) -> None:
        assert self.found(state, STARTED, GONE, LOST, END, hits=[GUARD_HIT]) == []

    @pytest.mark.parametrize("target", ["guard", "sentinel", "both"])
    def test_lost_although_all_were_only_stopped(self, state: StateDirectory, target: str) -> None:
        hits = [Hit(target, "stop", "started", 0, None)]
        assert "lost/guard has no reason" in self.found(state, STARTED, GONE, LOST, END, hits=hits)

    def test_lost_with_its_sentinel_only_if_nothing_was_started(self, state: StateDirectory) -> None:
        hits = [Hit("sentinel", "kill", "nothing", 0, None)]
        assert self.found(state, GONE, LOST, END, hits=hits) == []
        os.rename(state.run_path("one"), state.run_path("other"))
        assert "lost/guard has no reason" in self.found(state, STARTED, GONE, LOST, END, hits=hits)

    @pytest.mark.parametrize(("target", "is_excused"), [("guard", False), ("both", True)])
    def test_an_unproved_end(self, state: StateDirectory, target: str, is_excused: bool) -> None:
        unknown, hits = ("tree", {"how": "unknown", "count": 0}), [GUARD_HIT._replace(target=target)]
        found = self.found(state, STARTED, unknown, LOST, END, hits=hits)
        assert found == ([] if is_excused else ["its tree is on record as unknown"])

    def test_more_said_than_recovery_can_know(self, state: StateDirectory) -> None:
        hits = [GUARD_HIT._replace(target="both")]
        found = self.found(state, STARTED, GONE, LOST, END, hits=hits, same_time=True)
        assert found == ["its tree is on record as gone, and nobody could know that"]

    def test_a_late_deadline_and_a_late_end(self, state: StateDirectory) -> None:
        facts, options = (STARTED, DEADLINE, EXITED, GONE, DRAINED, END), {"timeout": 1, "ladder": "TERM:500ms,KILL"}
        assert self.found(state, *facts, options=options, late_s=2.9) == []
        os.rename(state.run_path("one"), state.run_path("other"))
        found = self.found(state, *facts, options=options, late_s=9)
        assert [text.split(",")[0] for text in found] == [
            "its deadline was kept 9.0 s after its start",
            "it ended 9.0 s after its start",
        ]
        os.rename(state.run_path("one"), state.run_path("third"))
        held = Blow("both", "stop", "started", 0.0, 7.0)  # the driver itself held it up
        assert self.found(state, *facts, options=options, late_s=9, blow=held, hits=[HELD_UP]) == []

    def test_a_verdict_that_was_on_record(self, state: StateDirectory) -> None:
        hit = GUARD_HIT._replace(verdict="deadline(1,0)")
        assert self.found(state, STARTED, DEADLINE, GONE, LOST, END, hits=[hit], options={"timeout": 1}) == []
        os.rename(state.run_path("one"), state.run_path("other"))
        assert any("is not what decides" in text for text in self.found(state, STARTED, GONE, LOST, END, hits=[hit]))

    def test_a_deadline_nobody_set(self, state: StateDirectory) -> None:
        assert self.found(state, STARTED, DEADLINE, EXITED, GONE, END) == ["timed_out/deadline has no reason"]

    def test_another_exit_code(self, state: StateDirectory) -> None:
        other = ("exited", {"wait_status": 8 << 8, **USAGE})
        assert any("wait status 0x800" in text for text in self.found(state, STARTED, other, GONE, DRAINED, END))

    def test_an_owner_who_was_told_something_else(self, state: StateDirectory) -> None:
        told = self.found(state, STARTED, EXITED, GONE, DRAINED, END, said=["succeeded", "exit", "7", "None"])
        assert any("its owner was told" in text for text in told)

    def test_a_tree_that_nobody_proved(self, state: StateDirectory) -> None:
        unknown = ("tree", {"how": "unknown", "count": 0})
        assert self.found(state, STARTED, EXITED, unknown, DRAINED, END) == ["its tree is on record as unknown"]

    def test_something_after_the_end(self, state: StateDirectory) -> None:
        assert self.found(state, STARTED, EXITED, GONE, DRAINED, END, b"\0" * 5) == ["something follows its end"]

    def test_a_wrong_frame(self, state: StateDirectory) -> None:
        wrong = bytearray(encode_fact(*EXITED, at_ns=3))
        wrong[-1] ^= 1
        found = self.found(state, STARTED, bytes(wrong), GONE, DRAINED, END)
        assert any("damaged" in text for text in found)

    def test_bytes_that_were_seen_and_changed(self, state: StateDirectory) -> None:
        path = put_run(state, "seen")
        run = Running(
            Plan(1, "seen", Command("exits", [], 0), {"lifetime": "owner"}, None, None, None),
            cast("Member", None),
            state.path,
        )
        run.journal.take()
        assert not any("gone or changed" in text for text in oracle.violations(run))
        data = bytearray(Path(path, "journal").read_bytes())
        data[data.index(b"hello")] ^= 1
        Path(path, "journal").write_bytes(data)
        assert any("gone or changed" in text for text in oracle.violations(run))

    @pytest.mark.parametrize(
        ("output", "reported", "word"),
        [
            (expected_lines(500), 6, None),
            (expected_lines(500).replace(b"00000003", b"00000004"), 6, "differs"),
            (expected_lines(500), 60, "its output was read to the end"),
            (expected_lines(500), 1, "but it wrote"),
        ],
    )
    def test_lines(self, state: StateDirectory, tmp_path: Path, output: bytes, reported: int, word: str | None) -> None:
        (tmp_path / "lines").write_bytes(reported.to_bytes(8, sys.byteorder))
        if word is None:  # everything that was handed over
            output = expected_lines(sum(len(line_of(line)) for line in range(1, reported + 1)))
        facts = (STARTED, EXITED, GONE, DRAINED, END)
        found = self.found(state, *facts, output=output, lines=str(tmp_path / "lines"))
        assert found == [] if word is None else any(word in text for text in found)

    def test_a_socket_that_is_left(self, state: StateDirectory) -> None:
        Path(put_run(state, "left"), "guard.sock").touch()
        state.unmark_live("left")
        assert leftovers.in_directory(state.path) == ["socket of left"]


@pytest.mark.guard
def test_the_independent_reader_reads_what_a_guard_writes(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    run_id = run_to_end(state, ["/bin/sh", "-c", "echo one; exit 3"])
    journal = frames.read(os.path.join(state.run_path(run_id), "journal"))
    assert journal.names == ["header", "spec", "started", "exited", "tree", "drained", "end"]
    assert (oracle.outcome(journal), oracle.tree(journal)) == (("failed", "exit"), "gone")
    assert (bytes(journal.stdout), journal.wrong) == (b"one\n", None)


@pytest.mark.guard
def test_an_index_that_misses_a_run_or_says_something_else(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    run_id, other_id = run_to_end(state), run_to_end(state)
    assert catalogue.compare(state) == (2, [])
    with Index.open(state) as index:
        index.forget([run_id])
    assert [violation.what for violation in catalogue.compare(state)[1]] == ["the index does not have it"]
    failed: list[tuple[str, dict[str, Any]]] = [STARTED, EXITED, GONE, DRAINED, END]
    Path(state.run_path(other_id), "journal").write_bytes(journal_bytes(other_id, failed))
    assert any("the index says ('succeeded'" in violation.what for violation in catalogue.compare(state)[1])


def test_a_process_that_is_left_is_found() -> None:
    with subprocess.Popen(["/bin/sleep", "60"], env={"HOLDFAST_RUN_ID": "one"}) as process:
        deadline = time.monotonic() + 60
        while leftovers.token_of(process.pid) != "one":  # until it is more than a copy of us
            assert time.monotonic() < deadline
        assert leftovers.token_of(process.pid) == "one"
        process.send_signal(signal.SIGKILL)
