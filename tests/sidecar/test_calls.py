"""Every method of the sidecar, with real runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ..support.processes import is_gone
from ..support.readiness import names_in
from ..support.sidecars import Host, RpcError, base64, check, line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..support.children import Children

PLENTY = {"credit_bytes": 1 << 30}
EVERY_BYTE = bytes(range(256))


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


def refused(host: Host, method: str, **params: object) -> int:
    with pytest.raises(RpcError) as error:
        host.call(method, **params)
    return error.value.code


def ready(host: Host, run_id: str) -> dict[str, int]:
    host.until_output(run_id, b"ready")
    while not host.output(run_id).endswith(b"\n"):
        host.hear()
    return names_in(host.output(run_id))


def test_the_handshake() -> None:
    with Host(initialize=False) as host:
        assert refused(host, "list") == -32002
        assert refused(host, "initialize", protocols=[7, 8]) == -32003
        assert refused(host, "list") == -32002
        hello = host.call("initialize", protocols=[0, 1, 2], client={"name": "n", "version": "1"})
        assert (hello["protocol"], hello["pid"]) == (1, host.process.pid)
        assert host.call("list") == {"runs": []}


def test_a_run_from_start_to_end(host: Host) -> None:
    run_id = host.call("start", argv=["sh", "-c", "echo out; echo err >&2; exit 3"], output=PLENTY, name="one")[
        "run_id"
    ]
    outcome = host.call("wait", run_id=run_id)
    assert (outcome["status"], outcome["cause"], outcome["exit_code"]) == ("failed", "exit", 3)
    report = host.call("settled", run_id=run_id)
    assert (report["state"], report["name"], report["tree"]) == ("settled", "one", "gone")
    host.until_end(run_id)
    assert (host.output(run_id, "stdout"), host.output(run_id, "stderr")) == (b"out\n", b"err\n")
    assert host.call("report", run_id=run_id) == report
    assert host.call("list") == {"runs": []}
    (listed,) = host.call("list", settled=True)["runs"]
    assert listed == {name: value for name, value in report.items() if name != "evidence"}
    host.call("release", run_id=run_id)
    assert refused(host, "wait", run_id=run_id) == -32001


def test_bytes_survive_both_ways(host: Host) -> None:
    run_id = host.call("start", argv=["cat"], stdin="pipe", output=PLENTY)["run_id"]
    for _ in range(20):
        assert host.call("input", run_id=run_id, data=base64(EVERY_BYTE * 100)) == {"accepted": True}
    host.call("input", run_id=run_id, eof=True)
    assert host.until_end(run_id) == EVERY_BYTE * 2000
    assert host.call("wait", run_id=run_id)["status"] == "succeeded"
    assert host.call("input", run_id=run_id, data=base64(b"x")) == {"accepted": False}
    assert refused(host, "input", run_id=run_id, data="not base64!") == -32602


def test_arguments_that_are_no_text_survive(host: Host) -> None:
    argument = b"a\xff\xfe b".decode("utf-8", "surrogateescape")
    run_id = host.call("start", argv=["printf", "%s", argument], output=PLENTY)["run_id"]
    assert host.until_end(run_id) == b"a\xff\xfe b"


def test_the_outcome_as_an_answer(host: Host, child: Children) -> None:
    """A command that ran is a result; cancelled, never started and lost are errors with the same fields."""
    late = host.call("start", argv=child("exits_on_term", 0), timeout_s=1, output="discard")["run_id"]
    outcome = host.call("wait", run_id=late)
    assert (outcome["status"], outcome["cause"]) == ("timed_out", "deadline")
    assert host.call("settled", run_id=late)["exit_code"] == 0  # exited with 0 in time, which changes nothing
    assert host.call("wait", run_id=late)["status"] == "timed_out"

    cancelled = host.call("start", argv=["sleep", "1000"])["run_id"]
    waiting = host.send("wait", run_id=cancelled)
    host.call("cancel", run_id=cancelled, reason="not needed")
    with pytest.raises(RpcError) as error:
        host.answer(waiting)
    assert (error.value.code, error.value.data["status"], error.value.data["cause"]) == (-32800, "cancelled", "user")
    assert host.call("settled", run_id=cancelled)["status"] == "cancelled"  # a report is a result

    superseded = host.call("start", argv=["sleep", "1000"])["run_id"]
    host.call("cancel", run_id=superseded, cause="superseded")
    assert refused(host, "wait", run_id=superseded) == -32802

    missing = host.call("start", argv=["/nonexistent/program"])["run_id"]
    with pytest.raises(RpcError) as error:
        host.call("wait", run_id=missing)
    assert (error.value.code, error.value.data["cause"]) == (-32603, "spawn")

    lost = host.call("start", argv=child("ignores_term"), output=PLENTY)["run_id"]
    ready(host, lost)
    (evidence,) = [fact for fact in host.call("report", run_id=lost)["evidence"] if fact["fact"] == "started"]
    os.kill(evidence["guard_pid"], 9)
    with pytest.raises(RpcError) as error:
        host.call("wait", run_id=lost)
    assert (error.value.code, error.value.data["status"], error.value.data["cause"]) == (-32603, "lost", "guard")


def test_a_call_may_follow_a_start_at_once(tmp_path: Path) -> None:
    """This includes the first kept run, for which the state directory has to be opened."""
    with Host("--state-dir", str(tmp_path)) as host:
        for number in range(10):
            named = {"run_id": f"r{number}"}
            start = {**named, "argv": ["sleep", "1000"], "keep": number % 2 == 0}
            started, cancelled, waited = host.send_together(("start", start), ("cancel", named), ("wait", named))
            assert host.answer(started) == {"run_id": f"r{number}"}
            assert host.answer(cancelled) == {}
            with pytest.raises(RpcError) as error:
                host.answer(waited)
            assert error.value.code == -32800
        assert refused(host, "start", argv=["true"], run_id="r3") == -32000


def test_waiting_for_one_run_does_not_hold_up_another(host: Host) -> None:
    slow = host.call("start", argv=["sleep", "1000"])["run_id"]
    waiting = host.send("wait", run_id=slow)
    quick = host.call("start", argv=["true"])["run_id"]
    assert host.call("wait", run_id=quick)["status"] == "succeeded"
    assert waiting not in host.answers
    host.call("cancel", run_id=slow, now=True)
    with pytest.raises(RpcError):
        host.answer(waiting)


def test_signals_deadlines_terminals(host: Host, child: Children) -> None:
    run_id = host.call("start", argv=child("reports_signals"), output=PLENTY, timeout_s=50, max_timeout_s=100)["run_id"]
    ready(host, run_id)
    host.call("signal", run_id=run_id, signal="SIGUSR1")
    host.until_output(run_id, b"got 10\n")
    host.call("extend", run_id=run_id, seconds=10)
    assert refused(host, "extend", run_id=run_id, seconds=1000) == -32010
    assert refused(host, "signal", run_id=run_id, signal="NONSENSE") == -32602
    assert refused(host, "resize", run_id=run_id, rows=3, columns=4) == -32010
    host.call("cancel", run_id=run_id, now=True)

    shell = ["sh", "-c", "stty size; read line; stty size"]
    size = {"rows": 30, "columns": 90}
    terminal = host.call("start", argv=shell, pty=True, output=PLENTY, window_size=size)["run_id"]
    host.until_output(terminal, b"30 90")
    host.call("resize", run_id=terminal, rows=20, columns=70)
    host.call("input", run_id=terminal, data=base64(b"\n"))
    host.until_output(terminal, b"20 70")
    assert host.call("wait", run_id=terminal)["status"] == "succeeded"


def test_the_environment_is_what_was_asked_for(host: Host) -> None:
    shown = host.call("start", argv=["env"], env={"A": "1"}, env_drop=["*"], output=PLENTY)["run_id"]
    lines = host.until_end(shown).splitlines()
    assert b"A=1" in lines
    assert not [text for text in lines if not text.startswith((b"A=", b"HOLDFAST_"))]


def test_the_grandchildren_go_too(host: Host, child: Children) -> None:
    run_id = host.call("start", argv=child("daemonises"), output=PLENTY, stragglers="wait")["run_id"]
    pids = ready(host, run_id)
    host.call("cancel", run_id=run_id, now=True)
    assert host.call("settled", run_id=run_id)["tree"] == "gone"
    assert all(is_gone(pid) for name, pid in pids.items() if name.endswith("pid"))


def test_a_batch_is_answered_together(host: Host) -> None:
    started = {"argv": ["sh", "-c", "exit 4"], "run_id": "b1"}
    calls = [
        {"jsonrpc": "2.0", "id": "s", "method": "start", "params": started},
        {"jsonrpc": "2.0", "method": "list"},
        {"jsonrpc": "2.0", "id": "w", "method": "wait", "params": {"run_id": "b1"}},
        {"jsonrpc": "2.0", "id": "u", "method": "unknown"},
        7,
    ]
    host.write(line(calls))
    answers = host.hear()
    assert [answer["id"] for answer in answers] == ["s", "w", "u", None]
    assert answers[1]["result"]["exit_code"] == 4
    assert [answer["error"]["code"] for answer in answers[2:]] == [-32601, -32600]
    host.write(line([{"jsonrpc": "2.0", "method": "list"}]))  # nothing but notifications: no answer at all
    assert host.call("list") == {"runs": []}
    assert host.is_silent()


def test_sessions_and_runs_that_are_kept(tmp_path: Path) -> None:
    with Host("--state-dir", str(tmp_path)) as host:
        runs = [host.call("start", argv=["sleep", "1000"], session="s")["run_id"] for _ in range(3)]
        other = host.call("start", argv=["sleep", "1000"], keep=True)["run_id"]
        closed = host.call("session.close", session="s", reason="done")
        assert {run["run_id"]: run["how"] for run in closed["runs"]} == dict.fromkeys(runs, "confirmed")
        with pytest.raises(RpcError) as error:
            host.call("wait", run_id=runs[0])
        assert (error.value.code, error.value.data["cause"]) == (-32802, "session")
        with pytest.raises(RpcError) as error:
            host.call("start", argv=["true"], session="s")
        assert (error.value.code, error.value.data["error"]) == (-32000, "SessionClosedError")
        assert [run["run_id"] for run in host.call("list")["runs"]] == [other]
    with Host("--state-dir", str(tmp_path)) as host:  # the run ended with its host, and is still on record
        assert host.call("adopt", run_id=other)["state"] == "settled"
        with pytest.raises(RpcError) as error:
            host.call("wait", run_id=other)
        assert error.value.data["cause"] == "owner"
        assert refused(host, "adopt", run_id="nobody") == -32001


def test_a_detached_run_goes_on_and_is_adopted(tmp_path: Path, child: Children) -> None:
    with Host("--state-dir", str(tmp_path)) as host:
        run_id = host.call("start", argv=child("exits_on_term", 5), lifetime="detached", output=PLENTY)["run_id"]
        pid = ready(host, run_id)["pid"]
    assert not is_gone(pid)
    with Host("--state-dir", str(tmp_path)) as host:
        assert host.call("adopt", run_id=run_id)["state"] == "running"
        host.call("output", run_id=run_id, **PLENTY)
        host.until_output(run_id, b"ready")
        host.call("cancel", run_id=run_id)
        assert host.call("settled", run_id=run_id)["exit_code"] == 5


def test_the_schema_can_be_had(host: Host) -> None:
    import subprocess
    import sys

    from holdfast.sidecar.schema import schema

    asked = [sys.executable, "-m", "holdfast.cli.main", "sidecar", "--schema"]
    import json

    assert json.loads(subprocess.run(asked, capture_output=True, check=True).stdout) == schema()
    check(schema()["methods"]["list"]["result"], host.call("list"))
