"""The guard's part of the processor: short turns, a session apart from its command, and nothing inherited."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import time

import pytest

import holdfast
from tests.support.driven import BOUND_S, Driven

pytestmark = pytest.mark.guard

_ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # struct sched_attr: size, policy, flags, nice, priority, runtime, ...
_SHORT_TURN_NS = 100_000
_NUMBERS = {"x86_64": (314, 315), "aarch64": (274, 275)}  # of sched_setattr and sched_getattr
_SAY = f"""
import ctypes, os, sys
attributes = ctypes.create_string_buffer({_ATTRIBUTES.size})
ctypes.CDLL(None).syscall({_NUMBERS[os.uname().machine][1]}, 0, attributes, {_ATTRIBUTES.size}, 0)
sys.stdout.buffer.write(attributes.raw)
"""


def attributes_of(pid: int) -> tuple[int, ...]:
    buffer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    number = _NUMBERS[os.uname().machine][1]
    assert ctypes.CDLL(None, use_errno=True).syscall(number, pid, buffer, _ATTRIBUTES.size, 0) == 0
    return _ATTRIBUTES.unpack(buffer.raw)


def takes_short_turns() -> bool:
    """Whether this kernel lets a task choose how long its turn is (Linux 6.12)."""
    program = f"""
import ctypes
attributes = bytes.fromhex({attributes_with_short_turn().hex()!r})
ctypes.CDLL(None).syscall({_NUMBERS[os.uname().machine][0]}, 0, attributes, 0)
{_SAY}"""
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout
    return int(_ATTRIBUTES.unpack(said)[5]) == _SHORT_TURN_NS


def attributes_with_short_turn() -> bytes:
    own = list(attributes_of(0))
    own[5] = _SHORT_TURN_NS
    return _ATTRIBUTES.pack(*own)


@pytest.mark.parametrize("nice", [0, 7])
def test_the_command_has_the_priority_of_its_owner(nice: int) -> None:
    argv = [sys.executable, "-c", f"import os\nos.nice({nice})\nimport holdfast\n{_RUN}"]
    said = subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout
    plain = subprocess.run(
        [sys.executable, "-c", f"import os\nos.nice({nice})\n{_SAY}"], stdout=subprocess.PIPE, check=True
    ).stdout
    assert _ATTRIBUTES.unpack(said) == _ATTRIBUTES.unpack(plain)
    assert _ATTRIBUTES.unpack(said)[3] == os.getpriority(os.PRIO_PROCESS, 0) + nice


_RUN = f"""
import sys
sys.stdout.buffer.write(holdfast.run([sys.executable, "-c", {_SAY!r}]).stdout)
"""


def test_control_the_guard_has_another() -> None:
    if not takes_short_turns():
        pytest.skip("allowed: this kernel has no turns of a chosen length")
    with Driven(["cat"], stdin="pipe") as run:
        run.until("started")
        await_short_turns(run.live.guard_pid)
        run.live.ask_stop()
        run.settle()


def await_short_turns(guard_pid: int) -> None:
    """Return when the guard has taken short turns: it does so when a run lasts, and no event tells."""
    end = time.monotonic() + BOUND_S
    while attributes_of(guard_pid)[5] != _SHORT_TURN_NS:
        assert time.monotonic() < end


@pytest.mark.anyio
async def test_a_guard_gives_its_turns_back_before_the_next_command() -> None:
    if not takes_short_turns():
        pytest.skip("allowed: this kernel has no turns of a chosen length")
    plain = subprocess.run([sys.executable, "-c", _SAY], stdout=subprocess.PIPE, check=True).stdout  # noqa: ASYNC221
    async with holdfast.Supervisor() as supervisor:
        first = await supervisor.start(["cat"], stdin="pipe")
        guard_pid = first.guard_pid
        await_short_turns(guard_pid)  # control: there is something to give back
        await first.close_stdin()
        await first.result()
        second = await supervisor.start([sys.executable, "-c", _SAY])
        result = await second.result()
        assert second.guard_pid == guard_pid, "control: it is the same guard"
    assert _ATTRIBUTES.unpack(result.stdout) == _ATTRIBUTES.unpack(plain)


def test_a_command_has_a_session_of_its_own() -> None:
    result = holdfast.run(
        [sys.executable, "-c", "import os; print(os.getsid(0), os.getpid(), os.getsid(os.getppid()))"]
    )
    session, pid, guards = map(int, result.stdout.split())
    assert session == pid
    assert session != guards


def test_a_command_on_a_terminal_is_in_the_session_of_its_guard() -> None:
    program = "import os; print(os.getsid(0), os.getpgrp(), os.tcgetpgrp(0), os.getpid(), os.getsid(os.getppid()))"
    result = holdfast.run([sys.executable, "-c", program], pty=True)
    session, group, foreground, pid, guards = map(int, result.stdout.split())
    assert session == guards
    assert group == foreground == pid
