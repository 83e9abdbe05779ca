"""Hosts that write nonsense, read slowly or not at all, close a stream, or die."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from ..support.processes import is_gone, wait_exited
from ..support.readiness import names_in, read_ready
from ..support.sidecars import BOUND_S, COMMAND, Host, RpcError, line

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.children import Children

MIB = 1 << 20
PLENTY = {"credit_bytes": 1 << 40}


def ready_pid(host: Host, run_id: str) -> int:
    host.until_output(run_id, b"\n")
    return names_in(host.output(run_id))["pid"]


# Nonsense.


def nonsense(number: int, chance: random.Random) -> bytes:
    request = line({"jsonrpc": "2.0", "id": number, "method": "wait", "params": {"run_id": "x"}})
    kinds = (
        lambda: request[: chance.randint(1, len(request) - 2)] + b"\n",
        lambda: chance.randbytes(chance.randint(1, 200)).replace(b"\n", b".").replace(b"\r", b".") + b"\n",
        lambda: b'{"jsonrpc":"2.0","id":[],"method":"list"}\n',
        lambda: b"[]\n",
        lambda: b"[" * chance.randint(1, 5000) + b"\n",
        lambda: b'"\xed\xa0\x80"\n',
    )
    return kinds[number % len(kinds)]()


def test_ten_thousand_malformed_lines() -> None:
    """Each line is answered with an error, nothing grows, and the conversation goes on."""
    with Host() as host:
        run_id = host.call("start", argv=["sleep", "1000"])["run_id"]
        before = host.memory_kib()
        chance = random.Random(4)
        lines = b"".join(nonsense(number, chance) for number in range(10_000))
        writer = threading.Thread(target=host.write, args=(lines,))
        writer.start()
        for _ in range(10_000):
            answer = json.loads(host.next_line())
            assert (answer["id"], answer["error"]["code"]) in ((None, -32700), (None, -32600)), answer
        writer.join()
        assert host.is_silent()
        assert host.memory_kib() - before < 16 * 1024
        assert [run["run_id"] for run in host.call("list")["runs"]] == [run_id]


def test_lines_that_are_too_long() -> None:
    with Host() as host:
        before = host.memory_kib()
        for _ in range(4):
            host.write(b'{"x":"' + b"y" * (12 * MIB) + b'"}\n')
            assert host.hear()["error"]["code"] == -32600
        assert host.memory_kib() - before < 40 * 1024
        assert host.call("list") == {"runs": []}
        long = "z" * (120 << 10)  # a long one that is allowed
        run_id = host.call("start", argv=["printf", "%s", long], output=PLENTY)["run_id"]
        assert host.until_end(run_id) == long.encode()


def test_unknown_methods_and_notifications() -> None:
    with Host() as host:
        for method in ("", "nothing", "__init__", "start ", "shut\udcffdown"):
            with pytest.raises(RpcError, match="-32601"):
                host.call(method)
        host.notify("nothing")
        host.notify("wait", run_id="nobody")
        host.notify("credit", wrong=True)
        assert host.call("list") == {"runs": []}
        assert host.is_silent()


def test_half_a_line_at_the_end_is_not_done(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with Host() as host:
        host.write(line({"jsonrpc": "2.0", "id": 9, "method": "start", "params": {"argv": ["touch", str(mark)]}})[:-1])
        host.close_input()
        assert host.next_line() == b""
        assert host.process.wait(BOUND_S) == 0
        assert host.process.stderr is not None
        assert b"middle of a line" in host.process.stderr.read()
    assert not mark.exists()


# Reading slowly.


def test_output_comes_as_far_as_the_credit_goes(child: Children) -> None:
    with Host() as host:
        run_id = host.call("start", argv=child("writes_bytes", 3 * MIB), output={"credit_bytes": 1000})["run_id"]
        while len(host.output(run_id)) < 1000:
            host.hear()
        host.call("list")
        assert len(host.output(run_id)) == 1000
        assert host.call("wait", run_id=run_id)["status"] == "succeeded"  # the window takes the rest
        host.call("settled", run_id=run_id)
        host.notify("credit", run_id=run_id, bytes=500)
        while len(host.output(run_id)) < 1500:
            host.hear()
        host.call("credit", run_id=run_id, bytes=MIB)
        host.call("credit", run_id=run_id, bytes=2 * MIB)
        host.until_end(run_id)
        assert len(host.output(run_id, "stdout")) == 3 * MIB
        assert host.output(run_id, "stderr") == b"wrote %d\n" % (3 * MIB)


def test_the_end_of_the_output_costs_no_credit() -> None:
    with Host() as host:
        run_id = host.call("start", argv=["printf", "four"], output={"credit_bytes": 4})["run_id"]
        assert host.until_end(run_id) == b"four"
        silent = host.call("start", argv=["true"], output={"credit_bytes": 0})["run_id"]
        assert host.until_end(silent) == b""


@pytest.mark.alone
def test_without_credit_nothing_grows_and_the_deadline_holds(child: Children) -> None:
    """Half a gigabyte waits for a host that gives no credit: the command waits, and ends on time."""
    with Host() as host:
        before = host.memory_kib()
        options = {"timeout_s": 1.0, "grace_s": 0.2, "output": {"credit_bytes": 10}}
        runs = [host.call("start", argv=child("writes_bytes", 500 * MIB), **options)["run_id"] for _ in range(4)]
        for run_id in runs:
            assert host.call("wait", run_id=run_id)["cause"] == "deadline"
            assert host.call("settled", run_id=run_id)["tree"] == "gone"
        assert host.memory_kib() - before < 16 * 1024
        assert all(len(host.output(run_id)) == 10 for run_id in runs)
        for run_id in runs:
            host.call("release", run_id=run_id)
            host.until_end(run_id)
        assert host.call("list", settled=True) == {"runs": []}


def test_control_with_credit_the_same_command_delivers_it_all(child: Children) -> None:
    """Only the missing credit holds it back: with credit 100 MiB go through, and the sidecar does not grow either."""
    with Host() as host:
        before = host.memory_kib()
        options = {"timeout_s": 60.0, "output": {"credit_bytes": 1 << 40}}
        run_id = host.call("start", argv=child("writes_bytes", 100 * MIB), **options)["run_id"]
        taken = 0
        while taken < 100 * MIB:
            taken += sum(len(it["params"]["data"]) * 3 // 4 for it in [host.hear()] if it.get("method") == "output")
            host.notified.clear()
        assert host.call("wait", run_id=run_id)["status"] == "succeeded"
        assert host.memory_kib() - before < 16 * 1024


def test_a_host_that_does_not_read_stops_no_deadline(tmp_path: Path) -> None:
    """Endless credit, and the host does not read: the pipe is full, and the run ends on time all the same."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Host() as host:
        flood = ["sh", "-c", f"echo ready pid=$$ >{fifo}; exec yes"]
        with_output = host.send("start", argv=flood, timeout_s=2, grace_s=0.2, output=PLENTY)
        with open(fifo, "rb", buffering=0) as announced:
            pid = read_ready(announced.fileno())["pid"]
        for _ in range(200):
            host.send("list")
        assert wait_exited(pid)  # nothing was read until now
        waiting = host.send("wait", run_id=host.answer(with_output)["run_id"])
        assert host.answer(waiting)["cause"] == "deadline"
        assert host.memory_kib() < 120 * 1024


