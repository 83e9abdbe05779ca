"""Prompts of agents: where they go, and that a client cannot make an option of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast import SpecError
from holdfast.config.agents import Agent
from holdfast.daemon.agents.prompt import argv_of
from holdfast.daemon.agents.prompt_files import PromptFiles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Takes the place of the check for processes and descriptors: nothing is started here."""


def agent(prompt: str, *command: str) -> Agent:
    return Agent("a", command, prompt, "text", "", {})


@pytest.mark.parametrize(
    ("made", "prompt", "argv"),
    [
        (agent("argument", "claude", "-p"), "hi", ["claude", "-p", "hi"]),
        (agent("argument", "claude", "-p"), "--yolo", ["claude", "-p", " --yolo"]),
        (agent("argument", "codex", "--"), "--yolo", ["codex", "--", "--yolo"]),
        (agent("template", "a", "{prompt}", "-x"), "-y", ["a", " -y", "-x"]),
        (agent("template", "a", "--text={prompt}"), "-y", ["a", "--text=-y"]),
        (agent("template", "a", "--", "{prompt}"), "-y", ["a", "--", "-y"]),
        (agent("template", "a", "{prompt}", "--"), "-y", ["a", " -y", "--"]),
        (agent("stdin", "cat"), "--version\0", ["cat"]),
    ],
)
def test_where_it_goes(made: Agent, prompt: str, argv: list[str]) -> None:
    assert argv_of(made, prompt) == argv


@pytest.mark.parametrize("prompt", ["", " \n", "a\0b", "x" * (128 << 10)])
def test_what_is_refused(prompt: str) -> None:
    with pytest.raises(SpecError) as refused:
        argv_of(agent("argument", "a"), prompt)
    assert refused.value.field == "prompt"


def test_files_are_private_and_written_once(tmp_path: Path) -> None:
    files = PromptFiles(str(tmp_path))
    assert files.write("run-1", "first") is True
    assert files.write("run-1", "second") is False
    path = tmp_path / "prompts" / "run-1"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("first", 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert files.write("run-2", "") is True
    files.sweep(lambda run_id: run_id == "run-1")
    assert [found.name for found in path.parent.iterdir()] == ["run-1"]
    files.remove("run-1")
    files.remove("run-1")
    assert list(path.parent.iterdir()) == []
