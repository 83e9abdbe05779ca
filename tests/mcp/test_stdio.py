"""The wire: lines in, lines out, through pipes and files, without taking the descriptors from others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import pytest

from holdfast.mcp.stdio import LineReader, TextWriter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_lines_come_whole_however_they_arrive() -> None:
    reading, writing = os.pipe()
    reader = LineReader(reading)
    found = []
    async with anyio.create_task_group() as group:

        async def read() -> None:
            found.extend([line async for line in reader])

        group.start_soon(read)
        for piece in (b"on", b"e\ntwo\n\nth", b"r\xc3", b"\xa9e\n", b"\xff\n", b"last"):
            await anyio.wait_all_tasks_blocked()  # so that each piece is read by itself
            os.write(writing, piece)
        os.close(writing)
    os.close(reading)
    assert found == ["one", "two", "", "thr\u00e9e", "\ufffd", "last"]


async def test_reading_can_be_given_up() -> None:
    reading, writing = os.pipe()
    with anyio.move_on_after(0.05) as scope:
        await anext(LineReader(reading))
    assert scope.cancelled_caught
    os.close(reading)
    os.close(writing)


async def test_reading_ends_when_it_is_told_to() -> None:
    reading, writing = os.pipe()
    reader, found = LineReader(reading), []
    async with anyio.create_task_group() as group:

        async def read() -> None:
            found.extend([line async for line in reader])

        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        reader.end()  # while it waits, and nobody has closed the pipe
    os.write(writing, b"one\ntwo\n")
    assert [line async for line in reader] == found == []
    another = LineReader(reading)
    assert await anext(another) == "one"
    another.end()  # the bytes that it has read by then are forgotten, too
    assert [line async for line in another] == []
    os.close(reading)
    os.close(writing)


async def test_a_slow_reader_is_waited_for_and_the_pipe_stays_as_it_was() -> None:
    reading, writing = os.pipe()
    text = "0123456789abcde\n" * 20_000  # more than a pipe takes
    async with anyio.create_task_group() as group:
        group.start_soon(TextWriter(writing).write, text)
        await anyio.wait_all_tasks_blocked()
        seen = b""
        while len(seen) < len(text):
            await anyio.wait_readable(reading)
            seen += os.read(reading, 1 << 16)
    assert seen.decode() == text
    assert os.get_blocking(writing)
    os.close(reading)
    await TextWriter(writing).write(text)  # nobody reads any more: that is no error here
    os.close(writing)


async def test_files_will_do(tmp_path: Path) -> None:
    path = tmp_path / "file"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    await TextWriter(fd).write("one\ntwo\n")
    os.lseek(fd, 0, os.SEEK_SET)
    assert [line async for line in LineReader(fd)] == ["one", "two"]
    os.close(fd)