def test_ten_thousand_calls_may_wait_and_the_way_out_is_open() -> None:
    with Host() as host:
        run_id = host.call("start", argv=["sleep", "1000"])["run_id"]
        texts = [
            {"jsonrpc": "2.0", "id": number, "method": "wait", "params": {"run_id": run_id}} for number in range(10_010)
        ]
        host.write(b"".join(map(line, texts)))
        refused = [host.hear() for _ in range(10)]
        assert [(it["id"], it["error"]["code"]) for it in refused] == [(10_000 + it, -32004) for it in range(10)]
        host.write(line({"jsonrpc": "2.0", "id": "out", "method": "cancel", "params": {"run_id": run_id, "now": True}}))
        answers = [host.hear() for _ in range(10_001)]
        assert {it["error"]["code"] for it in answers if it["id"] != "out"} == {-32800}


def test_output_that_is_discarded_holds_nothing_up(child: Children) -> None:
    with Host() as host:
        run_id = host.call("start", argv=child("writes_bytes", 64 * MIB), output="discard")["run_id"]
        assert host.call("settled", run_id=run_id)["output"]["stdout_bytes"] == 64 * MIB
        with pytest.raises(RpcError, match="-32010"):
            host.call("output", run_id=run_id)


def test_unread_output_of_many_runs_is_held_for_the_last_ones() -> None:
    from holdfast.sidecar.runs import MOST_UNREAD

    with Host() as host:
        runs = [host.call("start", argv=["echo", str(number)])["run_id"] for number in range(MOST_UNREAD + 6)]
        for run_id in runs:
            host.call("settled", run_id=run_id)
        with pytest.raises(RpcError, match="-32010"):
            host.call("output", run_id=runs[0], credit_bytes=100)
        host.call("output", run_id=runs[-1], credit_bytes=100)
        assert host.until_end(runs[-1]) == b"%d\n" % (MOST_UNREAD + 5)


# Going away.


def test_a_host_that_closes_stdin_ends_its_runs_and_is_still_answered(child: Children) -> None:
    with Host() as host:
        run_id = host.call("start", argv=child("exits_on_term", 0), output=PLENTY)["run_id"]
        pid = ready_pid(host, run_id)
        waiting = host.send("wait", run_id=run_id)
        host.close_input()
        with pytest.raises(RpcError) as error:
            host.answer(waiting)
        assert (error.value.code, error.value.data["cause"]) == (-32802, "owner")
        assert host.process.wait(BOUND_S) == 0
        assert is_gone(pid)


