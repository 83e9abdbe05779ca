"""`holdfast unit`: print a systemd unit for the daemon, made for the settings in force.

These lines need a reason. The administrator decides the rest.

- KillMode=process. systemd ends the daemon and nothing else. Every run has a guard that keeps its deadline, its ladder
  and its record without the daemon: after a crash, and with `handoff`, the next daemon adopts the live runs. With
  `control-group` or `mixed` systemd would kill guards and runs together, and nobody could tell how they ended.
- --on-shutdown handoff, unless a setting says otherwise. `systemctl restart`, and an upgrade that restarts services,
  must not end agents that have worked all night. `systemctl stop` leaves the runs to their guards as well.
- OOMPolicy=continue. A command that the kernel kills for memory is that run's outcome, and not the end of the service.
- No sandbox is switched on. A sandbox of the unit would hold for the command of every run: the command could not use
  sudo (NoNewPrivileges, and every option that implies it), containers, /tmp or a package manager. The unit names the
  options worth considering in comments.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from ...config import load_config, settings
from ...config.loading import FILE_NAME
from ...state.directory import default_path
from ..parsing.command import Command, no_words, put
from ..parsing.daemon_options import CONFIG, absolute, setting_options, setting_words
from ..parsing.options import Option, UsageError, parse
from ..printing.run_unit import command_line, quoted, run_unit_text, user_identity

if TYPE_CHECKING:
    from ...config import Effective
    from ..parsing.options import CommandLine

_SYSTEM_STATE = "/var/lib/holdfast"
_ON_SHUTDOWN = "--on-shutdown"
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
{identity}{variables}
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
    put(unit_text(given, system=system))
    return 0


def unit_text(given: CommandLine, *, system: bool) -> str:
    """The text of the unit for these settings. ConfigError: they have mistakes.

    Flags become flags of `serve`, variables become variables of the unit, and a file that the service would not find
    by itself is named.
    """
    home = _SYSTEM_STATE if system else os.path.expanduser("~")
    if not given.has("--state-dir") and (path := _state_dir(home, system=system)) is not None:
        given.values["--state-dir"] = [path]
    found = _effective(given, home, system=system)
    config = found.config
    stop_s = config.drain_s + config.default_grace_s + _KILL_WAIT_S + config.default_drain_s + _MARGIN_S
    return _UNIT.format(
        head=_SYSTEM_HEAD if system else _USER_HEAD,
        after="After=network.target\n" if system else "",
        start=_command(given, found, home),
        identity=_system_identity(given) if system else user_identity(),
        variables=_variables(found),
        drain=config.drain_s,
        stop=math.ceil(stop_s),
        begin=math.ceil(config.recovery_s + _MARGIN_S),
        watchdog=_WATCHDOG_S,
        target="multi-user.target" if system else "default.target",
    )


def _state_dir(home: str, *, system: bool) -> str | None:
    """The state directory, if the service would use another one without its name."""
    if system:
        return _SYSTEM_STATE
    path = os.path.abspath(default_path())
    return None if path == os.path.join(home, ".local", "state", "holdfast") else path


def _effective(given: CommandLine, home: str, *, system: bool) -> Effective:
    """The settings in force for the service. The user of a system service has another home directory than you."""
    environ = {**os.environ, "HOME": home, **({"XDG_CONFIG_HOME": ""} if system else {})}
    state_dir = os.path.abspath(given.last("--state-dir") or default_path())
    return load_config(given.values, environ, given.last(CONFIG.flag), state_dir=state_dir)


def _command(given: CommandLine, found: Effective, home: str) -> str:
    words = ["serve", *setting_words(given, without=("--user", "--system"))]
    places = (os.path.join(found.inputs.state_dir, FILE_NAME), os.path.join(home, ".config", "holdfast", FILE_NAME))
    if found.file not in (None, *places) and not given.has(CONFIG.flag):
        words += [CONFIG.flag, str(found.file)]
    if found.sources["on_shutdown"].kind == "default":
        words += [_ON_SHUTDOWN, "handoff"]
    return command_line(words)


def _variables(found: Effective) -> str:
    """The settings that variables of this command's environment set, as variables of the unit."""
    lines = []
    for name, setting in settings().items():
        if setting.variable is not None and found.sources[name].kind == "variable":
            text = absolute(setting.kind.metavar, found.inputs.environ[setting.variable])
            lines.append(f"Environment={quoted(f'{setting.variable}={text}', variables=False)}\n")
    return "# Settings that were variables where this unit was made.\n" + "".join(lines) if lines else ""


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
    "The unit has every setting in force: options of `holdfast serve` as options, HOLDFAST_* variables as variables,\n"
    "and the name of a settings file that the service would not find by itself. Its time limits follow them. Runs\n"
    "survive a restart of the service (--on-shutdown handoff), unless a setting says otherwise.\n",
)
