"""The table of harnesses: its marks are those that Holdfast strips, and it names the session of an environment."""

from __future__ import annotations

from holdfast.values.environment import STRIPPED
from holdfast.values.harnesses import HARNESSES, session_of

# Marks that any agent may leave, so they tell no harness.
OF_ANY_AGENT = {"AI_AGENT", "MCP_SESSION_ID"}


def test_every_mark_is_stripped_and_belongs_to_one_harness() -> None:
    marks = [mark for harness in HARNESSES for mark in harness.marks]
    assert len(marks) == len(set(marks))
    assert set(marks) == set(STRIPPED) - OF_ANY_AGENT


def test_names_are_unique() -> None:
    assert len({harness.name for harness in HARNESSES}) == len(HARNESSES)


def test_the_session_of_an_environment() -> None:
    assert session_of({}) is None
    assert session_of({"CLAUDECODE": "1"}) is None
    assert session_of({"CLAUDE_CODE_SESSION_ID": ""}) is None
    assert session_of({"CLAUDE_CODE_SESSION_ID": "abc"}) == "claude-abc"
    assert session_of({"CODEX_SESSION_ID": "root", "CODEX_THREAD_ID": "own"}) == "codex-root"
    assert session_of({"CODEX_THREAD_ID": "x", "HOLDFAST_SESSION": "mine"}) == "mine"
