"""The end of a real daemon: signals, budgets, policies, and its messages."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.daemon.drain import DrainEvent, DrainPhase, drain_budget_s, grace_left_s, next_phase
from tests.support.daemons import BOUND_S, Gate, UnixConnection, daemon
from tests.support.evidence import BUSY_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.children import Children


def test_a_drain_lets_runs_end_and_turns_new_ones_away(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s") as running:
        run_id = running.submit(gate.waits("exit 7"))["run_id"]
        running.until_output(run_id)
        events = running.events()
        running.signal()
        told = events.until("service.shutdown")
        assert (told["budget_s"], told["busy"], told["policy"]) == (60.0, [run_id], "drain")
        running.until_line("^draining 1 runs$")
        refused = running.request("POST", "/v1/runs", {"argv": ["true"]})
        assert (refused.status, int(refused.headers["retry-after"]) >= 1) == (503, True)
        assert running.report(run_id)["state"] == "running"  # reading goes on
        assert running.request("GET", "/v1/health").body["status"] == "draining"
        gate.open()
        assert events.until("run.settled", run_id)["report"]["exit_code"] == 7
        assert running.exit_code() == 0
        while events.next() is not None:
            pass  # the stream is ended, not cut
        events.close()
        running.until_line(f"^run {run_id} settled after [0-9]+ms$")
        assert running.lines[-1] == "bye"
        assert not any("force-abort" in line for line in running.lines)
    assert not (tmp_path / "s" / "holdfast.sock").exists()


def test_what_is_left_after_the_budget_is_cancelled_newest_first(tmp_path: Path, child: Children) -> None:
    with daemon(tmp_path / "s", "--drain", "300ms", "--log-format", "json") as running:
        ids = []
        for _ in range(3):
            ids.append(running.submit(child("exits_on_term", 0))["run_id"])
            running.until_output(ids[-1])
        running.signal()
        assert running.exit_code() == 0
        logged = [json.loads(line) for line in running.lines]
    messages = [line["message"] for line in logged]
    assert messages[-1] == "bye"
    assert "draining 3 runs" in messages
    (abort,) = (message for message in messages if message.startswith("force-abort after "))
    assert int(abort.removeprefix("force-abort after ").removesuffix("ms")) >= 300
    assert all({"at", "level", "message"} <= line.keys() for line in logged)
    with daemon(tmp_path / "s") as running:  # in history, for ever
        reports = [running.report(run_id) for run_id in ids]
    assert {(report["status"], report["cause"], report["exit_code"]) for report in reports} == {
        ("cancelled", "shutdown", 0)
    }
    verdicts = [report["verdict_at"] for report in reports]
    assert verdicts == sorted(verdicts, reverse=True)


def test_the_drain_fits_the_stop_limit(tmp_path: Path, child: Children) -> None:
    """Without the limit the drain would wait for a minute, which is the control: the budget that it announces."""
    for options, fits in ((["--stop-limit", "15s"], True), ([], False)):
        with daemon(tmp_path / f"s{fits}", "--log-format", "json", *options) as running:
            run_id = running.submit(child("exits_on_term", 0), grace_s=1)["run_id"]
            running.until_output(run_id)
            running.signal()
            running.until_line("draining 1 runs")
            (budget_s,) = (each["budget_s"] for line in running.lines if "budget_s" in (each := json.loads(line)))
            assert (0 < budget_s < 10) if fits else budget_s == 60
            if not fits:
                running.signal()
            assert running.exit_code() == 0
        with daemon(tmp_path / f"s{fits}") as running:
            report = running.report(run_id)
            assert (report["status"], report["cause"], report["exit_code"]) == ("cancelled", "shutdown", 0)


@pytest.mark.parametrize("is_ending", [False, True])
def test_ladders_that_do_not_fit_begin_at_once_and_get_a_shorter_grace(
    is_ending: bool, tmp_path: Path, child: Children
) -> None:
    """A run whose ladder fits keeps it, which is the control."""
    with daemon(tmp_path / "s", "--stop-limit", "2s") as running:
        fits = running.submit(child("ignores_term"), grace_s=0.2)["run_id"]
        run_id = running.submit(child("ignores_term"), grace_s=600)["run_id"]
        for each in (fits, run_id):
            running.until_output(each)
        if is_ending:
            running.cancel(run_id)
        running.signal()
        assert running.exit_code() == 0
        assert any("the stop limit is 2 s: their grace is shortened" in line for line in running.lines)
    with daemon(tmp_path / "s") as running:
        (shortened,) = (fact for fact in running.report(run_id)["evidence"] if fact["fact"] == "grace_shortened")
        assert 1 < shortened["grace_ns"] / 1e9 <= 1.6
        assert "grace_shortened" not in [fact["fact"] for fact in running.report(fits)["evidence"]]


@pytest.mark.parametrize(
    ("limit_s", "passed_s", "grace_s"), [(None, 3, None), (30, 0, 25), (30, 10, 15), (5, 0, 4), (5, 60, 0), (0, 0, 0)]
)
def test_the_grace_that_is_left(limit_s: float | None, passed_s: float, grace_s: float | None) -> None:
    assert grace_left_s(limit_s, passed_s) == grace_s


@pytest.mark.parametrize(
    ("limit_s", "ladders_s", "budget_s"),
    [(None, 17, 60), (30, 17, 8), (200, 17, 60), (10, 17, 0), (10, 3, 5), (0, 0, 0)],
)
def test_the_budget(limit_s: float | None, ladders_s: float, budget_s: float) -> None:
    assert drain_budget_s(60, limit_s, ladders_s) == budget_s


def test_the_second_signal_cancels_and_the_third_leaves_the_runs_to_their_guards(
    tmp_path: Path, child: Children
) -> None:
    with daemon(tmp_path / "s") as running:
        run_id = running.submit(child("ignores_term"), grace_s=1.5)["run_id"]
        running.until_output(run_id)
        running.signal()
        running.until_line("^draining 1 runs$")
        assert running.report(run_id)["status"] is None
        running.signal(signal.SIGINT)
        running.until_line("^force-abort after [0-9]+ms$")
        assert running.wait(run_id, "verdict")["cause"] == "shutdown"
        assert running.report(run_id)["state"] == "stopping"  # the ladder is climbed, not skipped
        running.signal()
        assert running.exit_code() == 0
        running.until_line("^leaving 1 run to their guards$")
        assert [line for line in running.lines if "draining" in line] == ["draining 1 runs"]  # one shutdown
        assert [line for line in running.lines if "force-abort" in line][1:] == []
    with daemon(tmp_path / "s") as running:  # the next daemon finds the run, live or over
        report = running.wait(run_id)
        assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "shutdown", "gone")


def test_signals_that_come_until_it_is_gone_do_not_make_a_failure_of_its_end(tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        exited = select.poll()
        exited.register(pidfd := os.pidfd_open(running.process.pid), select.POLLIN)
        signals = itertools.cycle((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        while not exited.poll(0):
            running.signal(next(signals))
        os.close(pidfd)
        assert (running.exit_code(), running.lines[-1]) == (0, "bye")


def test_cancel_as_policy_does_not_wait(tmp_path: Path, child: Children) -> None:
    with daemon(tmp_path / "s", "--on-shutdown", "cancel") as running:
        run_id = running.submit(child("exits_on_term", 3))["run_id"]
        running.until_output(run_id)
        running.signal()
        assert running.exit_code() == 0
    with daemon(tmp_path / "s") as running:
        report = running.report(run_id)
        assert (report["cause"], report["exit_code"]) == ("shutdown", 3)


def test_open_streams_and_long_polls_do_not_hold_the_daemon(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s", "--max-runs", "1", "--on-shutdown", "handoff") as running:
        run_id = running.submit(gate.waits())["run_id"]
        running.until_output(run_id)
        queued = running.submit(["true"])["run_id"]
        events = running.events()
        asked = []
        for path in (f"{run_id}/wait", f"{queued}/wait?until=settled", f"{run_id}/output?follow=true"):
            connection = UnixConnection(running.socket)
            connection.request("GET", f"/v1/runs/{path}")
            asked.append(connection)
        begin = time.monotonic()
        running.signal()
        assert running.exit_code() == 0
        took_s = time.monotonic() - begin
        for connection, status in zip(asked[:2], ("running", "queued"), strict=True):
            response = connection.getresponse()
            assert (response.status, json.loads(response.read())["state"]) == (200, status)
        for connection in asked:
            connection.close()
        events.close()
    assert took_s < BUSY_S, took_s
    with daemon(tmp_path / "s") as running:
        gate.open()
        assert running.wait(queued)["status"] == "succeeded"


def test_the_service_manager_is_told(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    gate = Gate(tmp_path / "gate")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(BOUND_S)

        def until(word: str) -> dict[str, str]:
            while True:
                lines = manager.recv(4096).decode().splitlines()
                told = dict(line.split("=", 1) for line in lines)
                if word in told:
                    return told

        env = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "100000"}
        with daemon(tmp_path / "s", "--drain", "20s", env=env) as running:
            assert until("READY")["STATUS"].startswith("listening on ")
            assert until("WATCHDOG") == until("WATCHDOG") == {"WATCHDOG": "1"}
            run_id = running.submit(gate.waits(), grace_s=2)["run_id"]
            running.until_output(run_id)
            running.signal(signal.SIGHUP)
            assert "MONOTONIC_USEC" in until("RELOADING")
            assert until("READY")["READY"] == "1"
            running.signal()
            told = until("STOPPING")
            assert (told["STOPPING"], told["STATUS"]) == ("1", "draining 1 runs")
            assert int(told["EXTEND_TIMEOUT_USEC"]) > 22_000_000  # the budget, the ladder, and some more
            gate.open()
            assert running.exit_code() == 0


def test_a_run_does_not_speak_for_the_daemon(tmp_path: Path) -> None:
    given = {
        "NOTIFY_SOCKET": "/nowhere",
        "CREDENTIALS_DIRECTORY": "/nowhere",
        "LISTEN_FDNAMES": "x",
        "LISTEN_PORT": "1",
    }
    names = ["sh", "-c", "env | sed -n 's/^\\(NOTIFY\\|CRED\\|LISTEN\\)/X_\\1/p' | sort"]
    with daemon(tmp_path / "s", env=given) as running:
        kept = running.submit(names, env_keep=["*"])["run_id"]
        assert running.until_output(kept, b"X_NOTIFY_SOCKET=/nowhere\n").count(b"X_") == 4  # the control
        plain = running.submit(names)["run_id"]
        assert running.until_output(plain, b"\n") == b"X_LISTEN_PORT=1\n"
        assert running.wait(plain)["output"]["stdout_bytes"] == len(b"X_LISTEN_PORT=1\n")


def test_a_reload_changes_what_can_change_and_a_mistake_changes_nothing(tmp_path: Path) -> None:
    state, config = tmp_path / "s", tmp_path / "config.toml"
    config.write_text("[limits]\nmax_runs = 1\n")
    gate = Gate(tmp_path / "gate")
    with daemon(state, "--config", str(config)) as running:
        running.until_output(running.submit(gate.waits())["run_id"])
        waits = running.submit(["true"])["run_id"]
        assert running.report(waits)["state"] == "queued"
        config.write_text("[limits]\nmax_runs = nonsense\n")
        running.signal(signal.SIGHUP)
        running.until_line("the old ones stay: .*config.toml:2")
        assert running.report(waits)["state"] == "queued"
        config.write_text("[limits]\nmax_runs = 2\n")
        running.signal(signal.SIGHUP)
        running.until_line("^settings changed: max_runs$")
        assert running.wait(waits)["status"] == "succeeded"
        gate.open()


@pytest.mark.parametrize(
    ("phase", "happened", "signals", "policy", "expected"),
    [
        (DrainPhase.SERVING, DrainEvent.SIGNAL, 1, "drain", DrainPhase.DRAINING),
        (DrainPhase.SERVING, DrainEvent.SIGNAL, 1, "cancel", DrainPhase.CANCELLING),
        (DrainPhase.SERVING, DrainEvent.SIGNAL, 1, "handoff", DrainPhase.LEAVING),
        (DrainPhase.DRAINING, DrainEvent.IDLE, 1, "drain", DrainPhase.DONE),
        (DrainPhase.DRAINING, DrainEvent.TIME_UP, 1, "drain", DrainPhase.CANCELLING),
        (DrainPhase.DRAINING, DrainEvent.SIGNAL, 2, "drain", DrainPhase.CANCELLING),
        (
            DrainPhase.CANCELLING,
            DrainEvent.SIGNAL,
            2,
            "drain",
            DrainPhase.CANCELLING,
        ),  # the budget was faster
        (DrainPhase.CANCELLING, DrainEvent.SIGNAL, 2, "cancel", DrainPhase.CANCELLING),
        (DrainPhase.CANCELLING, DrainEvent.SIGNAL, 3, "drain", DrainPhase.LEAVING),
        (DrainPhase.CANCELLING, DrainEvent.TIME_UP, 1, "drain", DrainPhase.LEAVING),
        (DrainPhase.CANCELLING, DrainEvent.IDLE, 2, "drain", DrainPhase.DONE),
        (DrainPhase.LEAVING, DrainEvent.SIGNAL, 9, "drain", DrainPhase.LEAVING),
        (DrainPhase.DONE, DrainEvent.SIGNAL, 9, "drain", DrainPhase.DONE),
    ],
)
def test_the_table(phase: DrainPhase, happened: DrainEvent, signals: int, policy: str, expected: DrainPhase) -> None:
    assert next_phase(phase, happened, signals=signals, policy=policy) is expected
