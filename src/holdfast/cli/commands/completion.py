"""`holdfast completion`: print a completion script for a shell, made from the option tables of the commands."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..parsing.catalogue import COMMANDS
from ..parsing.command import Command, put
from ..parsing.options import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..parsing.options import CommandLine, Option

_TAKE_IDS = ("show", "why", "logs", "wait", "cancel", "extend", "signal", "attach")
# The script looks up ids when the user presses Tab. It offers the newest runs, because users mostly mean one of them.
_IDS = "holdfast ps --all --limit 50 2>/dev/null | awk 'NR > 1 { print $1 }'"
_SESSIONS = "holdfast session 2>/dev/null | awk 'NR > 1 { print $1 }'"
_BASH = """\
# Completion of holdfast for bash: eval "$(holdfast completion bash)"
_holdfast() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} options='' ids=''
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W '{commands}' -- "$current")
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    if [[ ${{COMP_WORDS[COMP_CWORD - 1]}} == --session ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$({sessions})" -- "$current")
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    elif [[ -n $ids ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$({lookup})" -- "$current")
    fi
}}
complete -o default -F _holdfast holdfast
"""
_ZSH = """\
#compdef holdfast
# Completion of holdfast for zsh: eval "$(holdfast completion zsh)"
_holdfast() {{
    local ids=''
    local -a commands options
    commands=({commands})
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    case $words[2] in
{cases}
    esac
    if [[ $words[CURRENT-1] == --session ]]; then
        compadd -- ${{(f)"$({sessions})"}}
    elif [[ $words[CURRENT] == -* ]]; then
        _describe option options
    elif [[ -n $ids ]]; then
        compadd -- ${{(f)"$({lookup})"}}
    else
        _files
    fi
}}
compdef _holdfast holdfast
"""


def act(given: CommandLine) -> int:
    makers: dict[str, Callable[[], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    if len(given.words) != 1 or given.words[0] not in makers:
        raise UsageError("completion needs the name of a shell", remedy="write holdfast completion bash|zsh|fish")
    put(makers[given.words[0]]())
    return 0


def tables() -> dict[str, tuple[Option, ...]]:
    """The options of every installed command."""
    found: dict[str, tuple[Option, ...]] = {}
    for name in COMMANDS:
        if find_spec(f"holdfast.cli.commands.{name}") is None:
            continue
        module = import_module(f"holdfast.cli.commands.{name}")
        found[name] = module.COMMAND.table if hasattr(module, "COMMAND") else module.OPTIONS
    return found


def _bash() -> str:
    cases = [
        f"    {name}) options='{' '.join(option.flag for option in table)}'{_ids(name)} ;;"
        for name, table in tables().items()
    ]
    return _BASH.format(commands=" ".join(tables()), cases="\n".join(cases), lookup=_IDS, sessions=_SESSIONS)


def _zsh() -> str:
    cases = []
    for name, table in tables().items():
        options = " ".join(_quoted(f"{option.flag}:{option.help}") for option in table)
        cases.append(f"    {name}) options=({options}){_ids(name)} ;;")
    commands = " ".join(_quoted(f"{name}:{COMMANDS[name]}") for name in tables())
    return _ZSH.format(commands=commands, cases="\n".join(cases), lookup=_IDS, sessions=_SESSIONS)


def _fish() -> str:
    lines = ["# Completion of holdfast for fish: holdfast completion fish | source"]
    for name, table in tables().items():
        lines.append(f"complete -c holdfast -n __fish_use_subcommand -f -a {name} -d {_quoted(COMMANDS[name])}")
        here = f"-n '__fish_seen_subcommand_from {name}'"
        for option in table:
            dashes = "-l" if option.flag.startswith("--") else "-s"
            value = "" if option.metavar is None else " -r"
            if option.flag == "--session":
                value = f" -x -a {_looked_up(_SESSIONS)}"
            flag = f"{dashes} {option.flag.lstrip('-')}{value}"
            lines.append(f"complete -c holdfast {here} {flag} -d {_quoted(option.help)}")
        if name in _TAKE_IDS:
            lines.append(f"complete -c holdfast {here} -f -a {_looked_up(_IDS)}")
    return "\n".join(lines) + "\n"


def _looked_up(lookup: str) -> str:
    """The argument of fish that runs this lookup at each Tab."""
    return '"({})"'.format(lookup.replace("$", r"\$"))


def _ids(name: str) -> str:
    return " ids=1" if name in _TAKE_IDS else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


COMMAND = Command(
    "completion bash|zsh|fish",
    "Print the completion script of a shell.",
    (),
    act,
    'For bash put this into ~/.bashrc: eval "$(holdfast completion bash)"; for zsh likewise into ~/.zshrc.\n'
    "For fish: holdfast completion fish > ~/.config/fish/completions/holdfast.fish\n",
)