def test_a_host_that_closes_stdin_and_reads_nothing_either() -> None:
    """The sidecar cannot write its answers, and does not even read the end of stdin."""
    with Host() as host:
        run_id = host.call("start", argv=["yes"], output=PLENTY, grace_s=0.2)["run_id"]
        host.until_output(run_id, b"y")
        pid = host.call("report", run_id=run_id)["pid"]
        host.write(b"nonsense\n" * 5000)  # as much as the pipe takes; the host reads none of the answers
        host.close_input()
        assert wait_exited(pid)
        assert host.process.wait(BOUND_S) == 0


@pytest.mark.parametrize("who", ["host", "sidecar"])
def test_whoever_is_killed_the_run_ends(who: str, child: Children) -> None:
    """The host is a process of its own here, so that it can be killed; the guard handles the sidecar's death."""
    program = """
import subprocess, sys, json
sidecar = subprocess.Popen(json.loads(sys.argv[1]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for text in json.loads(sys.argv[2]):
    sidecar.stdin.write(text.encode() + b"\\n")
sidecar.stdin.flush()
for text in sidecar.stdout:
    message = json.loads(text)
    if message.get("method") == "output":
        import base64
        words = base64.b64decode(message["params"]["data"]).decode().strip()
        print(words, f"sidecar={sidecar.pid}", flush=True)
        break
sidecar.wait()
"""
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocols": [1]}},
        {"jsonrpc": "2.0", "id": 2, "method": "start", "params": {"argv": child("ignores_term"), "grace_s": 0.2,
                                                                  "output": {"credit_bytes": 1000}}},
    ]  # fmt: skip
    arguments = [json.dumps(COMMAND), json.dumps([json.dumps(call) for call in calls])]
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        pids = read_ready(host.stdout.fileno())
        os.kill(host.pid if who == "host" else pids["sidecar"], signal.SIGKILL)
        assert wait_exited(pids["pid"])
        assert wait_exited(pids["sidecar"])


def test_a_host_that_stops_reading_for_good() -> None:
    with Host() as host:
        run_id = host.call("start", argv=["yes"], output=PLENTY, grace_s=0.2)["run_id"]
        host.until_output(run_id, b"y")
        pid = host.call("report", run_id=run_id)["pid"]
        assert host.process.stdout is not None
        host.process.stdout.close()
        assert wait_exited(pid)
        assert host.process.wait(BOUND_S) == 0


def test_shutdown_is_answered_when_everything_is_over(child: Children) -> None:
    with Host() as host:
        runs = [host.call("start", argv=child("exits_on_term", 0), output=PLENTY)["run_id"] for _ in range(3)]
        pids = [ready_pid(host, run_id) for run_id in runs]
        waits = [host.send("wait", run_id=run_id) for run_id in runs]
        assert host.call("shutdown", reason="enough") == {}
        assert all(is_gone(pid) for pid in pids)
        for waiting in waits:
            with pytest.raises(RpcError) as error:
                host.answer(waiting)
            assert (error.value.code, error.value.data["cause"]) == (-32802, "shutdown")
        assert host.process.wait(BOUND_S) == 0
        assert host.next_line() == b""


def test_a_signal_ends_it_and_a_second_one_kills(child: Children) -> None:
    with Host() as host:
        run_id = host.call("start", argv=child("ignores_term"), output=PLENTY, grace_s=1000)["run_id"]
        pid = ready_pid(host, run_id)
        waiting = host.send("wait", run_id=run_id)
        host.process.send_signal(signal.SIGTERM)
        with pytest.raises(RpcError) as error:
            host.answer(waiting)
        assert error.value.data["cause"] == "shutdown"
        assert not is_gone(pid)  # the grace is a quarter of an hour
        host.process.send_signal(signal.SIGTERM)
        assert wait_exited(pid)
        assert host.process.wait(BOUND_S) == 0


# Streams of other kinds.


def test_it_talks_over_sockets_as_node_makes_them() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(COMMAND, stdin=theirs.fileno(), stdout=theirs.fileno()) as process:
        theirs.close()
        with ours.makefile("rb") as answers:
            ours.sendall(line({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocols": [1]}}))
            assert json.loads(answers.readline())["result"]["protocol"] == 1
            ours.shutdown(socket.SHUT_WR)
            assert answers.readline() == b""
        assert process.wait(BOUND_S) == 0


def test_it_reads_and_writes_files(tmp_path: Path) -> None:
    asked, said = tmp_path / "asked", tmp_path / "said"
    asked.write_bytes(line({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocols": [1]}}))
    with asked.open("rb") as source, said.open("wb") as target:
        subprocess.run(COMMAND, stdin=source, stdout=target, check=True, timeout=BOUND_S)
        assert json.loads(said.read_bytes())["id"] == 1
    with open("/dev/null", "rb") as nothing:
        assert subprocess.run(COMMAND, stdin=nothing, capture_output=True, check=True, timeout=BOUND_S).stdout == b""


def test_the_stream_of_the_host_keeps_its_flags() -> None:
    reading, writing = os.pipe()
    with Host(stdout=writing, initialize=False) as host:
        assert os.get_blocking(writing)
        host.write(line({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocols": [1]}}))
        assert b"protocol" in os.read(reading, 10000)
        assert os.get_blocking(writing)
    os.close(reading)
    os.close(writing)
