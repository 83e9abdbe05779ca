"""The oracle looks from outside: its answer about a process does not depend on who waits for the process."""

from __future__ import annotations

import subprocess
import sys

from conformance.oracle import peak_kib

_GREW = "data = b'x' * (64 << 20); del data; print('ready', flush=True); input()"


def test_the_memory_of_a_process_that_nobody_has_waited_for_yet_counts() -> None:
    with subprocess.Popen([sys.executable, "-c", _GREW], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert peak_kib(process.pid) >= 64 << 10
        process.communicate(b"\n")
    assert peak_kib(process.pid) == 0
