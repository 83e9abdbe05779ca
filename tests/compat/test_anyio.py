"""`holdfast.compat.anyio` on asyncio and trio: anyio's own processes, with the whole tree ended and a report."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.abc import Process

from holdfast.compat import anyio as compat

from .test_subprocess import LEAVES, gone

if TYPE_CHECKING:
    from subprocess import CompletedProcess

pytestmark = pytest.mark.guard
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@BACKENDS
def test_run_process_returns_although_a_grandchild_holds_stdout(backend: str) -> None:
    async def main() -> CompletedProcess[bytes]:
        return await compat.run_process([sys.executable, "-c", LEAVES], grace=0.1, timeout=60)

    done = anyio.run(main, backend=backend)
    assert done.returncode == 0
    assert gone(int(done.stdout))


@BACKENDS
def test_the_deadline_ends_the_tree_and_the_report_says_so(backend: str) -> None:
    async def main() -> None:
        async with await compat.open_process("sleep 600 & sleep 600", timeout=0.2) as process:
            assert isinstance(process, Process)
            assert await process.wait() == -signal.SIGTERM
        report = await compat.settled(process)
        assert report is not None
        assert (report["status"], report["cause"], report["tree"]) == ("timed_out", "deadline", "gone")

    anyio.run(main, backend=backend)


@BACKENDS
def test_the_originals_are_not_changed(backend: str) -> None:
    async def main() -> None:
        await compat.run_process(["true"])
        done = await anyio.run_process("env")
        assert b"HOLDFAST_RUN_ID" not in done.stdout

    anyio.run(main, backend=backend)
