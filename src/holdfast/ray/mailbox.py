"""The mailbox of a supervisor at a node's actor: which of its runs got further than the supervisor was told.

One answer holds the news of all runs that changed since the last one, and answers to starts bring news, too. So many
short runs cost few calls of Ray. News leaves the mailbox when it is answered. A supervisor that got no answer names all
its runs again, and how far it knows them: it introduces itself, with the next number. Calls with an earlier number may
still be under way, and nobody waits for their answers. So they take no news.
"""

from __future__ import annotations

import asyncio
import time

_FEW = 4  # with so many runs or fewer, news is sent at once
_GATHER_S = 0.008


class Mailbox:
    """What one supervisor was not told. `follows` are the ids of its runs that are not over for it."""

    def __init__(self) -> None:
        self.heard = time.monotonic()
        self.follows: set[str] = set()
        self.introduction = 0  # the number of the last one; 0: there was none
        self._changed: dict[str, None] = {}  # in order
        self._arrived = asyncio.Event()

    def follow(self, run_id: str) -> None:
        """Take news of this run from now on."""
        self.follows.add(run_id)

    def unfollow(self, run_id: str) -> None:
        """Take no more news of this run."""
        self.follows.discard(run_id)
        self._changed.pop(run_id, None)
        if not self._changed:
            self._arrived.clear()

    def put(self, run_id: str) -> None:
        """Note that a run got further, if it is followed."""
        if run_id in self.follows:
            self._changed[run_id] = None
            self._arrived.set()

    def take(self, introduction: int) -> list[str]:
        """The runs with news, which is then told. Nothing for a call with an earlier number."""
        self.heard = time.monotonic()
        if introduction != self.introduction:
            return []
        taken, self._changed = list(self._changed), {}
        self._arrived.clear()
        return taken

    async def wait(self, introduction: int, within_s: float) -> list[str]:
        """Wait at most `within_s` for the first news, and take it with what comes a moment later.

        News that an answer to a start takes meanwhile is not waited for any more.
        """
        self.heard = time.monotonic()
        try:
            async with asyncio.timeout(within_s):
                while introduction == self.introduction:
                    await self._arrived.wait()
                    await asyncio.sleep(_GATHER_S if len(self.follows) > _FEW else 0)
                    if self._changed:
                        break
        except TimeoutError:
            pass
        return self.take(introduction)
