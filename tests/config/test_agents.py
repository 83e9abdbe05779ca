"""Agents in the configuration: what they may say, how mistakes are told, and that no value of an environment is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast import ConfigError
from holdfast.config import load_config

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.config import Effective

WHOLE = """
[agents.claude]
command = ["claude", "-p"]
answer = "json:result"
description = "Claude Code"
timeout = "10m"
idle_timeout = 90
idle_counts = ["output", "cpu"]
memory = "2G"
ladder = "INT:2s,TERM:8s,KILL"
warn_before = "30s"
warn_signal = "USR2"
env = { API_KEY = "hush" }
priority = 3
queue_timeout = "1h"

[agents.script]
command = ["bash", "-c", "ask --text={prompt}"]
"""


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Takes the place of the check for processes and descriptors: this only reads files."""


def load(tmp_path: Path, text: str) -> Effective:
    (tmp_path / "config.toml").write_text(text)
    return load_config({}, {"HOME": str(tmp_path / "home")}, state_dir=str(tmp_path))


def test_an_agent_becomes_the_fields_of_a_posted_run(tmp_path: Path) -> None:
    found = load(tmp_path, WHOLE)
    claude, script = found.config.agents["claude"], found.config.agents["script"]
    assert (claude.command, claude.prompt, claude.answer) == (("claude", "-p"), "argument", "json:result")
    assert claude.options == {
        "timeout_s": 600.0,
        "idle_timeout_s": 90.0,
        "idle_counts": ["output", "cpu"],
        "memory_bytes": 2 << 30,
        "ladder": "INT:2s,TERM:8s,KILL",
        "warn_before_s": 30.0,
        "warn_signal": "SIGUSR2",
        "env": {"API_KEY": "hush"},
        "priority": 3,
        "queue_timeout_s": 3600.0,
    }
    assert (script.prompt, script.answer, script.options) == ("template", "text", {})
    assert found.sources["agents"].where == f"{tmp_path / 'config.toml'}:2"


def test_values_of_the_environment_are_not_told(tmp_path: Path) -> None:
    found = load(tmp_path, WHOLE)
    assert "hush" not in repr(found) + repr(found.config.agents) + str(found.config.agents["claude"])
    assert "agents=claude, script" in repr(found.config)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("agents = 3", "1: agents is a number: it has to be a table of tables"),
        ("[agents]\nx = 3", "2: agents.x is not a table: write [agents.x], and its settings below"),
        ("[agents.x]\nprompt = 'stdin'", "1: agents.x.command is not a list of text: write the program"),
        ("[agents.x]\ncommand = 'claude -p'", "2: agents.x.command is not a list of text: write the program"),
        ("[agents.x]\ncommand = []", "2: agents.x.command is not a list of text: write the program"),
        ("[agents.x]\ncommand = ['a']\ntimeot = 3", "3: agents.x.timeot is unknown: did you mean timeout?"),
        ("[agents.x]\ncommand = ['a']\nstdin = 'null'", "3: agents.x.stdin is unknown"),
        ("[agents.x]\ncommand = ['a']\ntimeout = '1x'", "3: agents.x.timeout: timeout '1x' is not a duration"),
        ("[agents.x]\ncommand = ['a']\nmemory = -1", "3: agents.x.memory: memory"),
        ("[agents.x]\ncommand = ['a']\ncwd = 'here'", "3: agents.x.cwd is relative: give an absolute path"),
        ("[agents.x]\ncommand = ['a']\nprompt = 'file'", "3: agents.x.prompt 'file' is unknown: use one of argument"),
        ("[agents.x]\ncommand = ['a']\nprompt = 'template'", "3: agents.x.prompt does not fit the command"),
        ("[agents.x]\ncommand = ['a', '{prompt}']\nprompt = 'stdin'", "3: agents.x.prompt does not fit the command"),
        ("[agents.x]\ncommand = ['a']\nanswer = 'json:'", "3: agents.x.answer 'json:' is unknown: use text, last_line"),
        ("[agents.x]\ncommand = ['a']\npriority = 1001", "3: agents.x.priority is not a priority"),
        ("[agents.x]\ncommand = ['a']\nqueue_timeout = '?'", "3: agents.x.queue_timeout '?' is not a duration"),
        ("[agents.'a b']\ncommand = ['a']", "1: agents has the name 'a b': use 1 to 64 letters"),
    ],
)
def test_mistakes_are_told_with_file_line_and_name(tmp_path: Path, text: str, mistake: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).removeprefix(f"{tmp_path}/config.toml:").startswith(mistake)
