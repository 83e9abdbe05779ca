"""The table of agent harnesses: the marks each leaves in the environment, its session variable, its program names.

A harness is a program that runs an agent and starts commands for it. The marks are names of `environment.STRIPPED`, so
one list says what Holdfast strips and what tells a process of a harness; a test compares the two.
"""

from __future__ import annotations

from .environment import SESSION
from .fast_imports import Mapping, NamedTuple


class Harness(NamedTuple):
    """One harness. `sessions`: variables of its tool commands that name the session, the most exact first."""

    name: str
    title: str
    marks: tuple[str, ...]
    sessions: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    pids: tuple[str, ...] = ()  # variables that hold the PID of the harness
    tool_mark: tuple[str, str, str] | None = None  # a variable, and how its value begins and ends in a tool command


HARNESSES: tuple[Harness, ...] = (
    Harness(
        "claude",
        "Claude Code",
        ("CLAUDECODE", "CLAUDECODE_*", "CLAUDE_CODE_*", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_PID", "CLAUDE_SESSION_ID"),
        ("CLAUDE_CODE_SESSION_ID", "CLAUDE_SESSION_ID"),
        ("claude",),
        ("CLAUDE_PID",),
        ("AI_AGENT", "claude-code_", "_agent"),  # for hooks and MCP servers it ends with _harness
    ),
    Harness(
        "codex",
        "Codex",
        (
            *("CODEX_CI", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "CODEX_PERMISSION_PROFILE", "CODEX_SANDBOX"),
            *("CODEX_SESSION_ID", "CODEX_SHELL", "CODEX_THREAD_ID"),
        ),
        ("CODEX_SESSION_ID", "CODEX_THREAD_ID"),  # the session of an agent, and the thread of a subagent in it
        ("codex",),
    ),
    Harness("gemini", "Gemini CLI", ("GEMINI_CLI",), (), ("gemini",)),
    Harness(
        "opencode",
        "OpenCode",
        ("OPENCODE", "OPENCODE_CLIENT", "OPENCODE_PID", "OPENCODE_PROCESS_ROLE", "OPENCODE_RUN_ID"),
        (),
        ("opencode",),
        ("OPENCODE_PID",),
    ),
    Harness("cursor", "Cursor", ("CURSOR_AGENT", "CURSOR_TRACE_ID"), (), ("cursor-agent", "cursor")),
    Harness("qwen", "Qwen Code", ("QWEN_CODE",), (), ("qwen",)),
    Harness("openclaw", "OpenClaw", ("OPENCLAW_SHELL",), (), ("openclaw",)),
    Harness("pi", "Pi", ("PI_SESSION_ID",), ("PI_SESSION_ID",), ("pi",)),
    Harness("amp", "Amp", ("AMP_CURRENT_THREAD_ID",), ("AMP_CURRENT_THREAD_ID",), ("amp",)),
    Harness("antigravity", "Antigravity", ("ANTIGRAVITY_AGENT",), (), ("antigravity",)),
    Harness("augment", "Augment", ("AUGMENT_AGENT",), (), ("auggie",)),
    Harness("cline", "Cline", ("CLINE_ACTIVE",), (), ("cline",)),
    Harness("copilot", "Copilot CLI", ("COPILOT_CLI",), (), ("copilot",)),
    Harness("goose", "Goose", ("GOOSE_TERMINAL",), (), ("goose",)),
    Harness("roo", "Roo Code", ("ROO_ACTIVE",), (), ("roo",)),
)


def session_of(environ: Mapping[str, str]) -> str | None:
    """The session that this environment belongs to, such as `claude-ID`; None outside of a session.

    HOLDFAST_SESSION comes first. Then the first harness of the table whose session variable is set.
    """
    if named := environ.get(SESSION):
        return named
    for harness in HARNESSES:
        if found := session_id(harness, environ):
            return session_name(harness.name, found)
    return None


def is_own_command(environ: Mapping[str, str]) -> bool:
    """Whether a harness made this environment for a command of its own, a hook or an MCP server, and not for its agent.

    Only of a harness with a `tool_mark` we can tell.
    """
    for harness in HARNESSES:
        if harness.tool_mark is not None and session_id(harness, environ):
            name, head, tail = harness.tool_mark
            value = environ.get(name, "")
            return not (value.startswith(head) and value.endswith(tail))
    return False


def session_id(harness: Harness, environ: Mapping[str, str]) -> str | None:
    """The id that this harness gave its session; None when the environment has none."""
    return next((value for name in harness.sessions if (value := environ.get(name))), None)


def session_name(harness: str, identifier: str) -> str:
    """The name of Holdfast's session for a session of a harness."""
    return f"{harness}-{identifier}"
