"""`holdfast.compat.subprocess`: the standard library's interface, with the whole tree ended and a report."""

from __future__ import annotations

import os
import select
import signal
import subprocess as original
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.compat import PlainStartWarning, subprocess

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard
WITHIN_MS = 30_000

# Exits when its daemonised grandchild, which ignores SIGTERM, has written its PID; it holds stdout open.
LEAVES = """
import os, signal, sys, time
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    os.write(writing, b"!")
    time.sleep(600)
os.read(reading, 1)
"""
HANDLES = """
import signal, sys, time
def handle(number, frame):
    open(sys.argv[1], "w").write("handled")
    sys.exit(7)
signal.signal(signal.SIGTERM, handle)
print("ready", flush=True)
time.sleep(600)
"""


def gone(pid: int) -> bool:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    ended = bool(poll.poll(WITHIN_MS))
    os.close(fd)
    return ended


def test_the_classes_are_the_standard_librarys_own() -> None:
    for name in ("TimeoutExpired", "CalledProcessError", "CompletedProcess", "SubprocessError", "PIPE", "DEVNULL"):
        assert getattr(subprocess, name) is getattr(original, name)
    assert issubclass(subprocess.Popen, original.Popen)
    assert subprocess.list2cmdline is original.list2cmdline  # type: ignore[attr-defined]


def test_run_returns_although_a_grandchild_holds_stdout() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVES], stdout=subprocess.PIPE, text=True, grace=0.1, timeout=60)
    assert done.returncode == 0
    assert gone(int(done.stdout))


def test_a_timeout_ends_the_tree_with_grace(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    with pytest.raises(original.TimeoutExpired) as caught:
        subprocess.run([sys.executable, "-c", HANDLES, str(noted)], stdout=subprocess.PIPE, timeout=4)
    assert noted.read_text() == "handled"
    assert caught.value.output == b"ready\n"
    assert caught.value.timeout == 4


def test_a_timeout_has_the_output_of_a_command_that_closed_it_early() -> None:
    line = "trap '' TERM; echo said; exec >&-; sleep 600"
    with pytest.raises(original.TimeoutExpired) as caught:
        subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, timeout=1, grace=0.5)
    assert (caught.value.timeout, caught.value.output) == (1, b"said\n")


def test_a_timeout_of_call_ends_the_tree_with_grace(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    with pytest.raises(original.TimeoutExpired):
        subprocess.call([sys.executable, "-c", HANDLES, str(noted)], stdout=subprocess.DEVNULL, timeout=4)
    assert noted.read_text() == "handled"


def test_a_timeout_of_communicate_leaves_the_process_alone() -> None:
    """As in the standard library: programs call it again and again."""
    with subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE) as process:
        with pytest.raises(original.TimeoutExpired):
            process.communicate(timeout=0.05)
        assert process.poll() is None
        process.kill()


def test_the_deadline_of_popen_holds_when_nobody_waits() -> None:
    process = subprocess.Popen(["sleep", "600"], timeout=0.2)
    assert gone(process.pid)
    assert process.wait(30) == -signal.SIGTERM
    assert process.report is not None
    assert (process.report["status"], process.report["cause"]) == ("timed_out", "deadline")
    assert "deadline" in process.why()


def test_terminate_climbs_the_ladder_and_kill_does_not_wait() -> None:
    stubborn = [
        sys.executable,
        "-c",
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint()\ntime.sleep(600)",
    ]
    for end, options in (("terminate", {"grace": 0.2}), ("kill", {})):
        with subprocess.Popen([*stubborn[:1], "-u", *stubborn[1:]], stdout=subprocess.PIPE, **options) as process:  # type: ignore[call-overload]
            process.stdout.readline()
            getattr(process, end)()
            assert process.wait(30) == -signal.SIGKILL
            assert process.report["status"] == "cancelled"


def test_send_signal_reaches_the_command_alone() -> None:
    line = "trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(["bash", "-c", line], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGUSR1)
        assert process.communicate(timeout=30)[0] == "got\n"
        assert process.returncode == 3


def test_a_thread_waits_while_another_ends_the_process() -> None:
    process = subprocess.Popen(["sleep", "600"])
    codes: list[int] = []
    waiters = [threading.Thread(target=lambda: codes.append(process.wait())) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    process.terminate()
    for waiter in waiters:
        waiter.join(30)
    assert codes == [-signal.SIGTERM] * 3


def test_bytes_go_directly_to_the_callers_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        name = os.readlink(f"/proc/self/fd/{file.fileno()}")
        subprocess.run(["readlink", "/proc/self/fd/1"], stdout=file, check=True)
    assert (tmp_path / "out").read_text() == f"{name}\n"


def test_the_environment_is_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    seen = subprocess.check_output(["env"], text=True)
    assert "CLAUDECODE=1" in seen.splitlines()
    only = subprocess.check_output(["/usr/bin/env"], env={"A": "b"}, text=True)
    assert [line for line in only.splitlines() if not line.startswith("HOLDFAST_RUN_ID=")] == ["A=b"]


def test_preexec_fn_is_handled_the_plain_way_with_a_warning() -> None:
    with pytest.warns(PlainStartWarning):
        process = subprocess.Popen(["true"], preexec_fn=lambda: None)
    assert process.wait(30) == 0
    assert process.report is None
    assert "alone" in process.why()
    with pytest.raises(ValueError, match="preexec_fn cannot be combined with memory"):
        subprocess.Popen(["true"], preexec_fn=lambda: None, memory="1G")


def test_setsid_as_preexec_fn_is_a_run_as_any_other() -> None:
    process = subprocess.Popen(["true"], preexec_fn=os.setsid)
    assert process.wait(30) == 0
    assert process.report is not None


def test_defaults_count_for_drop_ins_and_the_library() -> None:
    with holdfast.defaults(grace=0.25, name="by default"):
        with holdfast.defaults(memory="64M"):
            assert _spec(subprocess.Popen(["true"])) == (0.25, "by default", 64 << 20)
        assert _spec(subprocess.Popen(["true"], name="mine")) == (0.25, "mine", None)
        assert holdfast.run(["true"]).report["name"] == "by default"
    assert _spec(subprocess.Popen(["true"])) == (10.0, None, None)


def _spec(process: subprocess.Popen[bytes]) -> tuple[float, str | None, int | None]:
    process.wait(30)
    spec = process.child.live.spec  # type: ignore[attr-defined]
    return spec.grace_s, spec.name, spec.memory_bytes


def test_an_idle_process_is_ended_although_its_output_is_not_seen() -> None:
    process = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, idle_timeout=0.3, grace=5)
    process.wait(60)
    assert process.report is not None
    assert (process.report["status"], process.report["cause"]) == ("timed_out", "idle")


def test_a_process_that_nobody_keeps_lives_on_as_long_as_its_owner() -> None:
    script = (
        "from holdfast.compat import subprocess\nimport gc, sys\n"
        "pid = subprocess.Popen(['sleep', '600']).pid\ngc.collect()\nprint(pid, flush=True)\nsys.stdin.readline()\n"
        "kept = subprocess._active\nprint(len(kept), kept[0].poll(), flush=True)\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    with original.Popen(command, stdin=original.PIPE, stdout=original.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdin is not None
        pid = int(owner.stdout.readline())
        owner.stdin.write("\n")
        owner.stdin.flush()
        assert owner.stdout.readline() == "1 None\n", "it is kept, and it lives"
        owner.kill()
    assert gone(pid)
