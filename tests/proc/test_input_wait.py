"""Whether a run waits for input, seen from outside, with real children on real pipes and terminals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.guard import packets
from holdfast.proc import blocked_call
from holdfast.proc.input_wait import NO_STDIN, is_waiting
from holdfast.state.directory import StateDirectory
from holdfast.state.index.summary import read_summary
from holdfast.values.identity import ProcessIdentity, boot_id, read_identity

from ..support.durable import DurableRun
from ..support.unprivileged import as_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.guard
BOUND_S = 60.0
PYTHON = [sys.executable, "-S", "-c"]


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory.open(str(tmp_path / "state"))


@pytest.fixture
def only_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the system call and the memory, as a security module does."""
    real = blocked_call.BlockedProcess._read  # noqa: SLF001

    def read(process: blocked_call.BlockedProcess, name: str) -> bytes:
        if name.endswith("/syscall"):
            raise PermissionError(1, "not shown")
        return real(process, name)

    monkeypatch.setattr(blocked_call.BlockedProcess, "_read", read)


@contextmanager
def started(state: StateDirectory, argv: list[str], **options: Any) -> Iterator[DurableRun]:
    """A run that its guard ends, and whose whole end the test waits for."""
    with DurableRun(state, argv, **options) as run:
        yield run
        with run.record() as record:
            over = record.reader.ended
        if not over:
            run.handle.control.send(packets.stop(1, "user", "", now=True))
            run.until_ended()


def seen(run: DurableRun) -> bool | None:
    with run.record() as record:
        return record.stdin.is_waited_for()


def until(run: DurableRun, wanted: bool | None) -> None:
    """Look until this is the answer: no event says that a process has fallen asleep."""
    end = time.monotonic() + BOUND_S
    while (found := seen(run)) is not wanted:
        assert time.monotonic() < end, f"it is {found} and not {wanted}"
        os.sched_yield()


READERS = [
    (["cat"], "pipe"),
    (["sh", "-c", "cat; true"], "pipe"),  # the shell waits for its child
    (["sh", "-c", "read line"], "pty"),
    (["sh", "-c", "exec </dev/null; read line </dev/tty"], "pty"),
    ([*PYTHON, "import select; poll = select.poll(); poll.register(0, 1); poll.poll()"], "pipe"),
    ([*PYTHON, "import select; select.select([0], [], [])"], "pipe"),
    ([*PYTHON, "import select; poll = select.epoll(); poll.register(0, 1); poll.poll()"], "pty"),
    # A pipe whose two ends both belong to the command can only wake itself.
    ([*PYTHON, "import os, select; own, _ = os.pipe(); select.select([0, own], [], [], 600)"], "pipe"),
]


@pytest.mark.parametrize(("argv", "kind"), READERS)
def test_who_is_blocked_reading_its_input_waits(state: StateDirectory, argv: list[str], kind: str) -> None:
    options = {"pty": True} if kind == "pty" else {"stdin": "pipe"}
    with started(state, argv, **options) as run:
        until(run, True)


