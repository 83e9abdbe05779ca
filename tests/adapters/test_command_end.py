"""The end of a command: one table of what frameworks are told, and nothing left after a cancelled caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from holdfast.adapters.command_end import CommandEnd, run_command, shell, start_command

from ..support.processes import state_of
from .conftest import daemon_of, first_line

if TYPE_CHECKING:
    from pathlib import Path


async def both(line: str, **options: object) -> CommandEnd:
    """The end, which is the same in both ways but for the name of the run."""
    blocking = run_command(shell(line), **options)  # type: ignore[arg-type]
    started = await start_command(shell(line), **options)  # type: ignore[arg-type]
    assert (blocking.status, blocking.exit_code, blocking.stdout) == (started.status, started.exit_code, started.stdout)
    return started


@pytest.mark.anyio
class TestEnds:
    async def test_an_exit(self) -> None:
        end = await both("echo out; echo err >&2; exit 7")
        assert (end.status, end.exit_code, end.stdout, end.stderr) == ("failed", 7, "out\n", "err\n")
        assert end.was_seen
        assert not end.timed_out
        assert not end.is_cut

    async def test_a_timeout_whatever_the_command_says_to_it(self) -> None:
        end = await both("trap 'exit 0' TERM; echo begun; sleep 60 & wait", timeout=3)
        assert (end.status, end.exit_code, end.stdout) == ("timed_out", 124, "begun\n")
        assert end.timed_out
        assert not end.was_seen
        assert "deadline" in end.reason

    async def test_its_own_124_is_no_timeout(self) -> None:
        end = await both("exit 124")
        assert (end.exit_code, end.timed_out, end.was_seen) == (124, False, True)

    async def test_head_and_tail_of_much_output(self) -> None:
        end = await both("seq 100000", max_output=8192)
        assert end.is_cut
        assert end.stdout.startswith("1\n2\n")
        assert end.stdout.endswith("100000\n")
        assert len(end.stdout) <= 8192

    async def test_stdin(self) -> None:
        assert (await start_command(["cat"], b"typed")).stdout == "typed"

    async def test_a_cancelled_caller(self, stubborn_in_file: tuple[str, Path]) -> None:
        line, path = stubborn_in_file
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: start_command(shell(f"{line} wait"), grace=0.2))
            daemon = daemon_of(await anyio.to_thread.run_sync(first_line, path))
            group.cancel_scope.cancel()
        assert state_of(daemon) is None
