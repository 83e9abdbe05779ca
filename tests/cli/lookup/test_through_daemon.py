"""Every command, with a daemon that owns the state directory: the same truth, and queued runs as well."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.cli.commands import reap
from holdfast.cli.following import queued_run
from holdfast.cli.following.waited_runs import WaitedRuns
from holdfast.cli.lookup import daemon_request, queued_runs
from holdfast.cli.lookup.daemon_request import DaemonRequest
from holdfast.state.directory import StateDirectory

from ...support.daemons import Daemon, Gate, daemon
from ...support.processes import wait_exited
from ..console import holdfast, read_until, start
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.client.calls import ClientCall


OPTIONS = ("--max-runs", "1", "--on-shutdown", "cancel")


class Busy:
    """A daemon with one run that waits at a gate, and one run that is queued behind it."""

    def __init__(self, running: Daemon, gate: Gate) -> None:
        self.daemon = running
        self.gate = gate
        self.first = self.submit(*gate.waits("exit 0"), name="first")
        running.until_output(self.first)
        self.second = self.submit("sh", "-c", "echo second; exit 3", name="second", session="s", labels={"k": "v"})

    def submit(self, *argv: str, **fields: Any) -> str:
        run_id: str = self.daemon.submit(argv, **fields)["run_id"]
        return run_id


@pytest.fixture
def running(state_directory: Path) -> Iterator[Daemon]:
    with daemon(state_directory, *OPTIONS) as found:
        yield found


@pytest.fixture
def busy(running: Daemon, tmp_path: Path) -> Busy:
    return Busy(running, Gate(tmp_path / "gate"))


def states(*words: str) -> dict[str, str]:
    return {report["run_id"]: report["state"] for report in as_json(holdfast("ps", "--json", *words))}


def test_ps_lists_what_is_queued(busy: Busy) -> None:
    assert states() == {busy.second: "queued", busy.first: "running"}
    assert list(states("--all")) == [busy.second, busy.first], "newest first"
    assert states("--session", "s") == states("--label", "k=v") == states("--name", "second") == {busy.second: "queued"}
    assert states("--status", "failed") == {}
    assert f"{busy.second}  queued " in holdfast("ps").stdout.decode()
    busy.gate.open()
    busy.daemon.wait(busy.second)
    assert states() == {}
    assert states("--all") == {busy.second: "settled", busy.first: "settled"}


def test_show_and_why_of_a_queued_run(busy: Busy) -> None:
    report = as_json(holdfast("show", "--json", busy.second))
    assert (report["state"], report["status"], report["name"], report["guard"]) == ("queued", None, "second", "none")
    assert report["queued_at"]
    text = holdfast("show", busy.second[:-1]).stdout.decode()
    assert "state        queued: no verdict yet\n" in text
    assert "queued since " in holdfast("why", busy.second).stdout.decode()
    told = as_json(holdfast("why", "--json", busy.second))
    assert (told["state"], told["timeline"]) == ("queued", [])


def test_the_beginning_of_an_id(busy: Busy) -> None:
    common = next(n for n in range(20, 0, -1) if busy.first[:n] == busy.second[:n])
    assert "is a part of the ids of 2 runs" in one_line(holdfast("show", busy.second[:common]))
    for text in (busy.second[: common + 1], busy.second[-6:], "second", "@last"):
        assert as_json(holdfast("show", "--json", text))["run_id"] == busy.second


def test_wait_for_a_queued_run(busy: Busy) -> None:
    with start("wait", busy.second, busy.first) as waiting, start("wait", "--session", "s", "--json") as matching:
        assert waiting.stdout is not None
        busy.gate.open()
        assert waiting.wait(60) == 3
        lines = waiting.stdout.read().decode().splitlines()
        told = dict(line.split()[:2] for line in lines)
        assert told == {busy.first: "succeeded/exit", busy.second: "failed/exit"}
        assert matching.wait(60) == 3


def test_wait_no_longer_than_this(busy: Busy) -> None:
    assert "1 of 1 not there yet" in one_line(holdfast("wait", "--timeout", "50ms", busy.second))
    done = holdfast("wait", "--timeout", "50ms", "--json", busy.second)
    assert [(report["run_id"], report["state"]) for report in as_json(done)] == [(busy.second, "queued")]


def test_logs_follow_a_queued_run_from_its_first_byte(busy: Busy) -> None:
    assert "the run is still queued" in one_line(holdfast("logs", busy.second))
    with start("logs", "-f", busy.second) as following:
        assert following.stdout is not None
        busy.gate.open()
        assert read_until(following.stdout.fileno(), b"second\n") == b"second\n"
        assert following.wait(60) == 0


def test_whoever_follows_a_queued_run_is_told_when_it_begins(
    busy: Busy, state_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = threading.Event()

    class Told(DaemonRequest):
        def __init__(self, state: StateDirectory, call: ClientCall) -> None:
            super().__init__(state, call)
            sent.set()

    monkeypatch.setattr(queued_run, "DaemonRequest", Told)
    state = StateDirectory.open(str(state_directory))
    waiting = threading.Thread(target=queued_run.wait_begun, args=(state, busy.second))
    waiting.start()
    assert sent.wait(60)
    assert not state.has(busy.second)
    busy.gate.open()
    waiting.join(60)
    assert not waiting.is_alive()
    assert state.has(busy.second)


def test_reap_passes_its_grace_on_to_the_daemon(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ClientCall] = []

    def ask(state: StateDirectory, call: ClientCall, **bounds: float) -> Any:
        asked.append(call)
        return daemon_request.ask(state, call, **bounds)

    monkeypatch.setattr(queued_runs, "ask", ask)
    assert reap.COMMAND.run(["--session", "s", "--grace", "1.5s"]) == 0
    (closing,) = [call for call in asked if call.method == "DELETE"]
    assert closing.params["grace_s"] == 1.5
    assert busy.daemon.wait(busy.second)["cause"] == "session"
    busy.gate.open()


def test_cancel_takes_it_out_of_the_queue(busy: Busy) -> None:
    done = holdfast("cancel", "--reason", "not now", busy.second)
    assert (done.returncode, done.stdout.decode()) == (0, f"{busy.second}  gone  cancelled/user\n")
    report = as_json(holdfast("show", "--json", busy.second))
    assert (report["state"], report["status"], report["cause"]) == ("settled", "cancelled", "user")
    assert "not now" in report["reason"]
    assert holdfast("wait", busy.second).returncode == 143
    busy.gate.open()
    assert busy.daemon.wait(busy.first)["status"] == "succeeded"
    assert busy.daemon.report(busy.second)["started_at"] is None, "it never began"


def test_cancel_of_queued_and_live_runs_at_once(busy: Busy) -> None:
    third = busy.submit("true", labels={"k": "v"})
    done = holdfast("cancel", "--label", "k=v", "--json")
    assert done.returncode == 0
    assert {run["run_id"]: run["cause"] for run in as_json(done)} == {busy.second: "user", third: "user"}
    fourth = busy.submit("true")
    done = holdfast("cancel", fourth, busy.first, "--now")
    assert done.returncode == 0
    assert {line.split()[0] for line in done.stdout.decode().splitlines()} == {fourth, busy.first}
    assert busy.daemon.wait(busy.first)["cause"] == "user"


def test_cancel_without_waiting(busy: Busy) -> None:
    done = holdfast("cancel", "--no-wait", busy.second)
    assert (done.returncode, done.stdout.decode()) == (0, f"{busy.second}  asked\n")
    assert busy.daemon.wait(busy.second)["cause"] == "user"


def test_reap_ends_the_queued_runs_of_a_session(busy: Busy) -> None:
    done = holdfast("reap", "--session", "s")
    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        f"{busy.second}  gone  cancelled/session",
        "session s is closed: 1 confirmed gone, 0 with survivors, 0 unknown",
    ]
    assert busy.daemon.report(busy.second)["cause"] == "session"


@pytest.mark.parametrize("words", [["extend", "ID", "5s"], ["signal", "ID", "USR1"], ["attach", "ID"]])
def test_what_needs_a_run_that_has_begun(busy: Busy, words: list[str]) -> None:
    line = one_line(holdfast(*[busy.second if word == "ID" else word for word in words]))
    assert f"the run is still queued (run {busy.second}): it begins when there is room" in line


def test_a_live_run_of_the_daemon_is_worked_on_directly(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = running.submit(gate.waits(), timeout_s=600)["run_id"]
    running.until_output(run_id)
    assert holdfast("extend", run_id, "5s").returncode == 0
    assert holdfast("cancel", "--now", run_id).returncode == 0
    report = running.wait(run_id)
    assert (report["status"], report["cause"]) == ("cancelled", "user")
    direct = as_json(holdfast("show", "--json", run_id))
    assert {name: direct[name] for name in report if name != "problem"} == {
        name: value for name, value in report.items() if name != "problem"
    }, "one report, from every command"


def test_a_stopped_daemon_fails_nothing(busy: Busy) -> None:
    """A stopped daemon still has its lock and its socket, and the kernel connects: only a bound on the answer helps."""
    busy.daemon.request("GET", "/v1/runs")  # it has made the index: it is not stopped in the middle of that
    busy.daemon.signal(signal.SIGSTOP)
    try:
        done = holdfast("ps", "--json")
        assert [report["run_id"] for report in as_json(done)] == [busy.first]
        pid = busy.daemon.process.pid
        line = f"holdfast: queued runs are not known: the daemon (process {pid}) does not answer\n"
        assert done.stderr.decode() == line
        done = holdfast("show", "--json", busy.first)
        assert (as_json(done)["state"], done.stderr) == ("running", b""), "what has a directory is not asked for"
        assert holdfast("cancel", "--now", busy.first).returncode == 0
    finally:
        busy.daemon.signal(signal.SIGCONT)
    assert busy.daemon.wait(busy.first)["cause"] == "user"
    assert busy.daemon.wait(busy.second)["exit_code"] == 3


def test_a_daemon_that_was_killed_leaves_its_queue_and_a_socket_that_disturbs_nobody(busy: Busy) -> None:
    busy.daemon.kill()
    done = holdfast("ps", "--json")
    assert [report["run_id"] for report in as_json(done)] == [busy.second, busy.first]
    assert done.stderr == b"holdfast: the daemon is not running: 1 queued run waits for it (holdfast serve)\n"
    assert as_json(holdfast("show", "--json", busy.second))["state"] == "queued"
    busy.gate.open()
    assert holdfast("wait", busy.first).returncode == 0
    evidence = as_json(holdfast("show", "--json", busy.first))["evidence"]
    assert wait_exited(next(fact["guard_pid"] for fact in evidence if fact["fact"] == "started"))


def test_wait_outlives_a_restart_of_the_daemon(busy: Busy, state_directory: Path) -> None:
    waiting = WaitedRuns(StateDirectory.open(str(state_directory)), settled=True, deadline=None, quiet=True)
    try:
        waiting.add([busy.second])  # the request is on its way to the first daemon
        busy.daemon.kill()
        with daemon(state_directory, *OPTIONS) as again:
            again.until_output(busy.first)
            busy.gate.open()
            waiting.run()
            assert waiting.tell(as_json=False) == 3
            assert again.wait(busy.second)["exit_code"] == 3
    finally:
        waiting.close()


def test_nothing_of_the_daemon_is_imported_without_one(state_directory: Path) -> None:
    """The direct path imports nothing for the daemon, so it stays fast."""
    run_id = holdfast("run", "--detach", "true").stdout.decode().strip()
    holdfast("wait", run_id)
    assert state_directory.exists()
    for words in (["ps"], ["show", run_id], ["why", run_id], ["logs", run_id], ["wait", run_id], ["cancel", run_id]):
        program = (
            "import sys; from holdfast.cli.main import main; main(sys.argv[1:]); "
            "sys.stderr.write(' '.join(name for name in sys.modules if name in "
            "('urllib.parse', 'http.client', 'httpx2', 'holdfast.cli.lookup.daemon_request', "
            "'holdfast.cli.lookup.queued_runs')"
            " or name.startswith('holdfast.client')))"
        )
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
        assert done.stderr == "", words
