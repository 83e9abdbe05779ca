"""`holdfast hook`: what a harness calls at the start and the end of a session, and before a tool command.

A hook never stops its harness: it answers no permission question, and a failure is one line on stderr and exit code 1,
which every harness takes as a warning.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Any

from ...values.environment import parent_run_id
from ...values.errors import HoldfastError
from ...values.harnesses import HARNESSES, session_name, session_of
from ..parsing.command import Command, open_state, put
from ..parsing.options import Option, UsageError
from ..parsing.stop_options import GRACE, grace_of
from ..printing import messages

if TYPE_CHECKING:
    from ..parsing.options import CommandLine

FAILED = 1
_LARGEST = 16 << 20
_SHELL_TOOLS = {"gemini": "run_shell_command"}


def act(given: CommandLine) -> int:
    if len(given.words) != 1 or given.words[0] not in _EVENTS:
        raise UsageError("hook needs the name of an event", remedy=f"write holdfast hook {'|'.join(_EVENTS)}")
    if (harness := given.last("--harness")) not in (None, *(known.name for known in HARNESSES)):
        raise UsageError(f"--harness {harness!r} is unknown", remedy="leave it out for plain text")
    try:
        _EVENTS[given.words[0]](given, _message())
    except (HoldfastError, OSError) as error:
        messages.say(f"hook {given.words[0]}: {error}")
        return FAILED
    return 0


def _session_start(given: CommandLine, message: dict[str, Any]) -> None:
    from ...sessions.changes import look
    from ...sessions.words import changes_in_words
    from ...state.index.summary import Filters

    session = _session(given, message)
    _say("SessionStart", given, changes_in_words(look(open_state(given, create=True), Filters(session), but=_own())))


def _session_end(given: CommandLine, message: dict[str, Any]) -> None:
    from ...sessions.ending import end_runs
    from ...sessions.words import ends_in_words

    session = _session(given, message)
    reason = f"the harness ended its session ({message.get('reason') or 'no reason given'})"
    ended = end_runs(open_state(given, create=True), session, reason=reason, grace_s=grace_of(given), but=_own())
    _say("SessionEnd", given, ends_in_words(session, ended))


def _before_tool(given: CommandLine, message: dict[str, Any]) -> None:
    """Put the line before a shell command that brings it into Holdfast. Everything else goes on as it is."""
    harness, entry = given.last("--harness"), given.last("--entry")
    words = message.get("tool_input")
    command = words.get("command") if isinstance(words, dict) else None
    is_shell = harness in _SHELL_TOOLS and message.get("tool_name") == _SHELL_TOOLS[harness]
    if not is_shell or not isinstance(command, str) or entry is None or not os.path.exists(entry):
        put("{}\n")
        return
    line = f". {shlex.join([entry, _session(given, message)])}; "
    changed = {**words, "command": command if command.startswith(line) else f"{line}{command}"}  # type: ignore[dict-item]
    put(json.dumps({"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": changed}}) + "\n")


_EVENTS = {"session-start": _session_start, "session-end": _session_end, "before-tool": _before_tool}


def _message() -> dict[str, Any]:
    """The JSON that the harness writes to our stdin; empty at a terminal."""
    if os.isatty(0):
        return {}
    with open(0, "rb", closefd=False) as stdin:
        data = stdin.read(_LARGEST)
    try:
        message = json.loads(data) if data.strip() else {}
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise HoldfastError("stdin holds no JSON object", remedy="a harness writes its hook's input there")
    return message


def _session(given: CommandLine, message: dict[str, Any]) -> str:
    harness, identifier = given.last("--harness"), message.get("session_id")
    if named := given.last("--session"):
        return named
    if isinstance(identifier, str) and identifier:
        return session_name(harness or "agent", identifier)
    if found := session_of(os.environ):
        return found
    raise HoldfastError("there is no session", remedy="the harness names none in its JSON; give --session NAME")


def _own() -> tuple[str, ...]:
    """The run that this hook is part of, if a harness starts its hooks through Holdfast."""
    own = parent_run_id(os.environ)
    return () if own is None else (own,)


def _say(event: str, given: CommandLine, text: str) -> None:
    """Print text: plain for people, and as JSON in the form that the harnesses share."""
    if given.last("--harness") is None:
        put(text)
    elif event == "SessionStart" and text:
        put(json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}) + "\n")
    else:
        put(json.dumps({"systemMessage": text.strip()} if text else {}) + "\n")


COMMAND = Command(
    f"hook {'|'.join(_EVENTS)} [OPTIONS]",
    "What a harness calls. session-start: tell what the session's runs did. session-end: end them.",
    (
        Option("--harness", "NAME", "answer in the form of this harness, and name its sessions after it"),
        Option("--session", "NAME", "the session (default: the one in the JSON on stdin, or in the environment)"),
        Option("--entry", "PATH", "before-tool: the shell entry that the command reads first"),
        GRACE,
    ),
    act,
    "Exit codes: 0, or 1 for a failure, which no harness takes for an answer.\n",
)
