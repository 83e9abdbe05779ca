"""The shell entry: a bash file through which the tool commands of a harness come into Holdfast.

Why not a hook that rewrites the command: a harness checks its rules and asks its user about the command that it sees.
A rewritten command hides the real one from these checks. With the entry the harness sees, checks and shows the command
as it is; only the bash that was started for it hands the command on.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ..values.environment import SH_OPTIONS
from .managed_file import MADE_BY

if TYPE_CHECKING:
    from .managed_file import Commands

# A profile that bash reads may itself start `bash -c`. Those processes inherit BASH_ENV from the first bash, and the
# harness does not have it: so a parent that has it is no harness, and the command is not a tool command. The sandbox of
# a harness has it, too, and is known by its name. Where a sandbox makes the state directory read-only, the command goes
# on as it is: no run could be kept, and a tool command must not fail for that.
_BY_BASH_ENV = """\
if [[ -n ${{BASH_EXECUTION_STRING-}} && -x {program} && -w {state} ]]; then
    holdfast_parent=()
    mapfile -d '' -t holdfast_parent 2>/dev/null <"/proc/$PPID/environ" || true
    holdfast_is_tool=1
    for holdfast_word in "${{holdfast_parent[@]}}"; do
        [[ $holdfast_word == "BASH_ENV=$BASH_ENV" ]] && holdfast_is_tool=
    done
    holdfast_word=
    read -r holdfast_word 2>/dev/null <"/proc/$PPID/comm" || true
    [[ $holdfast_word == @(bwrap|codex*|opencode*) ]] && holdfast_is_tool=1
    if [[ $holdfast_is_tool ]]; then
        unset BASH_ENV
        holdfast_flags=-c
        shopt -q login_shell && holdfast_flags=-lc
        export {variable}={options}
        exec {program} "$holdfast_flags" "$BASH_EXECUTION_STRING" "$0" "$@"
    fi
    unset holdfast_parent holdfast_is_tool holdfast_word
fi
"""

# The tool command begins with `. THIS_FILE SESSION; `, so the bash inside of the run reads this file again. The harness
# may have it in a subshell. Then our parent is another bash, and $PPID is the harness all the same.
_BY_SOURCE = """\
if [[ ${{HOLDFAST_ENTERED-}} ]]; then
    unset HOLDFAST_ENTERED
elif [[ -n ${{BASH_EXECUTION_STRING-}} && -x {program} && -w {state} ]]; then
    export HOLDFAST_ENTERED=1
    export {variable}={options}
    [[ $PPID == 0 ]] || {variable}+=" --with-process $PPID"
    exec {program} -c "$BASH_EXECUTION_STRING" "$0"
fi
"""


def by_bash_env(commands: Commands, harness: str, session: str, prefix: str = "") -> str:
    """The entry for a harness that can set BASH_ENV. `session`: the variable that names the session."""
    head = _head(harness, "Bash reads it before a tool command, and gives the command to Holdfast.")
    return head + _filled(_BY_BASH_ENV, commands, session, prefix)


def by_source(commands: Commands, harness: str) -> str:
    """The entry for a harness whose tool command begins with a line that sources it, the session as its argument."""
    head = _head(harness, "A tool command reads it first, and it gives the command to Holdfast.")
    return head + _filled(_BY_SOURCE, commands, "1", "")


def _head(harness: str, what: str) -> str:
    return f"# {MADE_BY} {harness}`; `holdfast uninstall {harness}` removes it.\n# {what}\n"


def _filled(text: str, commands: Commands, session: str, prefix: str) -> str:
    # The options are for this command alone, so they leave its environment again. Those of the user come last.
    fixed = shlex.quote(shlex.join(["--state-dir", commands.state_dir, "--env-drop", SH_OPTIONS]))
    named = f'"${{{session}:+ --session {prefix}${{{session}@Q}}}} --shell ${{BASH@Q}} ${{{SH_OPTIONS}-}}"'
    program, state = shlex.quote(commands.holdfast_sh), shlex.quote(commands.state_dir)
    return text.format(program=program, state=state, variable=SH_OPTIONS, options=fixed + named)
