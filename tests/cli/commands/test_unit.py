"""`holdfast unit`: a unit that systemd accepts, with limits that follow the settings."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from configparser import ConfigParser
from typing import TYPE_CHECKING

import pytest

from ...support.daemons import Gate, daemon
from ..console import holdfast
from ..kept_runs import one_line

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ["--user", "--system"]


@pytest.fixture(autouse=True)
def no_settings_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def unit(*words: str) -> str:
    done = holdfast("unit", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def service(text: str) -> dict[str, str]:
    """The section of the service; the parser is strict, so a key that appears twice is an error."""
    # Only Environment= may be there more than once.
    text = re.sub(r"(?m)^Environment=\"?HOLDFAST_.*\n", "", text)
    parser = ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    assert parser.sections() == ["Unit", "Service", "Install"]
    return dict(parser["Service"])


def verify(path: Path, kind: str) -> str:
    """The complaints of systemd about a unit; empty if it is right."""
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(path.parent)}
    done = subprocess.run(
        ["systemd-analyze", "verify", kind, str(path)], capture_output=True, text=True, env=environ, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_systemd_accepts_it(kind: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("allowed: no systemd-analyze here")
    path = tmp_path / "holdfast.service"
    path.write_text(unit(kind, "--listen", "127.0.0.1:7300"))
    assert verify(path, kind) == ""
    # The control: systemd does check it.
    path.write_text(path.read_text().replace("Delegate=yes", "Delegated=yes"))
    assert "Unknown key" in verify(path, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_matters_is_there(kind: str) -> None:
    found = service(unit(kind))
    assert found["Type"] == "notify"
    assert found["Delegate"] == "yes"
    assert found["KillMode"] == "process", "guards and runs outlive the daemon when they are meant to"
    assert found["OOMPolicy"] == "continue"
    assert found["Restart"] == "on-failure"
    assert int(found["WatchdogSec"]) > 0
    assert "HUP" in found["ExecReload"]
    assert not {"NoNewPrivileges", "PrivateTmp", "ProtectSystem"} & set(found), "runs would inherit it"


def test_the_stop_limit_follows_the_drain(state_directory: Path) -> None:
    state_directory.mkdir(parents=True)
    (state_directory / "config.toml").write_text("[shutdown]\ndrain = '5m'\n[defaults]\ngrace = 60\n")
    assert int(service(unit())["TimeoutStopSec"]) > 360
    assert 60 < int(service(unit("--drain", "60s", "--default-grace", "1s"))["TimeoutStopSec"]) < 120


def test_flags_become_flags_of_the_daemon(tmp_path: Path, state_directory: Path) -> None:
    start = service(unit("--max-runs=3", "--listen", "[::1]:1", "--listen", "127.0.0.1:2", "--insecure-plain-tcp"))[
        "ExecStart"
    ]
    program, _, rest = start.partition(" ")
    assert os.path.isabs(program)
    flags = "--max-runs 3 --listen [::1]:1 --listen 127.0.0.1:2 --insecure-plain-tcp"
    assert rest.endswith(f"serve {flags} --state-dir {state_directory} --on-shutdown handoff")
    odd = tmp_path / 'a b%$"\\'
    odd.mkdir()
    start = service(unit("--state-dir", str(odd)))["ExecStart"]
    assert f' --state-dir "{tmp_path}/a b%%$$\\"\\\\" ' in start


def words_of(text: str) -> list[str]:
    """The words after `serve` of a unit whose words need no quotes."""
    return service(text)["ExecStart"].partition(" serve ")[2].split()


def test_a_restart_leaves_the_runs_alive_unless_a_setting_says_otherwise(
    state_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words_of(unit())[-2:] == ["--on-shutdown", "handoff"]
    assert words_of(unit("--system"))[-2:] == ["--on-shutdown", "handoff"]
    assert "handoff" not in unit("--on-shutdown", "drain").replace("(--on-shutdown handoff)", "")
    state_directory.mkdir(parents=True)
    (state_directory / "config.toml").write_text("shutdown.on_shutdown = 'drain'\n")
    assert "--on-shutdown" not in words_of(unit()), "the file says it"
    monkeypatch.setenv("HOLDFAST_ON_SHUTDOWN", "cancel")
    text = unit()
    assert "--on-shutdown" not in words_of(text)
    assert "Environment=HOLDFAST_ON_SHUTDOWN=cancel" in text


def test_a_run_outlives_the_restart_of_the_service(state_directory: Path, tmp_path: Path) -> None:
    """The daemon is started as the unit starts it, twice; the run ends after that with its own code."""
    options = words_of(unit())
    at = options.index("--state-dir")
    assert options.pop(at) == "--state-dir"
    assert options.pop(at) == str(state_directory)
    gate = Gate(tmp_path / "gate")
    with daemon(state_directory, *options) as running:
        run_id = running.submit(gate.waits("exit 7"))["run_id"]
        running.until_output(run_id)
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
    with daemon(state_directory, *options) as running:
        assert running.report(run_id)["state"] == "running"
        gate.open()
        report = running.wait(run_id)
        assert (report["status"], report["exit_code"]) == ("failed", 7)


def test_every_setting_in_force_is_in_the_unit(
    tmp_path: Path, state_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "holdfast" / "config.toml"
    file.parent.mkdir()
    file.write_text("[limits]\nqueue_limit = 5\n")
    monkeypatch.setenv("HOLDFAST_MAX_RUNS", "3")
    monkeypatch.setenv("HOLDFAST_FREE_DISK", "false")
    monkeypatch.setenv("HOLDFAST_CONCURRENCY", "a b=1,50%=2")
    monkeypatch.setenv("HOLDFAST_TLS_CERT", "server.pem")
    text = unit("--tls-key", "server.key")
    for line in (
        "Environment=HOLDFAST_MAX_RUNS=3",
        "Environment=HOLDFAST_FREE_DISK=false",
        'Environment="HOLDFAST_CONCURRENCY=a b=1,50%%=2"',
        f"Environment=HOLDFAST_TLS_CERT={os.getcwd()}/server.pem",
    ):
        assert line in text.splitlines()
    assert words_of(text) == [
        *("--tls-key", f"{os.getcwd()}/server.key"),
        *("--state-dir", str(state_directory)),
        *("--config", str(file)),  # of XDG_CONFIG_HOME, which a service does not have
        *("--on-shutdown", "handoff"),
    ]
    monkeypatch.setenv("HOLDFAST_CONFIG", str(file))
    assert "--config" in words_of(unit("--system")), "named by a variable"
    monkeypatch.delenv("HOLDFAST_CONFIG")
    assert "--config" not in words_of(unit("--system")), "that user does not read your file"


def test_the_system_unit_has_a_user_and_a_directory_of_its_own() -> None:
    found = service(unit("--system"))
    assert (found["User"], found["StateDirectory"], found["StateDirectoryMode"]) == ("holdfast", "holdfast", "0700")
    assert "--state-dir /var/lib/holdfast" in found["ExecStart"]
    assert "User" not in service(unit("--user"))
    assert "StateDirectory" not in service(unit("--system", "--state-dir", "/srv/holdfast"))


def test_your_path_is_that_of_the_user_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/a b%c$d")
    assert service(unit())["Environment"] == f'"PATH={os.environ["PATH"].replace("%", "%%")}"'


def test_mistakes() -> None:
    assert "--user and --system were both given" in one_line(holdfast("unit", "--user", "--system"))
    assert "unit takes no 'x'" in one_line(holdfast("unit", "x"))
    assert "--max-runs 'x' is not a whole number" in one_line(holdfast("unit", "--max-runs", "x"))


LINE = ["run", "--timeout", "5m", "--grace", "20s", "--", "sh", "-c", 'echo "$HOME" 50%; exit']


@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_for_a_command(kind: str, tmp_path: Path) -> None:
    text = unit(kind, *LINE)
    found = service(text)
    assert found["ExecStart"].endswith('run --timeout 5m --grace 20s -- sh -c "echo \\"$$HOME\\" 50%%; exit"')
    assert found["KillMode"] == "mixed", "the ladder is holdfast's"
    assert int(found["TimeoutStopSec"]) > 20 + 5 + 2
    assert found["SuccessExitStatus"] == "130 143", "to systemd a requested stop is a success; a timeout (124) is not"
    if shutil.which("systemd-analyze") is None:
        pytest.skip("allowed: no systemd-analyze here")
    path = tmp_path / "command.service"
    path.write_text(text)
    assert verify(path, kind) == ""


def test_a_unit_for_a_command_that_is_wrong() -> None:
    assert "no command was given" in one_line(holdfast("unit", "run", "--timeout", "5m"))
    assert "timeout" in one_line(holdfast("unit", "run", "--timeout", "soon", "true"))
    assert "takes no 'walk'" in one_line(holdfast("unit", "walk"))
