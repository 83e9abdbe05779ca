"""The mailbox of a supervisor: news is told once, and many changes are one answer."""

from __future__ import annotations

import anyio
import pytest

from holdfast.ray.mailbox import Mailbox

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_news_is_told_once() -> None:
    mailbox = Mailbox()
    mailbox.follow("one")
    mailbox.put("one")
    mailbox.put("stranger")
    assert await mailbox.wait(0, 60) == ["one"]
    assert await mailbox.wait(0, 0) == []
    mailbox.put("one")
    assert mailbox.take(0) == ["one"]
    mailbox.unfollow("one")
    mailbox.put("one")
    assert await mailbox.wait(0, 0) == []


async def test_news_that_another_answer_took_ends_no_wait() -> None:
    mailbox = Mailbox()
    names = [f"run-{number}" for number in range(10)]
    for name in names:
        mailbox.follow(name)
    mailbox.put(names[0])
    async with anyio.create_task_group() as group:

        async def take() -> None:
            assert mailbox.take(0) == names[:1]  # an answer to a start, while the other one gathers
            await anyio.sleep(0.05)
            mailbox.put(names[1])

        group.start_soon(take)
        assert await mailbox.wait(0, 60) == names[1:2]


async def test_a_call_from_before_an_introduction_takes_nothing() -> None:
    mailbox = Mailbox()
    mailbox.introduction = 1
    mailbox.follow("one")
    async with anyio.create_task_group() as group:

        async def introduce() -> None:
            mailbox.introduction = 2
            mailbox.put("one")

        group.start_soon(introduce)
        assert await mailbox.wait(1, 60) == []  # nobody waits for this answer any more
    assert mailbox.take(1) == []
    assert await mailbox.wait(2, 60) == ["one"]


async def test_many_changes_are_one_answer() -> None:
    mailbox = Mailbox()
    names = [f"run-{number}" for number in range(100)]
    for name in names:
        mailbox.follow(name)

    async def change() -> None:
        for name in names:
            mailbox.put(name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(change)
            assert await mailbox.wait(0, 60) == names
