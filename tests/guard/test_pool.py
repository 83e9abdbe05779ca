"""The pool keeps as many idle guards as are needed again and again; the others exit by themselves."""

from __future__ import annotations

import os
import resource
from socket import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from holdfast import Supervisor
from holdfast.guard import pool
from holdfast.guard.inherited_state import read_inherited_state
from holdfast.guard.pool import GuardPool
from holdfast.runs import idle_guards
from holdfast.runs.poller import Poller
from holdfast.values.identity import read_identity

from ..support.processes import sentinel_of, stop_both, wait_exited

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.guard, pytest.mark.anyio]


async def next_guard(supervisor: Supervisor) -> int:
    """The guard that the next run gets."""
    run = await supervisor.start(["true"])
    await run.settled()
    return run.guard_pid


async def many_at_once(supervisor: Supervisor, count: int) -> list[int]:
    """This many runs at the same time, then their end: their guards, in the order in which they became idle."""
    runs = [await supervisor.start(["cat"], stdin="pipe") for _ in range(count)]
    for run in runs:
        await run.close_stdin()
        await run.settled()
    return [run.guard_pid for run in runs]


async def until_exited(*pids: int) -> None:
    for pid in pids:
        assert await anyio.to_thread.run_sync(wait_exited, pid)


async def test_guards_that_nobody_needs_go_and_a_few_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice: the second time the pool counts them again."""
    monkeypatch.setattr(pool, "KEPT", 2)
    monkeypatch.setattr(idle_guards, "SPARE_S", 0.01)
    async with Supervisor() as supervisor:
        for _ in range(2):
            guards = await many_at_once(supervisor, 5)
            assert len(set(guards)) == 5
            await until_exited(*guards[:-2])
            assert await next_guard(supervisor) == guards[-1]
            assert read_identity(guards[-2]) is not None
    await until_exited(*guards)


async def test_guards_that_are_needed_again_and_again_stay() -> None:
    """In any number: the fewest idle guards since the last look count."""
    spare = GuardPool(read_inherited_state())
    with socket() as closed:
        pass
    for number in range(40):
        spare.give(closed, -1, os.getpid(), str(number))
    assert spare.take_spare() == [], "they have just come"
    taken = [guard for _ in range(38) if (guard := spare.take()) is not None]
    for guard in taken:
        spare.give(*guard[:4])
    assert spare.take_spare() == [], "there were only two"
    assert [guard.first_run for guard in spare.take_spare()] == ["0", "1", "39", "38", "37", "36", "35", "34"]
    assert not spare.has_spare
    assert spare.take_spare() == []
    spare.close()


async def test_leaving_ends_those_that_are_just_going(monkeypatch: pytest.MonkeyPatch) -> None:
    """One guard is stopped, so it is still exiting when the supervisor is left: it gets a bound, and then SIGKILL."""
    monkeypatch.setattr(pool, "_GOES_WITHIN_S", 0.2)
    monkeypatch.setattr(idle_guards, "SPARE_S", 0.01)
    async with Supervisor() as supervisor:
        guards = await many_at_once(supervisor, 4)
        stop_both(sentinel_of(guards[0]), guards[0])
        monkeypatch.setattr(pool, "KEPT", 1)
        assert await next_guard(supervisor) == guards[-1]
        await until_exited(*guards[1:-1])
        assert await next_guard(supervisor) == guards[-1], "nobody waits for it meanwhile"
    assert all(wait_exited(guard, 0) for guard in guards)  # a guard whose sentinel was killed with it is ours to reap


async def test_without_a_watch_they_are_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when `fs.epoll.max_user_watches` is used up."""
    refused: list[int] = []

    def watch(pump: Poller, fd: int, handler: Callable[[], None]) -> None:
        if "pidfd" in os.readlink(f"/proc/self/fd/{fd}"):
            refused.append(fd)
            raise OSError(28, "No space left on device")
        watch_really(pump, fd, handler)

    watch_really = Poller.watch
    monkeypatch.setattr(Poller, "watch", watch)
    monkeypatch.setattr(pool, "KEPT", 1)
    monkeypatch.setattr(idle_guards, "SPARE_S", 0.01)
    async with Supervisor() as supervisor:
        guards = await many_at_once(supervisor, 3)
        await until_exited(*guards[:-1])
        assert len(refused) == 2
        assert await next_guard(supervisor) == guards[-1]


async def test_no_more_wait_than_a_program_has_descriptors_for() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = {limit: most for limit, most in ((4096, 256), (512, 64), (256, 32)) if hard < 0 or limit <= hard}
    found = {}
    with socket() as closed:
        pass
    try:
        for limit in expected:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            spare = GuardPool(read_inherited_state())
            found[limit] = 0
            while spare.has_room:
                spare.give(closed, -1, found[limit], "first")
                found[limit] += 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found == expected
