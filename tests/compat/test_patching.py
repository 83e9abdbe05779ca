"""`holdfast.compat.patch`: a whole program uses the drop-ins, and what is not covered is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.guard

# Each function says whether the process that it starts is a run.
PROGRAM = """
import asyncio, os, subprocess, sys
import anyio, trio
from subprocess import Popen as taken_before, run as run_before
import holdfast.compat

SAY = ["sh", "-c", "test -n \\"$HOLDFAST_RUN_ID\\" && echo run || echo plain"]

def by_run(): return subprocess.run(SAY, stdout=subprocess.PIPE).stdout
def by_popen(): return subprocess.Popen(SAY, stdout=subprocess.PIPE).communicate()[0]
def by_output(): return subprocess.check_output(SAY)
def by_run_before(): return run_before(SAY, stdout=subprocess.PIPE).stdout
def by_class_before(): return taken_before(SAY, stdout=subprocess.PIPE).communicate()[0]

async def created():
    process = await asyncio.create_subprocess_exec(*SAY, stdout=subprocess.PIPE)
    return (await process.communicate())[0]
def by_asyncio(): return asyncio.run(created())

async def looped():
    done = asyncio.Event()
    class Reader(asyncio.SubprocessProtocol):
        def pipe_data_received(self, fd, data): self.data = data
        def connection_lost(self, why): done.set()
    _, protocol = await asyncio.get_running_loop().subprocess_exec(Reader, *SAY, stdin=None, stderr=None)
    await done.wait()
    return protocol.data
def by_loop(): return asyncio.run(looped())

async def anyioed(): return (await anyio.run_process(SAY)).stdout
def by_anyio(): return anyio.run(anyioed)
def by_anyio_on_trio(): return anyio.run(anyioed, backend="trio")
async def trioed(): return (await trio.run_process(SAY, capture_stdout=True)).stdout
def by_trio(): return trio.run(trioed)

WAYS = (by_run, by_popen, by_output, by_run_before, by_class_before, by_asyncio, by_loop, by_anyio, by_anyio_on_trio,
        by_trio)
def say(): print(" ".join(way().decode().strip() for way in WAYS), flush=True)

say()
with holdfast.compat.patch() as patch:
    say()
    print(" ".join(patch.missed))
    print("subprocess.Popen" in patch.covered, any("os.system" in way for way in patch.uncovered), "fork" in str(patch))
say()
kept = holdfast.compat.patch()
say()
kept.undo()
kept.undo()
say()
"""


def test_a_patched_program_starts_runs_and_names_the_rest() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, timeout=100, check=True)
    plain = " ".join(["plain"] * 10)
    runs = "run run run run plain run run run run run"
    lines = done.stdout.splitlines()
    assert lines == [plain, runs, "__main__.taken_before", "True True True", plain, runs, plain]


def test_a_derived_class_is_named() -> None:
    program = (
        "import subprocess\nclass Mine(subprocess.Popen): pass\nimport holdfast.compat as c\nprint(c.patch().missed)"
    )
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert "__main__.Mine" in said.stdout
