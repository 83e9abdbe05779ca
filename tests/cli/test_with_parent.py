"""`--with-parent`: the run ends when the process that started `holdfast` is gone, however and whenever it went."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ..support.processes import wait_exited
from .console import HOLDFAST, holdfast, read_until
from .kept_runs import as_json, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .kept_runs import Runs

pytestmark = pytest.mark.guard

# A command that leaves the process group and the session in every way that there is, and then lives on.
ESCAPES = "setsid sleep 600 & setsid -f sleep 600; trap 'echo saved' TERM; echo ready; sleep 600 & wait; wait"
# In a PID namespace of its own, with this program as PID 1.
AS_PID_1 = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c"]


def run_line(*options: str, command: Sequence[str] = ("sh", "-c", ESCAPES)) -> str:
    return shlex.join([*HOLDFAST, "run", "--id", "r1", *options, "--", *command])


def starter_of(line: str) -> subprocess.Popen[bytes]:
    """A starter that has `holdfast` in the background, and waits for it."""
    return subprocess.Popen(
        ["sh", "-c", f"{line} & echo $!; wait"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ready(starter: subprocess.Popen[bytes]) -> int:
    """The PID of `holdfast`, when its command is ready."""
    assert starter.stdout is not None
    return int(read_until(starter.stdout.fileno(), b"ready\n").split()[0])


def kill(starter: subprocess.Popen[bytes]) -> None:
    starter.kill()
    starter.wait()


def report() -> dict[str, Any]:
    done: dict[str, Any] = as_json(holdfast("show", "--json", "r1"))
    return done


def test_the_starter_is_killed(contained: str) -> None:
    with starter_of(run_line("--with-parent")) as starter:
        ready(starter)
        kill(starter)
    assert holdfast("wait", "r1").returncode == 143
    assert b"saved" in holdfast("logs", "r1").stdout, "the ladder begins with SIGTERM"
    told = report()
    assert (told["status"], told["cause"], told["tree"]) == ("cancelled", "owner", "gone")
    assert told["containment"] == contained
    assert "the process that started holdfast is gone" in told["reason"]


def test_control_without_the_option_the_run_goes_on(runs: Runs) -> None:
    runs.ids.append("r1")
    with starter_of(run_line()) as starter:
        own = ready(starter)
        kill(starter)
        assert holdfast("extend", "r1", "1s").returncode == 125, "the guard has answered since"
        assert report()["state"] == "running"
        runs.end_all()
        assert wait_exited(own)


def test_the_starter_is_killed_while_holdfast_is_stopped() -> None:
    with starter_of(run_line("--with-parent")) as starter:
        own = ready(starter)
        os.kill(own, signal.SIGSTOP)
        kill(starter)
        assert holdfast("wait", "r1").returncode == 143
        os.kill(own, signal.SIGCONT)
        assert wait_exited(own)
    assert report()["cause"] == "owner"


def test_a_starter_that_exits_is_gone_as_well() -> None:
    line = f"{run_line('--with-parent')} & echo $!; read line"
    starter = subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with starter:
        ready(starter)
        assert starter.stdin is not None
        starter.stdin.close()
        assert starter.wait(timeout=30) == 1
    assert holdfast("wait", "r1").returncode == 143


@pytest.mark.parametrize("lives", [False, True])
def test_a_starter_that_died_before_holdfast_looked(*, lives: bool) -> None:
    """`sh -c 'holdfast run --with-parent ... &'`: the starter is gone before the interpreter of `holdfast` begins."""
    reading, writing = os.pipe()
    # The process that becomes holdfast waits until its starter is gone, or, as a control, goes on below it.
    line = f"{{ read line </dev/fd/{reading}; exec {run_line('--with-parent', command=['echo', 'hello'])}; }} &"
    starter = subprocess.Popen(
        ["sh", "-c", f"{line} echo $!; {'wait' if lives else ''}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[reading],
        start_new_session=True,
    )
    with starter:
        assert starter.stdout is not None
        own = int(starter.stdout.readline())
        if not lives:
            starter.wait(timeout=30)
        os.write(writing, b"\n")
        os.close(reading)
        os.close(writing)
        assert wait_exited(own)
        assert starter.stdout.read() == (b"hello\n" if lives else b"")
    told = report()
    assert (told["status"], told["started_at"] is not None) == ("succeeded" if lives else "cancelled", lives)


def as_pid_1(program: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*AS_PID_1, program, *HOLDFAST], capture_output=True, text=True, timeout=60, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip(f"needs PID namespaces: {done.stderr}")
    return done


@pytest.mark.root
def test_a_harness_that_is_pid_1_is_a_starter() -> None:
    """As in a container: PID 1 is no proof of an adoption, neither in its session nor in one of the run's own."""
    done = as_pid_1(
        "import subprocess, sys\n"
        "for options in ({}, {'start_new_session': True}, {'process_group': 0}):\n"
        "    run = [*sys.argv[1:], 'run', '--with-parent', '--', 'echo', 'hello']\n"
        "    subprocess.run(run, check=True, stdin=subprocess.DEVNULL, **options)\n"
    )
    assert (done.returncode, done.stdout) == (0, "hello\n" * 3), done.stderr


