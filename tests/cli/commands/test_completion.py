"""`holdfast completion`: every command and option is in every script, and bash does what the script says."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from holdfast.cli.commands.completion import tables

from ..console import holdfast
from ..kept_runs import one_line


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
        return  # the other test has looked at its text
    script = holdfast("completion", shell).stdout
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_bash_completes() -> None:
    script = holdfast("completion", "bash").stdout.decode()

    def complete(*words: str) -> list[str]:
        typed = " ".join(f"'{word}'" for word in ("holdfast", *words))
        ask = f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _holdfast; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, check=True)
        return done.stdout.decode().split()

    assert complete("wa") == ["wait"]
    assert complete("logs", "--f") == ["--follow"]
    assert complete("run", "--max-") == ["--max-timeout", "--max-output"]


def test_another_shell() -> None:
    assert "write holdfast completion bash|zsh|fish" in one_line(holdfast("completion", "tcsh"))
    assert "write holdfast completion bash|zsh|fish" in one_line(holdfast("completion"))
