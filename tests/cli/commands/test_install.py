"""`holdfast install` and `holdfast uninstall`: what they show, when they ask, and what they refuse."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from ..console import HOLDFAST, Console, holdfast
from ..kept_runs import one_line

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any harness, on a PATH without one."""
    home, programs = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    for name in ("holdfast", "holdfast-sh"):  # used where this interpreter has none beside it
        (programs / name).write_text(f"#!{sys.executable}\n")
        (programs / name).chmod(0o755)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return home


def settings_of(home: Path, text: str = '{"model": "opus"}\n') -> Path:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text)
    return path


def test_without_a_terminal_it_only_shows(home: Path) -> None:
    path = settings_of(home)
    done = holdfast("install", "claude")
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"--- {path}\n+++ {path}\n".encode() in done.stdout
    assert b"+  " in done.stdout
    assert done.stdout.endswith(b"nothing was changed: add --yes to make these changes\n")
    assert path.read_text() == '{"model": "opus"}\n'


def test_yes_changes_and_uninstall_puts_back(home: Path, state_directory: Path) -> None:
    path = settings_of(home)
    done = holdfast("install", "--yes")
    assert done.returncode == 0, done
    settings = json.loads(path.read_text())
    assert settings["env"]["CLAUDE_CODE_SHELL_PREFIX"].endswith("/holdfast-sh")
    assert settings["env"]["HOLDFAST_STATE_DIR"] == str(state_directory)
    (backup,) = state_directory.glob("harnesses/*/before")
    assert backup.read_text() == '{"model": "opus"}\n'
    assert str(backup).encode() in done.stdout
    assert b"Claude Code: Holdfast is installed already" in holdfast("install", "claude", "--yes").stdout
    assert holdfast("uninstall", "claude", "--dry-run").returncode == 0
    assert json.loads(path.read_text()) == settings
    assert b"Claude Code: Holdfast is taken out" in holdfast("uninstall", "claude", "--yes").stdout
    assert path.read_text() == '{"model": "opus"}\n'
    assert b"there is nothing of Holdfast" in holdfast("uninstall", "claude", "--yes").stdout


def test_a_project_has_settings_of_its_own(home: Path, tmp_path: Path) -> None:
    path = settings_of(home)
    assert holdfast("install", "claude", "--project", "--yes").returncode == 0
    assert "holdfast-sh" in (tmp_path / ".claude" / "settings.local.json").read_text()
    assert path.read_text() == '{"model": "opus"}\n'
    assert holdfast("uninstall", "claude", "--project", "--yes").returncode == 0
    assert not (tmp_path / ".claude").exists()


@pytest.mark.parametrize(("answer", "is_changed"), [(b"n\n", False), (b"\n", False), (b"y\n", True)])
def test_at_a_terminal_it_asks(home: Path, answer: bytes, is_changed: bool) -> None:
    path = settings_of(home)
    with Console(*HOLDFAST, "install", "claude") as console:
        console.until(b"Make these changes? [y/N] ")
        assert "holdfast" not in path.read_text()
        console.type(answer)
        assert console.wait() == 0
    assert ("holdfast-sh" in path.read_text()) is is_changed


def test_what_it_refuses(home: Path) -> None:
    assert "no agent harness was found here: these are known: Claude Code, " in one_line(holdfast("install"))
    assert "Claude Code is not installed here: there is no claude on the PATH" in one_line(
        holdfast("install", "claude")
    )
    assert "'emacs' is no harness that we know: use one of claude, " in one_line(holdfast("install", "emacs"))
    assert "leave one of them out" in one_line(holdfast("install", "--user", "--project"))
    path = settings_of(home, "{broken")
    assert f"{path}: it is not valid JSON: line 1" in one_line(holdfast("install", "--yes"))
    assert path.read_text() == "{broken"
