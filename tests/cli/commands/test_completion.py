"""`holdfast completion`: every command and option is in every script, and bash does what the script says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.cli.commands.completion import tables

from ..console import holdfast
from ..kept_runs import one_line

if TYPE_CHECKING:
    from ..kept_runs import Runs


def completions(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    script = holdfast("completion", "bash").stdout.decode()
    command = f'holdfast() {{ {sys.executable} -m holdfast.cli.main "$@"; }}'
    typed = " ".join(f"'{word}'" for word in ("holdfast", *words))
    ask = f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _holdfast; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", f"{command}\n{script}\n{ask}"], capture_output=True, check=True)
    return done.stdout.decode().split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_there(shell: str) -> None:
    done = holdfast("completion", shell)
    assert (done.returncode, done.stderr) == (0, b"")
    script = done.stdout.decode()
    for name, table in tables().items():
        assert name in script
        for option in table:
            assert (
                f"-l {option.flag[2:]}" if shell == "fish" and option.flag.startswith("--") else option.flag
            ) in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_it(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"allowed: {shell} is not installed, and another test has looked at the text of its script")
    script = holdfast("completion", shell).stdout
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_bash_completes() -> None:
    assert completions("wa") == ["wait"]
    assert completions("logs", "--f") == ["--follow"]
    assert completions("run", "--max-") == ["--max-timeout", "--max-output"]


def test_a_session_is_offered_where_a_session_is_wanted(runs: Runs) -> None:
    run_id = runs.ended("true", options=("--session", "nightly"))
    assert completions("cancel", "") == [run_id]
    assert completions("cancel", "--session", "") == ["nightly"]
    assert completions("cancel", "--session", "x") == []


def test_another_shell() -> None:
    assert "write holdfast completion bash|zsh|fish" in one_line(holdfast("completion", "tcsh"))
    assert "write holdfast completion bash|zsh|fish" in one_line(holdfast("completion"))
