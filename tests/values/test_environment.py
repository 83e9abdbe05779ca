"""The environment of children: the list, its exceptions, the precedence, and that values stay private."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.values import environment
from holdfast.values.environment import (
    GUARD,
    HEARTBEAT,
    KEPT,
    RUN_ID,
    SERVICE,
    STATE_DIR,
    STRIPPED,
    child_environment,
    environment_block,
    findings,
    parent_run_id,
)

MARKS = [
    "CLAUDECODE",
    "CLAUDECODE_ANYTHING",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY",
    "AI_AGENT",
    "MCP_SESSION_ID",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "CURSOR_AGENT",
    "CURSOR_TRACE_ID",
    "GEMINI_CLI",
    "OPENCODE",
    "OPENCLAW_SHELL",
]
NEEDED = [
    "PATH",
    "HOME",
    "LANG",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "CODEX_HOME",
    "CODEX_API_KEY",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CURSOR_API_KEY",
    "OPENCODE_CONFIG",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_SUBPROCESS_ENV_SCRUB",
    "LISTEN_PORT",
    "LISTEN_ADDRESS",
    "WATCHDOG_INTERVAL",
    "XCLAUDECODE",
    "MY_CLAUDE_CODE_X",
    "claudecode",
    STATE_DIR,
    GUARD,
]


@pytest.mark.parametrize("name", MARKS)
def test_marks_of_an_outer_agent_are_stripped(name: str) -> None:
    assert child_environment({name: "1", "PATH": "/bin"}, run_id="r") == {"PATH": "/bin", RUN_ID: "r"}
    assert [finding.name for finding in findings([name, "PATH"])] == [name]


@pytest.mark.parametrize("name", NEEDED)
def test_what_a_child_needs_is_inherited(name: str) -> None:
    assert child_environment({name: "value"}, run_id="r") == {name: "value", RUN_ID: "r"}
    assert findings([name]) == []


@pytest.mark.parametrize("name", SERVICE)
def test_variables_of_the_service_manager_are_stripped(name: str) -> None:
    assert child_environment({name: "1", "PATH": "/bin"}, run_id="r") == {"PATH": "/bin", RUN_ID: "r"}
    assert findings([name]) == []  # not a mark of an agent: the doctor has nothing to say about a unit
    assert child_environment({name: "1"}, run_id="r", keep=[name]) == {name: "1", RUN_ID: "r"}


def test_every_entry_has_a_reason_and_every_exception_something_to_except() -> None:
    assert all(reason.strip() for reason in [*STRIPPED.values(), *SERVICE.values(), *KEPT.values()])
    for pattern in KEPT:
        assert any(fnmatch.fnmatchcase(pattern, stripped) for stripped in STRIPPED), pattern


def test_the_list_in_the_documentation_is_this_list() -> None:
    page = (Path(__file__).parents[2] / "docs" / "environment.md").read_text(encoding="utf-8")
    for table in (STRIPPED, SERVICE, KEPT):
        for pattern, reason in table.items():
            assert f"| `{pattern}` | {reason} |" in page
    rows = [line for line in page.splitlines() if line.startswith("| `") and not line.startswith("| `HOLDFAST_")]
    assert len(rows) == len(STRIPPED) + len(SERVICE) + len(KEPT)


def test_explicit_beats_drop_beats_keep_beats_the_list() -> None:
    base = {"CLAUDECODE": "outer", "GEMINI_CLI": "outer", "PLAIN": "outer"}
    listed = child_environment(base, run_id="r")
    assert set(listed) == {"PLAIN", RUN_ID}
    kept = child_environment(base, run_id="r", keep=["CLAUDE*", "GEMINI_CLI"])
    assert set(kept) == {"CLAUDECODE", "GEMINI_CLI", "PLAIN", RUN_ID}
    dropped = child_environment(base, run_id="r", keep=["CLAUDE*"], drop=["CLAUDECODE", "PL*"])
    assert set(dropped) == {RUN_ID}
    explicit = child_environment(base, run_id="r", extra={"CLAUDECODE": "mine"}, keep=["CLAUDE*"], drop=["*"])
    assert explicit == {"CLAUDECODE": "mine", RUN_ID: "r"}
    assert base == {"CLAUDECODE": "outer", "GEMINI_CLI": "outer", "PLAIN": "outer"}


def test_our_own_variables_are_those_of_this_run() -> None:
    outer = {RUN_ID: "outer", HEARTBEAT: "/outer", STATE_DIR: "/state", GUARD: "/guard"}
    inner = child_environment(outer, run_id="inner")
    assert inner == {RUN_ID: "inner", STATE_DIR: "/state", GUARD: "/guard"}


def test_nobody_can_talk_a_child_out_of_its_token() -> None:
    outer = {RUN_ID: "outer", HEARTBEAT: "/outer"}
    assert child_environment({}, run_id="inner", extra=outer, keep=["*"]) == {RUN_ID: "inner"}
    assert child_environment(outer, run_id="inner", keep=["HOLDFAST_*"]) == {RUN_ID: "inner"}
    assert child_environment(outer, run_id="inner", drop=["*"]) == {RUN_ID: "inner"}


@pytest.mark.parametrize(
    ("environ", "parent"),
    [
        ({}, None),
        ({RUN_ID: "01m7gaydj9p7kt45rqb6"}, "01m7gaydj9p7kt45rqb6"),
        ({RUN_ID: ""}, None),
        ({RUN_ID: "../x"}, None),
    ],
)
def test_the_parent_is_read_from_the_token(environ: dict[str, str], parent: str | None) -> None:
    assert parent_run_id(environ) == parent


def test_a_real_child_gets_it_byte_for_byte() -> None:
    raw = b"\xff\xfe=caf\xc3\xa9\n"
    base = {"CLAUDECODE": "1", "RAW": os.fsdecode(raw), os.fsdecode(b"N\xff"): "x", "PATH": os.environ["PATH"]}
    child = child_environment(base, run_id="r")
    program = "import os,sys; sys.stdout.buffer.write(b''.join(k+b'='+v+b'\\0' for k,v in os.environb.items()))"
    printed = subprocess.run([sys.executable, "-c", program], env=child, capture_output=True, check=True).stdout
    seen = {entry for entry in printed.split(b"\0") if entry and not entry.startswith(b"LC_CTYPE=")}
    assert seen == {entry for entry in environment_block(child).split(b"\0") if entry}
    assert b"RAW=" + raw in seen
    assert b"N\xff=x" in seen
    assert b"CLAUDECODE=1" not in seen


def test_a_block_is_one_terminated_string_per_variable() -> None:
    assert environment_block({"A": "1", "B": ""}) == b"A=1\0B=\0"
    assert environment_block({}) == b""


def test_findings_carry_reasons_and_no_values() -> None:
    found = findings({"CLAUDECODE": "hunter2", "AI_AGENT": "hunter2"})
    assert [finding.name for finding in found] == ["AI_AGENT", "CLAUDECODE"]
    assert all(finding.reason == STRIPPED[finding.name] for finding in found)
    assert "hunter2" not in repr(found)


def test_the_memory_of_names_is_bounded() -> None:
    for number in range(10_000):
        findings([f"NAME_{number}"])
    assert [finding.name for finding in findings(["CLAUDECODE", "NAME_1"])] == ["CLAUDECODE"]
    assert len(environment._remembered) <= 4096  # noqa: SLF001 - the bound has no outside


NAMES = st.text(alphabet="AB_", max_size=6)
PATTERNS = st.text(alphabet="AB_*", max_size=6)


@given(NAMES, PATTERNS)
def test_a_star_means_what_it_means_in_fnmatch(name: str, pattern: str) -> None:
    inherited = name in child_environment({name: "x"}, run_id="r", drop=[pattern])
    assert inherited is not fnmatch.fnmatchcase(name, pattern)
