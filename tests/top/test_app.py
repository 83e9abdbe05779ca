"""`holdfast top` on a state directory: real runs, a keyboard, and the screen."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from textual.containers import VerticalScroll

from holdfast.guard import packets
from holdfast.projections.report import report as project
from holdfast.top.directory_source import DirectorySource
from holdfast.top.run_source import TAIL_BYTES, LogTail, Snapshot
from holdfast.values.errors import RequestError

from ..support.durable import DurableRun
from .watched import watching

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from holdfast.state.directory import StateDirectory

pytestmark = pytest.mark.anyio
SLEEPER = ["sh", "-c", "echo ready; exec sleep 600"]


@contextmanager
def live(state: StateDirectory, argv: list[str] = SLEEPER, **options: Any) -> Iterator[DurableRun]:
    """A run that its guard ends, if the test did not."""
    with DurableRun(state, argv, **options) as run:
        run.until_ready()
        yield run
        with run.record() as record:
            over = record.reader.ended
        if not over:
            run.handle.control.send(packets.stop(1, "user", "", now=True))
            run.until_ended()


def ended(state: StateDirectory, *argv: str, **options: Any) -> str:
    with DurableRun(state, argv, **options) as run:
        run.until_ended()
        return run.run_id


def damage(state: StateDirectory, run_id: str) -> None:
    Path(state.run_path(run_id), "journal").write_bytes(b"no journal at all, only words")


def kinds(run: DurableRun) -> list[str]:
    with run.record() as record:
        return [fact.kind for fact in record.reader.facts]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_runs_log_and_evidence(state: StateDirectory, size: tuple[int, int]) -> None:
    failed = ended(state, "sh", "-c", "echo one; echo two >&2; exit 3", name="broken")
    with live(state, name="agent", session="ci") as run:
        async with watching(DirectorySource(state), size) as top:
            footer = "? Help q Quit c Cancel"  # textual draws it after the rest
            screen = await top.until_text("1 running", "failed/exit", f"log of {run.run_id}", "\nready", footer)
            lines = screen.splitlines()
            assert len(lines) == size[1]
            assert all(len(line) <= size[0] for line in lines)
            rows = [line for line in lines if "agent" in line or "broken" in line]
            assert ["running" in rows[0], "ci" in rows[0], "broken: sh -c" in rows[1]] == [True] * 3
            assert footer in lines[-1]
            await top.press("down")
            await top.until_text(f"log of {failed}", "\none\ntwo")
            await top.press("e")
            screen = await top.until_text("evidence of", "failed, cause exit", "=>", "the command exited with code 3")
            await top.press("i")
            await top.until_text("report of", "exit code     3", "tree          gone")
            await top.press("up", "l")
            await top.until_text(f"log of {run.run_id}", "following")


async def test_output_is_followed_and_only_its_end_is_read(state: StateDirectory) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo ready; read x; echo more; sleep 600"
    with live(state, ["sh", "-c", script], stdin="pipe") as run:
        source = DirectorySource(state)
        async with watching(source) as top:
            await top.until_text("line 19999", "\nready")
            tail = await source.tail(run.run_id)
            assert (len(tail.data), tail.cut) == (TAIL_BYTES, True)
            await top.until_text("waiting for input")
            assert run.handle.input is not None
            os.write(run.handle.input, b"go\n")
            await top.until_text("\nmore")


async def test_the_end_is_shown_however_late_it_is_laid_out(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scroll at the change finds the old layout on a busy machine: here always."""
    scroll_end = VerticalScroll.scroll_end

    def scroll_at_once(self: VerticalScroll, **options: Any) -> None:
        scroll_end(self, **{**options, "immediate": True})

    monkeypatch.setattr(VerticalScroll, "scroll_end", scroll_at_once)
    script = "seq 1 500; echo ready; read x; seq 501 900; sleep 600"
    with live(state, ["sh", "-c", script], stdin="pipe") as run:
        async with watching(DirectorySource(state)) as top:
            await top.until_text("\n499\n500\nready")
            assert run.handle.input is not None
            os.write(run.handle.input, b"go\n")
            await top.until_text("\n899\n900")


async def test_cancel_needs_a_yes(state: StateDirectory) -> None:
    with live(state, name="agent") as run:
        async with watching(DirectorySource(state)) as top:
            await top.until_text("1 running")
            for no in ("n", "escape"):
                await top.press("c")
                await top.until_text(f"Cancel run {run.run_id} (agent)?", "y  yes")
                await top.press(no)
                await top.until(lambda screen: "y  yes" not in screen)
            assert "stop_asked" not in kinds(run)
            await top.press("c", "y")
            await top.until_text("cancelled/user", "0 running")
            run.until_ended()
            assert "stop_asked" in kinds(run)
            await top.press("c")
            await top.pilot.pause()
            assert len(top.app.screen_stack) == 1  # there is nothing to ask


async def test_cancel_now_kills(state: StateDirectory) -> None:
    deaf = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 600; done"]
    with live(state, deaf, grace=600) as run:
        async with watching(DirectorySource(state)) as top:
            await top.until_text("1 running")
            await top.press("C", "y")
            await top.until_text("cancelled/user", "0 running")
        run.until_ended()
        with run.record() as record:
            assert record.report()["signal"] == 9


async def test_extend_moves_the_deadline(state: StateDirectory) -> None:
    with live(state, timeout=600) as run:
        async with watching(DirectorySource(state)) as top:
            await top.until_text("1 running")
            await top.press("x")
            await top.until_text("How much more time", "10m")
            await top.press("enter", "e")
            await top.until_text("its deadline was moved to 20m")
            await top.press("x")
            await top.press("escape")
        assert kinds(run).count("extended") == 1


