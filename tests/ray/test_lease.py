"""The lease of a node without a cluster: the keeper, its timer, and a guard that ends its run with it."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING

import anyio
import pytest

import holdfast
from holdfast.ray.lease import Lease, now_ns
from holdfast.ray.messages import NodeFencedError

from ..support.processes import is_gone, wait_exited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def keepers() -> Iterator[list[int]]:
    """The keepers of a test, which are our children because we are a subreaper. They are killed and reaped."""
    found: list[int] = []
    yield found
    for pid in set(found):
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def taken(directory: Path, length_s: float, keepers: list[int]) -> Lease:
    lease = Lease(directory, length_s)
    lease.renew(now_ns())
    keepers.append(lease.starter[0])
    return lease


def test_the_kernel_ends_a_keeper_that_is_stopped(tmp_path: Path, keepers: list[int]) -> None:
    lease = taken(tmp_path, 1.0, keepers)
    os.kill(lease.starter[0], signal.SIGSTOP)
    assert wait_exited(keepers[0])
    with pytest.raises(NodeFencedError, match="the lease of this node is over"):
        _ = lease.starter


def test_a_renewal_counts_from_the_question_and_never_shortens(tmp_path: Path, keepers: list[int]) -> None:
    lease = taken(tmp_path, 600.0, keepers)
    assert 590 < lease.left_s <= 600
    lease.renew(now_ns() - int(300e9))  # a late answer to an early question
    assert lease.left_s > 590
    assert lease.starter[0] == keepers[0]


def test_the_next_actor_finds_the_keeper_of_the_last(tmp_path: Path, keepers: list[int]) -> None:
    first = taken(tmp_path, 600.0, keepers)
    second = taken(tmp_path, 600.0, keepers)
    assert first.starter == second.starter


def test_a_keeper_that_was_killed_is_replaced(tmp_path: Path, keepers: list[int]) -> None:
    lease = taken(tmp_path, 600.0, keepers)
    os.kill(keepers[0], signal.SIGKILL)
    assert wait_exited(keepers[0])
    with pytest.raises(NodeFencedError):  # a zombie is no keeper
        _ = lease.starter
    os.waitpid(keepers[0], 0)
    lease.renew(now_ns())
    keepers.append(lease.starter[0])
    assert lease.starter[0] != keepers[0]


async def test_a_run_ends_with_the_lease_although_its_owner_is_there(tmp_path: Path, keepers: list[int]) -> None:
    lease = taken(tmp_path, 2.0, keepers)
    async with holdfast.Supervisor(state_dir=str(tmp_path / "state")) as supervisor:
        script = "setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000"
        run = await supervisor.start(
            ["sh", "-c", script], lifetime="session", session="ray", starter=lease.starter, grace=0.2
        )
        hidden = int((await anext(run.output())).data)
        with anyio.fail_after(60):
            assert (await run.wait())[:2] == ("cancelled", "owner")
            await run.settled()
        assert is_gone(hidden)
    assert wait_exited(keepers[0])


async def test_a_renewed_lease_goes_on(tmp_path: Path, keepers: list[int]) -> None:
    """The control of the test above: the keeper outlives its first end."""
    lease = taken(tmp_path, 2.0, keepers)
    lease.length_s = 600.0
    lease.renew(now_ns())
    pidfd = os.pidfd_open(keepers[0])
    try:
        begun = time.monotonic()
        assert select.select([pidfd], [], [], 3.0)[0] == []
        assert time.monotonic() - begun >= 3.0
    finally:
        os.close(pidfd)