OTHERS = {
    "sleeps": ["sh", "-c", "echo ready; exec sleep 600"],
    "busy": ["sh", "-c", "echo ready; while :; do :; done"],
    "reads something else": ["sh", "-c", 'echo ready; read -r _ < "$0"'],
    "polls something else": [
        *PYTHON,
        "import os, select; own, _ = os.pipe(); print('ready', flush=True); select.select([own], [], [])",
    ],
    "closed it": ["sh", "-c", "exec <&-; echo ready; exec sleep 600"],
    "waits for a child that does not read": ["sh", "-c", "echo ready; sleep 600; true"],
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("kind", ["pipe", "pty"])
def test_who_does_something_else_does_not(state: StateDirectory, tmp_path: Path, what: str, kind: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    options = {"pty": True} if kind == "pty" else {"stdin": "pipe"}
    with started(state, [*OTHERS[what], str(fifo)], **options) as run:
        run.until_ready()
        assert {seen(run) for _ in range(20)} == {False}


@pytest.mark.parametrize(
    "code",
    [
        # A socket may bring the data that the command is really waiting for.
        "import select, socket; one, two = socket.socketpair(); select.select([0, one], [], [])",
        "import os, threading; thread = threading.Thread(target=os.read, args=(0, 1)); thread.start(); thread.join()",
    ],
)
def test_what_cannot_be_known_is_not_guessed(state: StateDirectory, code: str) -> None:
    with started(state, [*PYTHON, code], stdin="pipe") as run:
        until(run, None)


def test_a_run_without_an_input_of_ours_never_waits(state: StateDirectory, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)  # without one, cat would be at its end at once
    try:
        with started(state, ["sh", "-c", "echo ready; exec cat"], stdin=str(fifo)) as run:
            run.until_ready()
            assert {seen(run) for _ in range(20)} == {False}
    finally:
        os.close(writer)


def test_the_answer_changes_with_what_the_command_does(state: StateDirectory) -> None:
    argv = ["sh", "-c", "read line; echo ready; exec sleep 600"]
    with started(state, argv, stdin="pipe") as run:
        until(run, True)
        assert run.handle.input is not None
        os.write(run.handle.input, b"go\n")
        run.until_ready()
        assert seen(run) is False


def test_a_stopped_command_does_not_wait(state: StateDirectory) -> None:
    with started(state, ["cat"], stdin="pipe") as run:
        until(run, True)
        with run.record() as record:
            pid = record.report()["pid"]
        os.kill(pid, 19)
        until(run, False)


def test_when_it_is_over_there_is_nothing_to_know(state: StateDirectory) -> None:
    with started(state, ["true"], stdin="pipe") as run:
        run.until_ended()
        entry = read_summary(state, run.run_id)
        assert entry is not None
        assert (entry.stdin, entry.shown()["waiting_for_input"]) == (NO_STDIN, None)
        assert "waiting_for_input" not in entry.report  # so it is in no index


def test_the_number_of_another_process_is_not_the_leader() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat:
        identity = read_identity(cat.pid)
        assert identity is not None
        end = time.monotonic() + BOUND_S
        while is_waiting(identity, terminal=False) is not True:
            assert time.monotonic() < end
            os.sched_yield()
        # The negative control is the line above: the same process, the same look.
        assert is_waiting(identity._replace(start_ticks=identity.start_ticks - 1), terminal=False) is False
        assert is_waiting(identity._replace(boot_id="another"), terminal=False) is None
        assert cat.stdin is not None
        cat.stdin.close()
    assert is_waiting(identity, terminal=False) is False
    assert is_waiting(ProcessIdentity(1 << 30, 1, boot_id()), terminal=False) is False


@pytest.mark.parametrize(("argv", "kind"), READERS[:3])
@pytest.mark.usefixtures("only_functions")
def test_the_function_in_the_kernel_is_enough_when_nothing_else_is_read(
    state: StateDirectory, argv: list[str], kind: str
) -> None:
    options = {"pty": True} if kind == "pty" else {"stdin": "pipe"}
    with started(state, argv, **options) as run:
        until(run, True)


@pytest.mark.usefixtures("only_functions")
def test_and_unknown_when_it_could_be_another_read(state: StateDirectory) -> None:
    two = "import os; one, _ = os.pipe(); print('ready', flush=True); os.read(one, 1)"
    with started(state, [*PYTHON, two], stdin="pipe") as run:
        run.until_ready()
        until(run, None)
    poll = "import select; print('ready', flush=True); select.select([0], [], [])"
    with started(state, [*PYTHON, poll], stdin="pipe") as run:
        run.until_ready()
        until(run, None)


@pytest.mark.root
def test_another_user_cannot_know() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat:
        identity = read_identity(cat.pid)
        assert identity is not None
        code = (
            "import json, sys; from holdfast.values.identity import ProcessIdentity;"
            "from holdfast.proc.input_wait import is_waiting;"
            "print(json.dumps(is_waiting(ProcessIdentity(*json.loads(sys.argv[1])), terminal=False)))"
        )
        argv = as_nobody([sys.executable, "-c", code, json.dumps(list(identity))])
        done = subprocess.run(argv, capture_output=True, check=True, timeout=BOUND_S, env=_import_path())
        assert json.loads(done.stdout) is None
        assert cat.stdin is not None
        cat.stdin.close()


def _import_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
