"""The process table: what a process says of itself cannot change what the kernel says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.foreign.seen_process import look_at
from holdfast.proc.process_table import uid_of, with_ancestors

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMED = "open('/proc/self/comm', 'w', newline='').write({name!r}); print(flush=True); input()"


@contextmanager
def process_named(name: str) -> Iterator[int]:
    command = [sys.executable, "-c", NAMED.format(name=name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize(
    "name", ["x\rPPid:\t1", "x\rPPid:", "x\rPPid:\tx", "x\rUid:\t77", "x\nUid:\t77", ") S 1 (\x1b[2J"]
)
def test_a_name_that_looks_like_another_line_changes_nothing(name: str) -> None:
    with process_named(name) as pid:
        assert with_ancestors(pid)[:2] == [pid, os.getpid()]
        assert uid_of(pid) == os.getuid()
        seen = look_at(pid)
        assert seen is not None
        assert (seen.parent, seen.uid) == (os.getpid(), os.getuid())
