"""Repeat a piece of work, several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def repeat(one: Callable[[], Awaitable[None]], count: int, at_once: int) -> None:
    """Do `one` `count` times, `at_once` of them at any moment."""
    left = count

    async def lane() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await one()

    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(lane)
