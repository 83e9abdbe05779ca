"""Identity: real processes, PID reuse, reboot, zombies with and without living threads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.values import identity
from holdfast.values.identity import (
    ProcessIdentity,
    boot_id,
    is_alive,
    is_exiting,
    is_safe_target,
    is_same,
    parse_stat,
    read_identity,
)

# The main thread ends by the bare system call; the other thread sees it become a zombie, says so, and waits for stdin.
MAIN_THREAD_GONE = """
import ctypes, os, platform, threading
def work():
    while open(f"/proc/self/task/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    os.write(1, b"ready\\n")
    os.read(0, 1)
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    known = read_identity(process.pid)
    assert known is not None
    return known


def wait_for_zombie(process: subprocess.Popen[bytes]) -> None:
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_an_identity_has_pid_start_and_boot() -> None:
    tick = 1 / os.sysconf("SC_CLK_TCK")
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    after = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        known = identity_of(process)
        assert known.pid == process.pid
        assert known.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert before - tick <= known.start_ticks * tick <= after
        assert read_identity(process.pid) == known
    finally:
        process.kill()
        process.communicate()


def test_a_running_process_is_alive_and_a_reaped_one_is_not(child: subprocess.Popen[bytes]) -> None:
    known = identity_of(child)
    assert is_alive(known) is True
    child.kill()
    child.wait()
    assert is_alive(known) is False
    assert read_identity(child.pid) is None


def test_a_zombie_is_dead(child: subprocess.Popen[bytes]) -> None:
    known = identity_of(child)
    child.kill()
    wait_for_zombie(child)
    assert read_identity(child.pid) == known  # still in /proc
    assert is_alive(known) is False


def test_whether_a_process_is_on_its_way_out(child: subprocess.Popen[bytes]) -> None:
    assert is_exiting(child.pid) is False
    child.kill()
    wait_for_zombie(child)
    assert is_exiting(child.pid) is True
    child.wait()
    assert is_exiting(child.pid) is None
    assert is_exiting(0) is None


def test_a_zombie_whose_other_threads_live_is_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", MAIN_THREAD_GONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        known = identity_of(process)
        state, _ = parse_stat(Path(f"/proc/{process.pid}/stat").read_bytes())
        assert state == "Z"
        assert is_alive(known) is True
        process.communicate(b"x")
        assert is_alive(known) is False  # the negative control
    finally:
        process.kill()
        process.communicate()


def test_another_process_with_the_same_pid_is_not_the_same(child: subprocess.Popen[bytes]) -> None:
    known = identity_of(child)
    earlier = known._replace(start_ticks=known.start_ticks - 1)
    assert is_alive(earlier) is False
    assert is_same(earlier, known) is False
    assert is_same(known, known) is True


def test_the_same_pid_and_start_in_another_boot_is_not_the_same(child: subprocess.Popen[bytes]) -> None:
    known = identity_of(child)
    before_reboot = known._replace(boot_id="00000000-0000-0000-0000-000000000000")
    assert is_alive(before_reboot) is False
    assert is_same(before_reboot, known) is False


def test_without_a_boot_id_the_answer_is_unknown(child: subprocess.Popen[bytes]) -> None:
    known = identity_of(child)
    bootless = known._replace(boot_id=None)
    assert is_alive(bootless) is None
    assert is_same(bootless, known) is None
    assert is_alive(bootless._replace(start_ticks=1)) is False  # what differs, differs in any boot


def test_what_proc_hides_is_unknown_not_dead(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    known = identity_of(child)
    monkeypatch.setattr(identity, "_read_stat", lambda _pid: None)
    assert is_alive(known) is None
    child.kill()
    child.wait()
    assert is_alive(known) is False


def test_the_boot_id_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = boot_id()
    assert first

    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise OSError("read twice")

    monkeypatch.setattr("builtins.open", refuse)
    assert boot_id() == first
    monkeypatch.setattr(identity, "_boot_id", None)
    assert boot_id() is None  # the negative control: this one did read


@pytest.mark.parametrize("name", [b"cat", b"a b", b"a) R 1 (b", b"))) S 1", b"(((", b""])
def test_the_name_cannot_forge_the_line(name: bytes) -> None:
    after = b" S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21\n"
    assert parse_stat(b"77 (" + name + b")" + after) == ("S", 4242)


def test_a_process_may_call_itself_anything() -> None:
    rename = (
        "import ctypes,os; ctypes.CDLL(None).prctl(15, b'a) Z 1 (', 0, 0, 0); os.write(1, b'ready\\n'); os.read(0, 1)"
    )
    process = subprocess.Popen([sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert b"(a) Z 1 ()" in Path(f"/proc/{process.pid}/stat").read_bytes()
        assert is_alive(identity_of(process)) is True
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("line", [b"", b"77 (cat", b"77 (cat) S 1 2", b"no parenthesis at all"])
def test_refuses_what_is_no_stat_line(line: bytes) -> None:
    with pytest.raises(ValueError, match="stat"):
        parse_stat(line)


@pytest.mark.parametrize(
    "pid",
    [0, -1, -os.getpid(), 1, os.getpid(), True, False],
    ids=["zero", "all", "group", "init", "own", "true", "false"],
)
def test_some_processes_are_never_targets(pid: int) -> None:
    assert is_safe_target(pid) is False


def test_a_child_may_be_a_target(child: subprocess.Popen[bytes]) -> None:
    assert is_safe_target(child.pid) is True


@pytest.mark.parametrize("pid", [0, -1, 2**31 - 1, 2**70])
def test_impossible_pids_have_no_identity(pid: int) -> None:
    assert read_identity(pid) is None
    assert is_alive(ProcessIdentity(pid, 1, boot_id())) in (False, None)
