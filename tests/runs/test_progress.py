"""Lines and progress of a supervised run, as they come."""

from __future__ import annotations

import pytest

from holdfast import Supervisor

pytestmark = [pytest.mark.guard, pytest.mark.anyio]


async def test_lines_as_they_come() -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(["cat"], stdin="pipe")
        lines = run.lines()
        await run.write_stdin(b"one\ntw")
        assert await anext(lines) == "one"
        await run.write_stdin(b"o\nthree")
        assert await anext(lines) == "two"
        await run.close_stdin()
        assert [line async for line in lines] == ["three"]
        assert [line async for line in run.lines()] == ["one", "two", "three"]  # from the beginning again


async def test_lines_of_stderr() -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start("echo out; echo err >&2", shell=True)
        assert [line async for line in run.lines("stderr")] == ["err"]


async def test_progress_until_the_end() -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", "echo hello; read line"], stdin="pipe")
        seen = []
        async for progress in run.progress(every=0.05):
            seen.append(progress)
            if progress.stdout_bytes == 6:
                await run.close_stdin()
    assert [each.elapsed_s for each in seen] == sorted(each.elapsed_s for each in seen)
    assert seen[-1].state == "settled"
    assert (seen[-1].stdout_bytes, seen[-1].stderr_bytes) == (6, 0)
    assert len(seen) > 1
