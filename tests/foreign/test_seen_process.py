"""A process as one look shows it, also when its environment is hostile."""

from __future__ import annotations

import subprocess

import pytest

from holdfast.foreign.seen_process import look_at


@pytest.mark.parametrize(
    ("text", "number"),
    [("4711", 4711), ("²", None), ("٣", None), pytest.param("9" * 5000, None, id="long"), ("-1", None), ("", None)],
)
def test_what_a_harness_wrote_down_may_be_no_pid(text: str, number: int | None) -> None:
    # A process has no command line and no environment for a moment of its exec, in which its parent goes on already.
    line, variables = "echo ready; read line", {"PATH": "/usr/bin:/bin", "OPENCODE_PID": text}
    with subprocess.Popen(["sh", "-c", line], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            seen = look_at(process.pid)
            assert seen is not None
            assert seen.harness is not None
            assert (seen.harness.name, seen.harness_pid) == ("opencode", number)
        finally:
            process.kill()
