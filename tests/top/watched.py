"""`Top` in a terminal that exists in memory only, and its screen."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.top.app import Top

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

    from holdfast.top.run_source import RunSource

BOUND_S = 60.0


class WatchedTop(Top):
    """A `Top` that says when it has shown something new."""

    def __init__(self, source: RunSource) -> None:
        super().__init__(source)
        self.shown = asyncio.Event()

    def post_display_hook(self) -> None:
        self.shown.set()


class Watch:
    """One `Top` and its keyboard."""

    def __init__(self, app: WatchedTop, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    def screen(self) -> str:
        """The screen of the user, line by line."""
        strips = self.app.screen._compositor.render_strips()  # noqa: SLF001 - the only way to the text itself
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    def styles(self) -> list[str]:
        """Every style on the screen, after the filters."""
        strips = self.app.screen._compositor.render_strips()  # noqa: SLF001 - the same
        return [str(segment.style) for strip in strips for segment in strip if segment.style is not None]

    async def until(self, condition: Callable[[str], bool]) -> str:
        """The screen when this holds; the test looks whenever something new is shown."""
        try:
            async with asyncio.timeout(BOUND_S):
                while True:
                    self.app.shown.clear()
                    await self.pilot.pause()
                    if condition(self.screen()):
                        return self.screen()
                    await self.app.shown.wait()
        except TimeoutError:
            raise AssertionError(f"it does not come:\n{self.screen()}") from None

    async def until_text(self, *texts: str) -> str:
        """The screen when all of these are on it."""
        return await self.until(lambda screen: all(text in screen for text in texts))


@asynccontextmanager
async def watching(source: RunSource, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Watch]:
    """`Top` on this source, which is closed at the end."""
    try:
        app = WatchedTop(source)
        async with app.run_test(size=size) as pilot:
            yield Watch(app, pilot)
    finally:
        await source.close()