@pytest.mark.root
def test_an_orphan_of_a_shell_that_pid_1_adopts_in_the_same_session() -> None:
    done = as_pid_1(
        "import os, signal, subprocess, sys\n"
        "reading, writing = os.pipe()\n"
        "run = [*sys.argv[1:], 'run', '--with-parent', '--', 'echo', 'hello']\n"
        "line = '{ read line </dev/fd/%d; exec \"$@\"; } &' % reading\n"
        "subprocess.run(['sh', '-c', line, 'sh', *run], pass_fds=[reading], stdin=subprocess.DEVNULL)\n"
        "os.write(writing, b'\\n')\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    assert (done.returncode, done.stdout) == (0, "143\n"), done.stderr


@pytest.mark.root
def test_a_starter_outside_of_our_pid_namespace_cannot_be_watched() -> None:
    line = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *HOLDFAST, "run", "--with-parent", "true"]
    done = subprocess.run(line, capture_output=True, timeout=60, check=False)
    if b"unshare failed" in done.stderr:
        pytest.skip(f"needs PID namespaces: {done.stderr!r}")
    assert "outside of this PID namespace" in one_line(done)


def test_a_detached_run_has_no_starter() -> None:
    assert "a detached run ends by itself" in one_line(holdfast("run", "--with-parent", "--detach", "--", "true"))


def test_a_background_run_of_a_session_may_end_with_the_starter() -> None:
    """`--detach` alone would outlive everybody: with a session and `--with-parent` it ends with the harness."""
    line = run_line("--with-parent", "--detach", "--session", "s1", "--lifetime", "session")
    starter = subprocess.Popen(["sh", "-c", f"{line}; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"r1\n"
        assert report()["state"] in ("starting", "running")
        kill(starter)
    assert holdfast("wait", "r1").returncode == 143
    assert report()["cause"] == "owner"


def test_a_named_process_takes_the_place_of_the_parent() -> None:
    """A shell between the harness and `holdfast` goes on; the harness is gone."""
    with subprocess.Popen(["sleep", "600"]) as harness:
        starter = starter_of(run_line("--with-process", str(harness.pid)))
        ready(starter)
        kill(harness)
        assert starter.wait(timeout=30) is not None
        done = report()
        assert (done["status"], done["cause"], done["tree"]) == ("cancelled", "owner", "gone")
        for stream in (starter.stdout, starter.stderr):
            assert stream is not None
            stream.close()
    gone = holdfast("run", "--with-process", str(harness.pid), "--", "true")
    assert gone.returncode == 143  # it never started
    assert "--with-process 'x' is no PID" in one_line(holdfast("run", "--with-process", "x", "--", "true"))
