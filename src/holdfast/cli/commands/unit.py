"""`holdfast unit`: print a systemd unit for the daemon, made for the settings in force.

These lines need a reason. The administrator decides the rest.

- KillMode=process. systemd ends the daemon and nothing else. Every run has a guard that keeps its deadline, its ladder
  and its record without the daemon: after a crash, and with `handoff`, the next daemon adopts the live runs. With
  `control-group` or `mixed` systemd would kill guards and runs together, and nobody could tell how they ended.
- OOMPolicy=continue. A command that the kernel kills for memory is that run's outcome, and not the end of the service.
- No sandbox is switched on. A sandbox of the unit would hold for the command of every run: the command could not use
  sudo (NoNewPrivileges, and every option that implies it), containers, /tmp or a package manager. The unit names the
  options worth considering in comments.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..parsing.command import Command, no_words, put
from ..parsing.daemon_options import effective, setting_options, setting_words
from ..parsing.options import Option, UsageError, parse
from ..printing.run_unit import command_line, run_unit_text, user_identity

if TYPE_CHECKING:
    from ...config import Config
    from ..parsing.options import CommandLine

_SYSTEM_STATE = "/var/lib/holdfast"
_KILL_WAIT_S = 5.0
_MARGIN_S = 15.0
_WATCHDOG_S = 60

_USER_HEAD = """\
# ~/.config/systemd/user/holdfast.service
#
#   holdfast unit --user > ~/.config/systemd/user/holdfast.service
#   systemctl --user daemon-reload && systemctl --user enable --now holdfast
#   loginctl enable-linger        # to have it without being logged in
"""
_SYSTEM_HEAD = """\
# /etc/systemd/system/holdfast.service
#
#   useradd --system --home-dir /var/lib/holdfast --shell /usr/sbin/nologin holdfast
#   holdfast unit --system > /etc/systemd/system/holdfast.service
#   systemctl daemon-reload && systemctl enable --now holdfast
"""
_UNIT = """\
{head}
[Unit]
Description=Holdfast, runs commands that always end well
{after}StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={start}
ExecReload=/bin/kill -HUP $MAINPID
{identity}
# Only the daemon: each run has its own guard, and may outlive the daemon.
KillMode=process
KillSignal=SIGTERM
# Longer than the drain ({drain:g} s) and the end of the runs cancelled after it; a draining daemon asks for more.
TimeoutStopSec={stop}
TimeoutStartSec={begin}
WatchdogSec={watchdog}
Restart=on-failure
RestartSec=1

# A cgroup of its own for every run.
Delegate=yes
TasksMax=infinity
LimitNOFILE=16384:524288
# When the kernel kills a command for memory, its run ends, not the service.
OOMPolicy=continue

# Every run inherits these. Choose what your commands can live with:
#NoNewPrivileges=yes
#PrivateTmp=yes
#ProtectSystem=full
#RestrictSUIDSGID=yes
#MemoryMax=80%

[Install]
WantedBy={target}
"""


def act(given: CommandLine) -> int:
    if given.has("--user") and given.has("--system"):
        raise UsageError("--user and --system were both given", remedy="leave one of them out")
    system = given.has("--system")
    if given.words[:1] == ["run"]:
        put(run_unit_text(given.words[1:], system=system))
        return 0
    no_words(given, "unit")
    if system and not given.has("--state-dir"):
        given.values["--state-dir"] = [_SYSTEM_STATE]
    put(unit_text(given, effective(given).config, system=system))
    return 0


def unit_text(given: CommandLine, config: Config, *, system: bool) -> str:
    """The text of the unit for these settings. Settings given as flags become flags of `serve` in the unit."""
    stop_s = config.drain_s + config.default_grace_s + _KILL_WAIT_S + config.default_drain_s + _MARGIN_S
    return _UNIT.format(
        head=_SYSTEM_HEAD if system else _USER_HEAD,
        after="After=network.target\n" if system else "",
        start=_command(given),
        identity=_system_identity(given) if system else user_identity(),
        drain=config.drain_s,
        stop=math.ceil(stop_s),
        begin=math.ceil(config.recovery_s + _MARGIN_S),
        watchdog=_WATCHDOG_S,
        target="multi-user.target" if system else "default.target",
    )


def _command(given: CommandLine) -> str:
    return command_line(["serve", *setting_words(given, without=("--user", "--system"))])


def _system_identity(given: CommandLine) -> str:
    lines = ["User=holdfast", "Group=holdfast"]
    if given.last("--state-dir") == _SYSTEM_STATE:
        lines += ["StateDirectory=holdfast", "StateDirectoryMode=0700"]
    return "\n".join([*lines, "WorkingDirectory=~"]) + "\n"


class UnitCommand(Command):
    """As `Command`, but the words after `run` are a command line of `holdfast run`."""

    def run(self, arguments: list[str]) -> int:
        """As `Command.run`."""
        before = parse(self.table, arguments)
        if before.words[:1] == ["run"] and not before.has("--help"):
            return act(before)
        return super().run(arguments)


COMMAND = UnitCommand(
    "unit [--user|--system] [OPTIONS | run [OPTIONS] [--] COMMAND [ARG]...]",
    "Print a systemd unit for the daemon, or for a command under `holdfast run`.",
    (
        Option("--user", None, "for your own service manager (the default)"),
        Option("--system", None, "for the system, with a user of its own"),
        *setting_options(),
    ),
    act,
    "The time limits of the unit follow the settings in force. It passes on options of `holdfast serve`.\n",
)
