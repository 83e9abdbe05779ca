"""A systemd unit for a command under `holdfast run`, and the words that the daemon's unit shares with it.

- KillMode=mixed. systemd sends SIGTERM to `holdfast` alone, and the run's ladder ends the tree. Whatever is left after
  TimeoutStopSec, systemd kills.
- SuccessExitStatus follows the projection: the outcomes that are a success for systemd, by the exit codes they have.
- NotifyAccess=main. `holdfast run` tells the result of the run, and `systemctl status` shows it.
"""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING

from ...journal.unstarted import facts_of, signalled, stopped
from ...outcome import STATUSES, decide
from ...projections.exit_code import exit_code
from ...projections.systemd import systemd
from ..parsing.options import parse
from ..parsing.run_options import OPTIONS, spec_of

if TYPE_CHECKING:
    from ...values.spec import RunSpec

_MARGIN_S = 15.0
_SIGINT = 2
_UNIT = """\
# A command under `holdfast run`. Put this into {where}/NAME.service, then:
#
#   {systemctl} daemon-reload && {systemctl} enable --now NAME
[Unit]
Description={description}

[Service]
Type=exec
# `holdfast run` tells the result of the run: see `{systemctl} status NAME`.
NotifyAccess=main
ExecStart={start}
WorkingDirectory={directory}
{identity}
# SIGTERM goes to holdfast, which ends the tree by its ladder within this time.
KillMode=mixed
KillSignal=SIGTERM
TimeoutStopSec={stop}
# A run that was cancelled, because the service is stopped or a person asked for it.
SuccessExitStatus={success}

# A cgroup of its own for the run. A spent memory budget is the outcome of the run.
Delegate=yes
OOMPolicy=continue

[Install]
WantedBy={target}
"""


def run_unit_text(arguments: list[str], *, system: bool) -> str:
    """The unit for a command line of `holdfast run`. UsageError, SpecError: the command line is wrong."""
    spec = spec_of(parse(OPTIONS, arguments))
    return _UNIT.format(
        where="/etc/systemd/system" if system else "~/.config/systemd/user",
        systemctl="systemctl" if system else "systemctl --user",
        description=_plain(f"{spec.name or os.path.basename(spec.argv[0])}, run by Holdfast"),
        directory=_plain(os.getcwd()),
        start=command_line(["run", *arguments]),
        identity=user_identity(),
        stop=math.ceil(_end_s(spec)),
        success=" ".join(str(code) for code in success_codes()),
        target="multi-user.target" if system else "default.target",
    )


def _plain(text: str) -> str:
    """Text that systemd takes to the end of the line, but for specifiers."""
    return " ".join(text.splitlines()).replace("%", "%%")


def success_codes() -> list[int]:
    """The exit codes besides 0 of runs whose end is a success for systemd."""
    endings = [signalled(_SIGINT), *(stopped(cause, "") for cause in STATUSES["cancelled"])]
    outcomes = [decide(facts_of(ending)) for ending in endings]
    return sorted({exit_code(outcome) for outcome in outcomes if systemd(outcome).result == "success"})


def _end_s(spec: RunSpec) -> float:
    """How long the run may take to end after SIGTERM."""
    return sum(rung.wait_s for rung in spec.ladder) + spec.kill_wait_s + spec.drain_s + _MARGIN_S


def command_line(words: list[str]) -> str:
    """`holdfast` with these words, as ExecStart wants it."""
    own = os.path.abspath(sys.argv[0])
    is_installed = os.path.basename(own) == "holdfast" and os.access(own, os.X_OK)
    program = [own] if is_installed else [sys.executable, "-P", "-m", "holdfast.cli.main"]
    return " ".join(quoted(word) for word in [*program, *words])


def user_identity() -> str:
    """The directories of your commands: a service does not read your shell's profile."""
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    why = "# The directories of your commands: a service does not read your shell's profile."
    return f"{why}\nEnvironment={quoted(f'PATH={path}', variables=False)}\n"


def quoted(word: str, *, variables: bool = True) -> str:
    """Quote a word for systemd: escape backslashes, % (a specifier) and, in commands, $ (a variable)."""
    text = word.replace("\\", "\\\\").replace("%", "%%")
    text = text.replace("$", "$$") if variables else text
    plain = text and not any(character.isspace() or character in "\"';" for character in text)
    return text if plain else '"' + text.replace('"', '\\"') + '"'
