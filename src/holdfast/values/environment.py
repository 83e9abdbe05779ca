"""The environment of a child: which variables Holdfast strips, and why.

An agent leaves marks in the environment of everything it starts. A second agent that inherits them believes that it
runs inside the first: it refuses to start, saves no transcript, or talks to the first agent's editor. A supervised run
is not part of another agent, so Holdfast strips the marks. Credentials and the choice of provider are not marks: they
stay. A service manager gives variables to the process that it started, which is Holdfast. A command that has them
speaks to the manager in the name of the daemon, or reads the daemon's credentials. Holdfast strips them, too.

The order of precedence, strongest first:

1. Holdfast's own HOLDFAST_RUN_ID, HOLDFAST_RUN_MARK and HOLDFAST_HEARTBEAT, which are always those of this run and
   never of an outer one;
2. variables that the caller sets (`extra`);
3. `drop` patterns;
4. `keep` patterns;
5. the lists: STRIPPED, without the exceptions in KEPT, and SERVICE;
6. every other variable is inherited.

A pattern is a name in which `*` stands for any characters. Names are text as in `os.environ`, so bytes that are not
UTF-8 survive. No value of a variable ever appears in an error or a repr from here.
"""

from __future__ import annotations

import os

from .errors import SpecError
from .fast_imports import Iterable, Mapping, NamedTuple
from .run_id import check_run_id

RUN_ID = "HOLDFAST_RUN_ID"
RUN_MARK = "HOLDFAST_RUN_MARK"
HEARTBEAT = "HOLDFAST_HEARTBEAT"
STATE_DIR = "HOLDFAST_STATE_DIR"
GUARD = "HOLDFAST_GUARD"
START = "HOLDFAST_START"
SESSION = "HOLDFAST_SESSION"
SHELL = "HOLDFAST_SHELL"
SH_OPTIONS = "HOLDFAST_SH_OPTIONS"
_OWN = frozenset((RUN_ID, RUN_MARK, HEARTBEAT))
_MOST_REMEMBERED = 4096
_remembered: dict[str, str | None] = {}

STRIPPED: dict[str, str] = {
    "CLAUDECODE": "Claude Code refuses to start inside another session",
    "CLAUDECODE_*": "marks of an outer Claude Code session",
    "CLAUDE_CODE_*": "session, entry point, sockets and tokens of an outer Claude Code",
    "CLAUDE_AGENT_SDK_VERSION": "says that an outer SDK started this Claude Code",
    "CLAUDE_PID": "process of an outer Claude Code",
    "CLAUDE_SESSION_ID": "session of an outer Claude Code",
    "AI_AGENT": "names the outer agent to every tool",
    "MCP_SESSION_ID": "session of an outer MCP host",
    "CODEX_CI": "says that Codex runs the command",
    "CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "makes a nested Codex report as the outer one",
    "CODEX_PERMISSION_PROFILE": "limits an outer Codex set for its own tools",
    "CODEX_SANDBOX": "names the sandbox of an outer Codex",
    "CODEX_SESSION_ID": "session of an outer Codex",
    "CODEX_SHELL": "says that Codex runs the command",
    "CODEX_THREAD_ID": "conversation of an outer Codex",
    "CURSOR_AGENT": "says that Cursor's agent runs the command",
    "CURSOR_TRACE_ID": "trace of an outer Cursor session",
    "GEMINI_CLI": "says that Gemini CLI runs the command",
    "QWEN_CODE": "says that Qwen Code runs the command",
    "OPENCODE": "says that OpenCode runs the command",
    "OPENCODE_CLIENT": "front end of an outer OpenCode",
    "OPENCODE_PID": "process of an outer OpenCode",
    "OPENCODE_PROCESS_ROLE": "role within an outer OpenCode",
    "OPENCODE_RUN_ID": "run of an outer OpenCode",
    "OPENCLAW_SHELL": "says that OpenClaw runs the command",
    "PI_SESSION_ID": "session of an outer Pi",
    "AMP_CURRENT_THREAD_ID": "conversation of an outer Amp",
    "ANTIGRAVITY_AGENT": "says that Antigravity runs the command",
    "AUGMENT_AGENT": "says that Augment runs the command",
    "CLINE_ACTIVE": "says that Cline runs the command",
    "COPILOT_CLI": "says that Copilot CLI runs the command",
    "GOOSE_TERMINAL": "says that Goose runs the command",
    "ROO_ACTIVE": "says that Roo Code runs the command",
}

# Whole names, no patterns: LISTEN_PORT and WATCHDOG_INTERVAL are settings of many programs.
SERVICE: dict[str, str] = {
    "NOTIFY_SOCKET": "a command could report the daemon ready, failed or stopping",
    "WATCHDOG_USEC": "a command could feed the watchdog of a daemon that hangs",
    "WATCHDOG_PID": "names the process whose watchdog it is",
    "LISTEN_FDS": "counts descriptors that the command does not have",
    "LISTEN_FDNAMES": "names descriptors that the command does not have",
    "LISTEN_PID": "names the process that has the descriptors",
    "LISTEN_PIDFDID": "names the process that has the descriptors",
    "CREDENTIALS_DIRECTORY": "credentials of the daemon, not of its runs",
}

