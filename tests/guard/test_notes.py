"""Bad notes between guard and agent: too early, twice, without end.

The guard does not trust the container. With any input from it, the guard keeps its clocks and its record.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import contextmanager
from errno import EAGAIN
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import pytest

import holdfast
from holdfast.guard import packets, spec_frames
from holdfast.guard.binary import guard_path
from holdfast.journal import facts
from holdfast.journal.codec import FRAME

from ..support.driven import BOUND_S, Driven
from ..support.evidence import all_of, one
from ..support.processes import state_of
from ..support.wall_less import wall_less

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.guard

MARK = 0x544F4E48
NOTE = struct.Struct("<IIiiiiiiQiiiiqqqQ")
HELLO, SPEC, HELD, GO, FAILED, ASK, SIGNAL, SIGNAL_ONE, KILL, REACHED, WARN, WARNED, EXITED, SURVIVORS, GONE = range(
    1, 16
)


def note(word: int, *, signal_number: int = 0, count: int = 0) -> bytes:
    return NOTE.pack(MARK, word, signal_number, 0, 0, 0, 0, 0, 0, 0, 0, 0, count, 0, 0, 0, 0)


# --- a guard with a hostile agent ---

# The agent accepts the greeting and the go; then it repeats one note, and reads nothing more.
FLOODING = f"""#!{sys.executable}
import os, sys
def note(word, count=0):
    return {NOTE.format!r}, {MARK}, word, 0, 0, 0, 0, 7, 7, 7, 0, 0, 0, count, 0, 0, 0, 0
import struct
def say(word, count=0, times=1):
    layout, *fields = note(word, count)
    os.write(1, struct.pack(layout, *fields) * times)
if sys.argv[2] == "attach":
    sys.stdin.read()
    sys.exit(0)
if sys.argv[2] == "sweep":
    sys.exit(0)
say({HELLO})
length = struct.unpack_from("<i", os.read(0, {NOTE.size}), {NOTE.size - 36})[0]
while length > 0:
    length -= len(os.read(0, length))
say({HELD})
os.read(0, {NOTE.size})
while True:
    say(WORD, COUNT, 700)