async def test_tree_filter_and_sort(state: StateDirectory) -> None:
    ended(state, "sh", "-c", "exit 1", name="other", session="night")
    with live(state, name="parent") as parent, live(state, name="inner", parent=parent.run_id):
        async with watching(DirectorySource(state)) as top:
            await top.until_text("parent: sh", "└ inner: sh", "other: sh")
            await top.press("t")
            await top.until(lambda screen: "└" not in screen)
            await top.press("slash", *"session:n")
            await top.until(lambda screen: "other: sh" in screen and "parent: sh" not in screen)
            await top.press("enter", "escape")
            await top.until_text("parent: sh", "other: sh")
            await top.press("slash", *"status:f", "enter")
            await top.until(lambda screen: "parent: sh" not in screen and "failed/exit" in screen)
            await top.press("escape", "s")
            await top.until_text("sort: oldest")
            await top.press("a")
            await top.until(lambda screen: "other: sh" not in screen and "parent: sh" in screen)
            await top.press("question_mark")
            await top.until_text("ask the run to end", "the runs go on")
            await top.press("space")
            await top.press("enter")
            screen = await top.until(lambda screen: "the runs go on" not in screen and "STATE" not in screen)
            assert "log of" in screen
            await top.press("escape")
            await top.until_text("STATE")


EVIL = r"\033]0;title\007\033[2J\033[?1049l\033c\2332J\033]52;c;eA==\007\033[31mred\033[0m"
MARKUP = "[b]bold[/b] [@click=app.quit]x[/]"


async def test_nothing_a_run_says_reaches_the_terminal(state: StateDirectory) -> None:
    argv = [
        "sh",
        "-c",
        f"printf '{EVIL} {MARKUP}\\nready\\n'; exec sleep 600",
        "\x1b]0;argv\x07",
        "[@click=app.quit]y[/]",
    ]
    with live(state, argv, name="[red]name[/red]", labels={"a": "[b]"}):
        async with watching(DirectorySource(state), (200, 30)) as top:
            screen = await top.until_text("\nready", "[red]name[/red]: sh", f"red {MARKUP}")
            # The negative control is in the same bytes: the colour, which is kept, has become a style.
            assert any("color(1)" in style for style in top.styles())
            for shows in ("e", "i", "c"):
                await top.press(shows)
                await top.pilot.pause()
                screen += top.screen()
            assert "\\x1b]0;argv\\x07" in screen
            assert all(character == "\n" or character.isprintable() for character in screen)
            assert not any("link" in style for style in top.styles())


async def test_without_colour(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(state, "sh", "-c", r"printf '\033[31mred\n'; exit 1")

    async def colours() -> set[str]:
        async with watching(DirectorySource(state)) as top:
            await top.until_text("failed/exit", "\nred")
            filters = [one for one in top.app._filters if one.enabled]  # noqa: SLF001 - what the driver is given
            strips = top.app.screen._compositor.render_strips()  # noqa: SLF001
            found = set()
            for strip in strips:
                segments = list(strip)
                for one in filters:
                    segments = one.apply(segments, top.app.background_colors[1])
                styles = [segment.style for segment in segments if segment.style is not None]
                found |= {style.color.name for style in styles if style.color is not None}
            return found - {"default"}

    assert await colours()  # the control: there are some without it
    monkeypatch.setenv("NO_COLOR", "1")
    assert await colours() == set()


class Restless:
    """A source with constant changes."""

    where = "memory"

    def __init__(self) -> None:
        self.looks = 0

    async def runs(self) -> Snapshot:
        self.looks += 1
        one = {**project(None, {"argv": ["true"]}, ()), "run_id": "a", "state": "running"}
        return Snapshot([{**one, "output": {"stdout_bytes": self.looks}}])

    async def changes(self) -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(0)
            yield

    async def tail(self, run_id: str) -> LogTail:
        self.looks += 1
        return LogTail(f"{run_id} {self.looks}".encode(), cut=False)

    async def output_changes(self, run_id: str) -> AsyncGenerator[None, None]:
        del run_id
        async for change in self.changes():
            yield change

    async def cancel(self, run_id: str, *, now: bool) -> None:
        raise RequestError(f"it refused [b]and said so[/b] {now}", run_id=run_id)

    async def extend(self, run_id: str, seconds: float) -> None:
        raise RequestError(f"no {seconds}", run_id=run_id)

    async def close(self) -> None:
        pass


async def test_leaving_while_everything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.top.app._LEAST_S", 0.01)
    async with watching(Restless()) as top:
        await top.until_text("1 running", "log of a")


async def test_a_refusal_is_told_and_ends_nothing() -> None:
    async with watching(Restless()) as top:
        told: list[str] = []
        top.app.notify = lambda message, **options: told.append(f"{message} {options}")  # type: ignore[method-assign]
        await top.until_text("1 running")
        await top.press("c", "y")
        await top.until(lambda _: bool(told))
        assert told == ["it refused [b]and said so[/b] False (run a) {'severity': 'error', 'markup': False}"]


async def test_a_run_that_cannot_be_read_is_shown_and_stops_nothing(state: StateDirectory) -> None:
    run_id = ended(state, "true")
    with live(state, name="agent"):
        damage(state, run_id)
        async with watching(DirectorySource(state)) as top:
            await top.until_text("1 running", "agent: sh", "lost/guard")