# Exceptions from the patterns of STRIPPED: without them a child cannot log in, calls another provider than the user
# chose, or loses a protection the user switched on.
KEPT: dict[str, str] = {
    "CLAUDE_CODE_OAUTH_TOKEN": "credential",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN": "credential",
    "CLAUDE_CODE_OAUTH_SCOPES": "belongs to the refresh token",
    "CLAUDE_CODE_CLIENT_CERT": "credential (mutual TLS)",
    "CLAUDE_CODE_CLIENT_KEY": "credential (mutual TLS)",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE": "credential (mutual TLS)",
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS": "how often the credential is renewed",
    "CLAUDE_CODE_API_BASE_URL": "provider",
    "CLAUDE_CODE_CUSTOM_OAUTH_URL": "provider: where the credential is valid",
    "CLAUDE_CODE_USE_*": "provider",
    "CLAUDE_CODE_SKIP_*_AUTH": "provider: a gateway signs the requests",
    "CLAUDE_CODE_SKIP_AWS_CRED_CACHE": "provider: how credentials are resolved",
    "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "provider: chosen by these variables, not by settings files",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "provider: some refuse the default",
    "CLAUDE_CODE_DISABLE_*": "protection: what the user switched off stays off",
    "CLAUDE_CODE_SUBPROCESS_ENV_SCRUB": "protection: credentials kept from tools",
}


class EnvironmentFinding(NamedTuple):
    """A mark of an outer agent, and why Holdfast strips it."""

    name: str
    reason: str


def child_environment(
    base: Mapping[str, str],
    *,
    run_id: str,
    extra: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    drop: Iterable[str] = (),
) -> dict[str, str]:
    """The environment of a child of run `run_id`, but for its mark and heartbeat file, which the guard's frames add."""
    child = inherited(base, tuple(keep), tuple(drop))
    if extra:
        child.update(extra)
        child.pop(HEARTBEAT, None)
        child.pop(RUN_MARK, None)
    child[RUN_ID] = run_id
    return child


def inherited(base: Mapping[str, str], keep: tuple[str, ...], drop: tuple[str, ...]) -> dict[str, str]:
    """The variables of an environment that a child inherits."""
    return {name: value for name, value in base.items() if _is_inherited(name, keep, drop)}


def own_variables(run_id: str, mark: str | None) -> dict[str, str]:
    """The variables that say to which run a process belongs."""
    return {RUN_ID: run_id} if mark is None else {RUN_ID: run_id, RUN_MARK: mark}


def token(run_id: str, mark: str | None) -> str:
    """The variable, with its value, by which the processes of a run are found when its guard is gone.

    An id that the caller chose is unique only in its state directory: there may be a run `build` in each of several.
    Such a run has a mark, which is unique. An id that Holdfast made is unique by itself.
    """
    return f"{RUN_ID}={run_id}" if mark is None else f"{RUN_MARK}={mark}"


def environment_block(environ: Mapping[str, str]) -> bytes:
    """The environment as exec wants it: `NAME=value`, each with a NUL at its end."""
    return os.fsencode("".join([f"{name}={value}\0" for name, value in environ.items()]))


def findings(environ: Iterable[str]) -> list[EnvironmentFinding]:
    """The marks of an outer agent in `environ`, each with its reason; empty for a clean environment."""
    found = ((name, _reason(name)) for name in sorted(environ) if name not in SERVICE)
    return [EnvironmentFinding(name, reason) for name, reason in found if reason is not None]


def parent_run_id(environ: Mapping[str, str]) -> str | None:
    """The id of the run that this process is part of; None outside of a run, or when the variable is malformed."""
    token = environ.get(RUN_ID)
    try:
        return None if token is None else check_run_id(token)
    except SpecError:
        return None  # another program set it, or it is damaged: no parent is better than a wrong one


def _is_inherited(name: str, keep: tuple[str, ...], drop: tuple[str, ...]) -> bool:
    if name in _OWN or (drop and any(matches(name, pattern) for pattern in drop)):
        return False
    return _reason(name) is None or any(matches(name, pattern) for pattern in keep)


def _reason(name: str) -> str | None:
    """Why a list strips this name; None when none does."""
    # Remembered: every run of a process looks up the same names.
    try:
        return _remembered[name]
    except KeyError:
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
    reason = SERVICE.get(name) or _look_up(name, STRIPPED, _STRIPPED_PATTERNS)
    if reason is not None and _look_up(name, KEPT, _KEPT_PATTERNS) is not None:
        reason = None
    _remembered[name] = reason
    return reason


def _look_up(name: str, table: dict[str, str], patterns: tuple[str, ...]) -> str | None:
    if name in table:
        return table[name]
    return next((table[pattern] for pattern in patterns if matches(name, pattern)), None)


def matches(name: str, pattern: str) -> bool:
    """Whether a name is one that the pattern describes."""
    # fnmatch would compile a regular expression for each pattern: milliseconds at start-up, only to match stars.
    head, *parts = pattern.split("*")
    if not parts:
        return name == pattern
    if not name.startswith(head):
        return False
    position, tail = len(head), parts.pop()
    for part in parts:
        found = name.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return len(name) - position >= len(tail) and name.endswith(tail)


_STRIPPED_PATTERNS = tuple(pattern for pattern in STRIPPED if "*" in pattern)
_KEPT_PATTERNS = tuple(pattern for pattern in KEPT if "*" in pattern)
