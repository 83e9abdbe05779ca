"""`holdfast.compat.asyncio_subprocess`: asyncio's interface, with the whole tree ended and a report."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio import subprocess as original
from typing import TYPE_CHECKING

import pytest

from holdfast.compat import PlainStartWarning, asyncio_subprocess, subprocess
from holdfast.guard.binary import guard_path

from .test_subprocess import LEAVES, gone

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard
PIPE = asyncio_subprocess.PIPE


def test_communicate_returns_although_a_grandchild_holds_stdout() -> None:
    async def main() -> bytes:
        process = await asyncio_subprocess.create_subprocess_exec(
            sys.executable, "-c", LEAVES, stdout=PIPE, grace=0.1, timeout=60
        )
        assert isinstance(process, original.Process)
        assert isinstance(process.stdout, asyncio.StreamReader)
        out, _ = await process.communicate()
        assert process.returncode == 0
        report = await process.settled()
        assert report is not None
        assert report["tree"] == "gone"
        return out

    assert gone(int(asyncio.run(main())))


def test_the_deadline_ends_the_tree_and_the_report_says_so() -> None:
    async def main() -> None:
        process = await asyncio_subprocess.create_subprocess_shell("sleep 600 & sleep 600", timeout=0.2)
        assert await process.wait() == -signal.SIGTERM
        assert process.report is not None
        assert (process.report["status"], process.report["cause"]) == ("timed_out", "deadline")
        await process.settled()
        assert "deadline" in process.why()

    asyncio.run(main())


def test_many_at_once_and_no_descriptor_is_left() -> None:
    """The harness of these tests looks for descriptors and processes that are left."""

    async def one(number: int) -> bytes:
        process = await asyncio_subprocess.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
        out, _ = await process.communicate(b"%d" % number)
        await process.settled()
        return out

    async def main() -> list[bytes]:
        return await asyncio.gather(*map(one, range(20)))

    assert asyncio.run(main(), debug=True) == [b"%d" % number for number in range(20)]


def test_a_popen_that_is_waited_for_elsewhere_tells_the_loop() -> None:
    """The descriptor is taken from the event loop before it is closed: another file may get its number."""

    async def main() -> None:
        process = await asyncio_subprocess.create_subprocess_exec("sleep", "600")
        process.kill()
        await asyncio.to_thread(process._popen.wait)  # noqa: SLF001
        assert await process.wait() == -signal.SIGKILL

    asyncio.run(main())


def test_a_missing_program_is_an_error_at_once() -> None:
    async def main() -> None:
        await asyncio_subprocess.create_subprocess_exec("holdfast-no-such-program")

    with pytest.raises(FileNotFoundError):
        asyncio.run(main())


@pytest.fixture
def held_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipe: a guard that is started begins its work when somebody writes a line to it."""
    hold = tmp_path / "hold"
    os.mkfifo(hold)
    script = tmp_path / "guard"
    script.write_text(f'#!/bin/sh\nread line <{hold}\nexec {guard_path()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("HOLDFAST_GUARD", str(script))
    return hold


def test_the_event_loop_serves_others_while_a_guard_starts(held_guard: Path) -> None:
    """Here another task of the same loop lets the guard begin. A start that blocks the loop would never end."""

    async def main() -> int:
        starting = asyncio.create_task(asyncio_subprocess.create_subprocess_exec("true"))
        await asyncio.sleep(0)
        assert not starting.done()
        held_guard.write_text("go\n")  # noqa: ASYNC240 - a line into a pipe
        process = await starting
        code = await process.wait()
        await process.settled()
        return code

    assert asyncio.run(main()) == 0


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    """The harness of these tests looks for processes and descriptors that are left."""

    async def main() -> None:
        starting = asyncio.create_task(
            asyncio_subprocess.create_subprocess_exec("sleep", "600", stdin=PIPE, stdout=PIPE)
        )
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())


def test_preexec_fn_is_handled_the_plain_way_with_a_warning() -> None:
    async def main() -> None:
        with pytest.warns(PlainStartWarning):
            process = await asyncio_subprocess.create_subprocess_exec("true", preexec_fn=lambda: None)
        assert await process.wait() == 0
        assert process.report is None

    asyncio.run(main())


FORGETS = """
import asyncio, gc
from holdfast.compat import asyncio_subprocess, subprocess
loop = asyncio.new_event_loop()
pid = loop.run_until_complete(asyncio_subprocess.create_subprocess_exec("sleep", "600")).pid
loop.close()
del loop
gc.collect()
print(pid, subprocess.run(["echo", "later"], capture_output=True, text=True).stdout)
"""


def test_a_process_of_a_forgotten_loop_ends_and_does_not_disturb_later_ones() -> None:
    """The garbage collector finalises loop, transport, Popen and run together; the Popen comes back to life."""
    command = [sys.executable, "-W", "ignore", "-c", FORGETS]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.stdout.split()[1:] == ["later"], said.stderr
    assert gone(int(said.stdout.split()[0]))
