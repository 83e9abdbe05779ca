"""`holdfast acp`: run an ACP agent for an editor, and give its prompts a deadline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...projections.exit_code import exit_code
from ...state.directory import StateDirectory
from ...values.durations import parse_duration
from ...values.environment import STATE_DIR
from ...values.errors import HoldfastError, SpecError, StateError
from ...values.spec_cache import new_spec
from ..parsing.command import PrefixCommand
from ..parsing.options import CommandLine, Option, UsageError
from ..parsing.run_options import OPTIONS as OPTIONS_OF_RUN
from ..parsing.run_options import options_of

if TYPE_CHECKING:
    from ...values.options import SpecOptions

# Options of `run` that `acp` does not have: the agent's streams carry the protocol, the agent ends with the editor, and
# an agent that is silent between two prompts is not idle.
_NOT_HERE = (
    "--env-inherit",
    *("--idle-timeout", "--idle-counts", "--stdin", "--pty", "--no-pty", "--merge", "--late", "--max-output"),
    *(
        "--on-max-output",
        "--lifetime",
        "--with-parent",
        "--with-process",
        "--ready",
        "--ready-timeout",
        "--detach",
        "--report",
    ),
    *("--quiet", "--help"),
)
_TERMINALS = ("auto", "always", "never")
OPTIONS = (
    Option("--prompt-timeout", "DURATION", "end a prompt after this long"),
    Option("--idle-timeout", "DURATION", "end a prompt after this long without a message from the agent"),
    Option("--terminals", "|".join(_TERMINALS), "who gives the agent terminals: Holdfast when the editor does not"),
    *(option for option in OPTIONS_OF_RUN if option.flag not in _NOT_HERE),
    Option("--quiet", None, "no line about how the agent ended"),
    Option("--help", None, "print this text", short="h"),
)
_MORE = """\
A prompt that is over its time, or cancelled, is the agent's to end within --grace (session/cancel). After that the
editor gets its answer, and the agent's tree is ended. The agent ends with the editor.

Exit codes: those of `holdfast run`.
"""


def act(given: CommandLine) -> int:
    prompt_s, idle_s = _duration(given, "--prompt-timeout"), _duration(given, "--idle-timeout")
    spec = new_spec(given.words, agent_options(given))
    from ...acp.proxy import AcpSettings, main

    outcome = main(spec, AcpSettings(prompt_s, idle_s, _terminals(given), _state_path(given)))
    if not given.has("--quiet"):
        from ...wording.sentences import ended
        from ..printing.messages import say

        if (sentence := ended(outcome, spec)) is not None:
            say(sentence)
    return exit_code(outcome)


def agent_options(given: CommandLine) -> SpecOptions:
    """The options of the agent's run. UsageError names what is wrong."""
    own = ("--prompt-timeout", "--idle-timeout", "--terminals")
    rest = CommandLine({flag: values for flag, values in given.values.items() if flag not in own}, given.words)
    rest.values["--no-pty"] = [""]
    return {**options_of(rest), "stdin": "pipe"}


def _duration(given: CommandLine, flag: str) -> float | None:
    text = given.last(flag)
    if text is None:
        return None
    seconds = parse_duration(text, field=flag.removeprefix("--").replace("-", "_"))
    if seconds <= 0:
        raise SpecError(f"{flag} {text} leaves no time for a prompt", remedy="give more, or leave it out for no limit")
    return seconds


def _terminals(given: CommandLine) -> str:
    policy = given.last("--terminals") or "auto"
    if policy not in _TERMINALS:
        raise UsageError(f"--terminals {policy!r} is not known", remedy=f"use one of {', '.join(_TERMINALS)}")
    from importlib.util import find_spec

    if policy == "never" or find_spec("acp") is not None:
        return policy
    if policy == "always":
        raise HoldfastError("terminals need the package agent-client-protocol", remedy="pip install 'holdfast[acp]'")
    return "never"


def _state_path(given: CommandLine) -> str | None:
    """The path of the state directory. None, after one line on stderr, when the default directory cannot be used.

    The agent then runs without a record. StateError: the user named a directory that cannot be used.
    """
    named = given.last("--state-dir") or os.environ.get(STATE_DIR)
    try:
        return StateDirectory.open(named, create=True).path
    except StateError as error:
        if named:
            raise
        from ..printing.messages import say

        say(f"this run is not kept: {error}")
        return None


COMMAND = PrefixCommand(
    "acp [OPTIONS] [--] AGENT [ARG]...",
    "Run an ACP agent for an editor, which speaks the Agent Client Protocol with it through our stdin and stdout.",
    OPTIONS,
    act,
    _MORE,
    prefixed="agent",
)
