"""The look from outside: what is said of the processes of a cell does not depend on who waits for them."""

from __future__ import annotations

import subprocess
import sys

from conformance.oracle import Leaf

_GREW = "data = b'x' * (64 << 20); del data; print('ready', flush=True); input()"


def test_the_memory_of_a_process_that_nobody_has_waited_for_yet_counts() -> None:
    leaf = Leaf("peak")
    try:
        assert leaf.path is None or leaf.peak_mib() == 0
        with subprocess.Popen(
            [sys.executable, "-c", _GREW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=leaf.enter
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert leaf.peak_mib() >= 64
            process.communicate(b"\n")
    finally:
        leaf.close()