"""


@pytest.mark.parametrize(
    ("word", "count"),
    [(HELD, 0), (REACHED, 0), (WARNED, 0), (EXITED, 1), (EXITED, -5), (SURVIVORS, 3), (SURVIVORS, -1), (99, 0)],
)
def test_an_agent_that_does_not_stop_talking(tmp_path: Path, word: int, count: int) -> None:
    program = tmp_path / "flooding"
    program.write_text(FLOODING.replace("WORD", str(word)).replace("COUNT", str(count)))
    program.chmod(0o755)
    runtime = wall_less(tmp_path, copy=f"cp {program} $here/agent")
    options: dict[str, Any] = {"in_container": "box", "container_runtime": runtime, "stdin": "pipe"}
    with Driven(["true"], timeout=1, grace=0.2, kill_wait=0.2, drain=0.5, **options) as run:
        result = run.settle()
        assert Path(f"/proc/self/fd/{run.live.journal}").stat().st_size < 100_000
    assert result.status in ("lost", "timed_out", "succeeded")
    assert len(all_of(result.facts, "exited")) <= 1
    assert not all_of(result.facts, "warned")
    assert not [fact for fact in all_of(result.facts, "stragglers") if fact.detail["count"] < 0]


# --- a guard with an agent that does not read ---


def test_more_signals_than_the_way_in_takes_are_refused_and_nothing_breaks(tmp_path: Path) -> None:
    options: dict[str, Any] = {"in_container": "box", "container_runtime": wall_less(tmp_path)}
    with Driven(["sleep", "60"], timeout=60, **options) as run:
        run.until("started")
        agent = one(run.facts, "entered").detail["agent_pid"]
        os.kill(agent, signal.SIGSTOP)
        end = time.monotonic() + BOUND_S
        while state_of(agent) != "T":
            assert time.monotonic() < end
            os.sched_yield()
        answers = [run.ask(lambda ticket: packets.signal(ticket, signal.SIGCONT, tree=True)) for _ in range(4000)]
        assert set(answers) == {0, EAGAIN}
        os.kill(agent, signal.SIGCONT)
        run.live.ask_stop()
        result = run.settle()
    assert (result.status, result.report["tree"]) == ("cancelled", "gone")
    sent = [fact for fact in all_of(result.facts, "signalled") if fact.detail["rung"] < 0]
    assert len(sent) == answers.count(0)


# --- descriptors that the guard's other child keeps open ---


@pytest.mark.anyio
async def test_a_command_inside_sees_the_end_of_its_input(tmp_path: Path) -> None:
    """The guard keeps a writing end for the next owner and closes it on request; no other process may have one."""
    runtime = wall_less(tmp_path)
    async with holdfast.Supervisor(state_dir=tmp_path / "state") as supervisor:
        options: dict[str, Any] = {"in_container": "box", "container_runtime": runtime, "lifetime": "detached"}
        run = await supervisor.start(["cat"], stdin="pipe", timeout=60, **options)
        await run.write_stdin(b"all of it\n")
        with anyio.fail_after(BOUND_S):
            await run.close_stdin()
            result = await run.result()
    assert (result.status, result.stdout) == ("succeeded", b"all of it\n")


# --- an agent ---


class Agent(NamedTuple):
    """The agent itself, on a link that the test holds."""

    process: subprocess.Popen[bytes]
    meeting: str

    def say(self, data: bytes) -> None:
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), data)

    def hear(self) -> int:
        """The word of its next note."""
        assert self.process.stdout is not None
        poll = select.poll()
        poll.register(self.process.stdout.fileno(), select.POLLIN)
        assert poll.poll(BOUND_S * 1000), "the agent says nothing"
        data = os.read(self.process.stdout.fileno(), NOTE.size)
        word: int = NOTE.unpack(data)[1]
        return word

    def attach(self, stdio: list[int]) -> socket.socket:
        name, colon, secret = self.meeting.partition(":")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(f"\0holdfast-{name}")
        socket.send_fds(connection, [(colon + secret).encode()], stdio)
        return connection


@contextmanager
def agent() -> Iterator[Agent]:
    meeting = f"test-{os.urandom(4).hex()}:secret"
    pipe = subprocess.PIPE
    command = [guard_path(), "inside", "hold", meeting]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0) as process:
        try:
            yield Agent(process, meeting)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # nobody listens: the agent ends everything
            process.wait(BOUND_S)


def spec_of(*argv: str) -> bytes:
    def part(kind: int, payload: bytes) -> bytes:
        return FRAME.pack(facts.MARK, kind, 0, 0, len(payload), 0, 0) + payload

    return (
        part(spec_frames.LADDER, struct.pack("<iiQ", signal.SIGKILL, 0, 0))
        + part(spec_frames.RUN_ID, b"r\0")
        + part(spec_frames.ARGV, b"".join(os.fsencode(word) + b"\0" for word in argv))
        + part(spec_frames.ENV, b"PATH=" + os.environb[b"PATH"] + b"\0")
    )


def test_the_one_that_attaches_may_be_there_before_the_spec() -> None:
    """They come through two clients of the runtime, and either may be faster."""
    spec = spec_of("true")
    with agent() as inside, open(os.devnull, "r+b") as nothing:
        assert inside.hear() == HELLO
        with inside.attach([nothing.fileno()] * 3) as attached:
            for _ in range(2):  # an answer, and one more: by then the agent has looked at everything it watches
                inside.say(note(SIGNAL_ONE, signal_number=signal.SIGCONT))
                assert inside.hear() == REACHED
            inside.say(note(SPEC, count=len(spec)) + spec)
            assert inside.hear() == HELD
            inside.say(note(GO))
            assert [inside.hear(), inside.hear()] == [EXITED, GONE]
            assert attached.recv(4) == bytes(4)
