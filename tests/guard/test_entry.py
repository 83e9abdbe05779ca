"""The entry of a command: what its process does last before exec, and how its caller hears of the exec."""

from __future__ import annotations

import errno
import os
import select
import signal
from typing import TYPE_CHECKING

import pytest

from holdfast.runs.ephemeral import start_ephemeral
from holdfast.runs.guard_watch import await_exec, watch
from holdfast.values.entry import Entry
from holdfast.values.spec import make_spec

from ..support.guards import guard_as

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.runs.live import LiveRun

pytestmark = pytest.mark.guard
WITHIN_MS = 30_000


def settle(live: LiveRun) -> str:
    """Wait for the end of the run; returns its stdout."""
    poll = select.poll()
    poll.register(live.control.fileno(), select.POLLIN)
    while not live.ended:
        assert poll.poll(WITHIN_MS), "the guard says nothing"
        live.hear_guard()
        watch(live)
    output = live.result().stdout.decode()
    live.reap(wait=True)
    live.close()
    return output


def run(entry: Entry, *words: str, cwd: str | None = None) -> tuple[tuple[str, int] | None, str]:
    """Run a command with an entry: what failed before its exec, and its output."""
    live = start_ephemeral(make_spec(words, timeout=60, cwd=cwd), entry=entry)
    return await_exec(live), settle(live)


def test_the_caller_hears_that_the_command_is_executed() -> None:
    assert run(Entry(), "echo", "here") == (None, "here\n")


def test_the_caller_hears_of_the_exec_while_the_command_lives() -> None:
    live = start_ephemeral(make_spec(["sleep", "600"]), entry=Entry())
    assert await_exec(live) is None
    assert live.outcome.started is not None
    live.ask_stop("user", "seen", now=True)
    settle(live)


@pytest.mark.timeout(60)
def test_a_guard_that_is_stopped_before_the_exec_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentinel stops itself before it is one. Nobody but the caller can continue it."""
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_as(tmp_path, ["sh", "-c", "'kill -STOP $$; exec \"$@\"'", "sh"])))
    assert run(Entry(), "echo", "here") == (None, "here\n")


@pytest.mark.parametrize(
    ("words", "cwd", "failure"),
    [
        (["holdfast-no-such-program"], None, ("exec", errno.ENOENT)),
        (["/etc/passwd"], None, ("exec", errno.EACCES)),
        (["true"], "/holdfast/no/such/directory", ("chdir", errno.ENOENT)),
    ],
)
def test_the_caller_hears_why_the_command_is_not_executed(
    words: list[str], cwd: str | None, failure: tuple[str, int]
) -> None:
    assert run(Entry(), *words, cwd=cwd) == (failure, "")


def test_passed_descriptors_keep_their_numbers_and_nothing_else_is_open() -> None:
    """The numbers include those that the guard uses itself, in an order in which each is in the way of the next."""
    pipes = [os.pipe() for _ in range(8)]
    given = tuple(sorted(writing for _, writing in pipes))
    names = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in given}
    line = 'for f in /proc/self/fd/*; do n=$(readlink $f) && echo "${f##*/} $n"; done'
    failure, output = run(Entry(passed=given), "sh", "-c", line)
    for pipe in pipes:
        for fd in pipe:
            os.close(fd)
    seen = dict(row.split(" ", 1) for row in output.splitlines())
    assert failure is None
    assert {fd: seen.get(str(fd)) for fd in given} == names
    assert {int(fd) for fd, name in seen.items() if name.startswith(("socket:", "pipe:"))} - {0, 1, 2} == set(given)


def test_a_passed_descriptor_is_open_in_the_command_only() -> None:
    """Its reader sees end of file when the command closes it: the guard and the sentinel have no copy."""
    reading, writing = os.pipe()
    line = f"echo said >&{writing}; exec {writing}>&-; read line"
    held, held_writing = os.pipe()
    spec = make_spec(["bash", "-c", line], timeout=60, stdin=held)
    live = start_ephemeral(spec, entry=Entry(passed=(writing,)))
    os.close(writing)
    os.close(held)
    assert await_exec(live) is None
    said = b""
    while part := os.read(reading, 100):
        said += part
    os.close(reading)
    os.close(held_writing)
    assert said == b"said\n"
    settle(live)


def test_an_umask_and_ignored_signals() -> None:
    entry = Entry(umask=0o027, ignored=(signal.SIGUSR2,))
    failure, output = run(entry, "sh", "-c", "umask; kill -USR2 $$; echo lives")
    assert (failure, output) == (None, "0027\nlives\n")


def test_another_program_than_the_first_word() -> None:
    assert run(Entry(program="cat"), "not-cat", "/proc/self/cmdline") == (None, "not-cat\0/proc/self/cmdline\0")


@pytest.mark.root
def test_another_user_and_its_guard_still_takes_it_along() -> None:
    """The kernel takes the parent-death signal back when the user changes, so the child sets it again."""
    entry = Entry(user=65534, group=65533, groups=(65532, 7))
    line = "id -u; id -g; id -G; exec sleep 600"
    live = start_ephemeral(make_spec(["sh", "-c", line], stragglers="leave"), wake_output=True, entry=entry)
    assert await_exec(live) is None
    poll = select.poll()
    poll.register(live.control.fileno(), select.POLLIN)
    reader, output = live.output_reader(), b""
    while output.count(b"\n") < 3:
        assert poll.poll(WITHIN_MS), "the command says nothing"
        live.hear_guard()
        output += b"".join(chunk.data for chunk in reader.read(1 << 16))
        live.arm_output(reader.position)
    assert output.split() == [b"65534", b"65533", b"65533", b"7", b"65532"]
    assert live.outcome.started is not None
    command = os.pidfd_open(int(live.outcome.started.detail["pid"]))
    live.kill_guard()
    poll = select.poll()
    poll.register(command, select.POLLIN)
    assert poll.poll(WITHIN_MS), "the command outlived its guard"
    os.close(command)
    live.clean_up()
    live.reap(wait=True)
    live.close()
