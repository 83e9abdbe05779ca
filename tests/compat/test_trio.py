"""`holdfast.compat.trio`: trio's own processes, with the whole tree ended and a report."""

from __future__ import annotations

import signal
import sys
from subprocess import PIPE

import pytest
import trio
import trio.testing

from holdfast.compat import trio as compat

from .test_subprocess import LEAVES, gone

pytestmark = pytest.mark.guard


def test_run_process_returns_although_a_grandchild_holds_stdout() -> None:
    async def main() -> bytes:
        done = await compat.run_process([sys.executable, "-c", LEAVES], capture_stdout=True, grace=0.1, timeout=60)
        assert isinstance(done.stdout, bytes)
        return done.stdout

    assert gone(int(trio.run(main)))


def test_the_deadline_ends_the_tree_and_the_report_says_so() -> None:
    async def main() -> None:
        process = await compat.open_process(["sleep", "600"], timeout=0.2)
        assert isinstance(process, trio.Process)
        assert await process.wait() == -signal.SIGTERM
        report = await compat.settled(process)
        assert report is not None
        assert (report["status"], report["cause"]) == ("timed_out", "deadline")

    trio.run(main)


def test_a_cancelled_nursery_ends_the_tree() -> None:
    line = "sleep 600 & echo $!; wait"

    async def main() -> int:
        async with trio.open_nursery() as nursery:
            start = compat.run_process
            process: trio.Process = await nursery.start(
                lambda **status: start(["sh", "-c", line], stdout=PIPE, **status)
            )
            assert process.stdout is not None
            pid = int(await process.stdout.receive_some())
            nursery.cancel_scope.cancel()
        return pid

    assert gone(trio.run(main))


def test_a_process_without_a_pidfd_does_not_block_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio._subprocess.can_try_pidfd_open", False)

    async def main() -> None:
        process = await compat.open_process(["sleep", "600"])
        with trio.move_on_after(0.1) as waited:
            await process.wait()
        assert waited.cancelled_caught
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        await compat.settled(process)

    trio.run(main)


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_the_exit_code_is_known_although_sigchld_is_ignored(has_pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """trio's own test of this expects 0, because nobody can know the code there: the guard is the parent here."""
    if not has_pidfd:
        monkeypatch.setattr("trio._subprocess.can_try_pidfd_open", False)

    async def main() -> None:
        process = await compat.open_process(["sleep", "600"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.wait)
            await trio.testing.wait_all_tasks_blocked()
            process.kill()
        assert process.returncode == -signal.SIGKILL
        await compat.settled(process)

    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        trio.run(main)
    finally:
        signal.signal(signal.SIGCHLD, before)
