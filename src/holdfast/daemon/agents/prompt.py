"""Prompt of an agent: the argument vector that carries it.

A client gives the prompt and nothing else. So a prompt must never become an option of the command: a prompt that begins
with `-` gets a space in front, unless the command has `--` before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.agents import ARGUMENT, PLACEHOLDER, TEMPLATE
from ...values.errors import SpecError

if TYPE_CHECKING:
    from ...config import Agent

LONGEST_ARGUMENT = (128 << 10) - 1  # the kernel's bound for one argument, without its NUL
FIELD = "prompt"


def argv_of(agent: Agent, prompt: str) -> list[str]:
    """The command with the prompt in it; the command alone when the prompt goes to stdin.

    SpecError: the prompt is empty, too long for an argument, or has a NUL character.
    """
    if not prompt.strip():
        raise SpecError("the prompt is empty", field=FIELD, remedy="send some text")
    if agent.prompt not in (ARGUMENT, TEMPLATE):
        return list(agent.command)
    if "\0" in prompt:
        raise SpecError("the prompt has a NUL character", field=FIELD, remedy="leave it out")
    if agent.prompt == ARGUMENT:
        argv = [*agent.command, _as_argument(prompt, "--" in agent.command)]
    else:
        argv = [
            word.replace(PLACEHOLDER, _as_argument(prompt, not word.startswith(PLACEHOLDER) or _is_after(agent, place)))
            for place, word in enumerate(agent.command)
        ]
    if max(len(word.encode("utf-8", "surrogateescape")) for word in argv) > LONGEST_ARGUMENT:
        remedy = 'shorten it, or give the agent prompt = "stdin" in the configuration'
        raise SpecError(f"the prompt has more than {LONGEST_ARGUMENT} bytes", field=FIELD, remedy=remedy)
    return argv


def _as_argument(prompt: str, is_safe: bool) -> str:
    return f" {prompt}" if prompt.startswith("-") and not is_safe else prompt


def _is_after(agent: Agent, place: int) -> bool:
    return "--" in agent.command[:place]
