"""Typed programs that swap the import: mypy, which is strict here, sees the types of the originals; and they run.

Each program is here twice, with the original and with ours. A misspelt keyword is an error in both: `type: ignore` says
so, because mypy rejects an `ignore` that has nothing to ignore.
"""

from __future__ import annotations

import asyncio
import subprocess as original_subprocess
import sys
from typing import Any, assert_type

import anyio
import anyio.abc
import pytest
import trio

from holdfast.compat import anyio as compat_anyio
from holdfast.compat import asyncio_subprocess, subprocess
from holdfast.compat import trio as compat_trio

CAT = ["cat"]


def test_the_types_are_those_of_the_original() -> None:
    done = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True, timeout=60, grace=5)
    assert_type(done, subprocess.CompletedProcess[str])
    assert done.stdout.strip() == "1"
    raw = subprocess.run("echo 2", shell=True, stdout=subprocess.PIPE, check=True)
    assert assert_type(raw, subprocess.CompletedProcess[bytes]).stdout == b"2\n"
    assert assert_type(subprocess.check_output(["echo", "3"], encoding="utf-8"), str) == "3\n"
    assert assert_type(subprocess.check_output(["echo", "4"]), bytes) == b"4\n"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, memory="1G") as process:
        out, _err = assert_type(process.communicate("5"), tuple[str, str])
    assert out == "5"
    assert assert_type(subprocess.call(["true"]), int) == 0
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.check_call(["false"])
    assert assert_type(caught.value.returncode, int) == 1
    assert assert_type(process.why(), str).startswith("run ")


def test_a_misspelt_keyword_of_subprocess_is_an_error_for_mypy_and_at_run_time() -> None:
    with pytest.raises(TypeError):
        original_subprocess.run(CAT, timeuot=5)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        subprocess.run(CAT, timeuot=5)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        subprocess.Popen(CAT, graec=5)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        subprocess.call(CAT, graec=5)  # type: ignore[call-arg]


async def asyncio_before() -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*CAT, stdin=pipe, stdout=pipe, cwd="/", env={"A": "b"}, umask=0o22)
    out, _err = assert_type(await process.communicate(b"1"), tuple[bytes, bytes])
    shell = await asyncio.create_subprocess_shell("exit 3", stdout=asyncio.subprocess.DEVNULL)
    assert assert_type(await shell.wait(), int) == 3
    assert_type(process.stdout, asyncio.StreamReader | None)
    return out


async def asyncio_after() -> bytes:
    pipe = asyncio_subprocess.PIPE
    process = await asyncio_subprocess.create_subprocess_exec(
        *CAT, stdin=pipe, stdout=pipe, cwd="/", env={"A": "b"}, umask=0o22, timeout=60, grace=1, memory="1G"
    )
    out, _err = assert_type(await process.communicate(b"1"), tuple[bytes, bytes])
    shell = await asyncio_subprocess.create_subprocess_shell("exit 3", stdout=asyncio_subprocess.DEVNULL, grace=1)
    assert assert_type(await shell.wait(), int) == 3
    assert_type(process.stdout, asyncio.StreamReader | None)
    await shell.settled()
    assert_type(await process.settled(), dict[str, Any] | None)
    return out


async def asyncio_misspelt() -> None:
    with pytest.raises(TypeError):
        await asyncio.create_subprocess_exec("cat", stdni=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        await asyncio_subprocess.create_subprocess_exec("cat", stdni=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        await asyncio_subprocess.create_subprocess_shell("cat", graec=1)  # type: ignore[call-arg]


def test_asyncio() -> None:
    assert asyncio.run(asyncio_before()) == asyncio.run(asyncio_after()) == b"1"
    asyncio.run(asyncio_misspelt())


async def anyio_before() -> bytes:
    done = await anyio.run_process(CAT, input=b"1", check=False, cwd="/", env={"A": "b"})
    assert_type(done.returncode, int)
    async with await anyio.open_process("exit 3", stdin=None, stderr=None) as process:
        assert_type(process, anyio.abc.Process)
        assert assert_type(await process.wait(), int) == 3
    return done.stdout


async def anyio_after() -> bytes:
    done = await compat_anyio.run_process(CAT, input=b"1", check=False, cwd="/", env={"A": "b"}, timeout=60, grace=1)
    assert_type(done.returncode, int)
    async with await compat_anyio.open_process("exit 3", stdin=None, stderr=None, memory="1G") as process:
        assert_type(process, anyio.abc.Process)
        assert assert_type(await process.wait(), int) == 3
    assert_type(await compat_anyio.settled(process), dict[str, Any] | None)
    return done.stdout


async def anyio_misspelt() -> None:
    with pytest.raises(TypeError):
        await anyio.run_process(CAT, inptu=b"1")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        await compat_anyio.run_process(CAT, inptu=b"1")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        await compat_anyio.open_process(CAT, graec=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio(backend: str) -> None:
    assert anyio.run(anyio_before, backend=backend) == anyio.run(anyio_after, backend=backend) == b"1"
    anyio.run(anyio_misspelt, backend=backend)


async def trio_before() -> bytes:
    done = await trio.run_process(CAT, stdin=b"1", capture_stdout=True, check=False, cwd="/", env={"A": "b"})
    assert_type(done, original_subprocess.CompletedProcess[bytes])
    process = await trio.lowlevel.open_process(["sh", "-c", "exit 3"], stdin=original_subprocess.DEVNULL)
    assert assert_type(await process.wait(), int) == 3
    out: bytes = done.stdout
    return out


async def trio_after() -> bytes:
    done = await compat_trio.run_process(
        CAT, stdin=b"1", capture_stdout=True, check=False, cwd="/", env={"A": "b"}, timeout=60, grace=1
    )
    assert_type(done, original_subprocess.CompletedProcess[bytes])
    process = await compat_trio.open_process(
        ["sh", "-c", "exit 3"], stdin=original_subprocess.DEVNULL, memory="1G", umask=0o22
    )
    assert assert_type(await process.wait(), int) == 3
    assert_type(await compat_trio.settled(process), dict[str, Any] | None)
    out: bytes = done.stdout
    return out


async def trio_misspelt() -> None:
    with pytest.raises(TypeError):
        await trio.run_process(CAT, capture_stduot=True)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        await compat_trio.run_process(CAT, capture_stduot=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        await compat_trio.open_process(CAT, graec=1)  # type: ignore[call-arg]


def test_trio() -> None:
    assert trio.run(trio_before) == trio.run(trio_after) == b"1"
    trio.run(trio_misspelt)
