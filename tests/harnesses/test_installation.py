"""Installing and uninstalling: realistic settings come back byte for byte, and bad ones are never touched."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.harnesses import installation, settings_file
from holdfast.harnesses.errors import SettingsError
from holdfast.harnesses.installation import (
    CHANGED_SINCE,
    Plan,
    diff,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
)
from holdfast.harnesses.json_tree import parse
from holdfast.harnesses.ledger import Ledger
from holdfast.harnesses.managed_file import MADE_BY, Commands, Where, own_file
from holdfast.harnesses.table import INSTALLABLE
from holdfast.state.directory import StateDirectory
from holdfast.values.errors import StateError

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.harnesses.managed_file import ManagedFile
    from holdfast.harnesses.settings_file import FileChange

CLAUDE = b"""{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "permissions": { "allow": ["Bash(npm run lint)"], "deny": ["Read(./.env)"] },
  "env": { "FOO": "bar" },
  "hooks": {
    "SessionStart": [
      { "matcher": "startup", "hooks": [{ "type": "command", "command": "~/bin/greet" }] }
    ],
    "PreToolUse": []
  },
  "model": "opus"
}"""
GEMINI = b"""\
{
\t// how it looks
\t"ui": { "theme": "GitHub" },
\t"mcpServers": {
\t\t"files": {
\t\t\t"command": "npx", // the server
\t\t\t"args": ["-y", "@modelcontextprotocol/server-filesystem", "."],
\t\t\t"trust": false,
\t\t},
\t\t"remote": { "httpUrl": "https://example.org/mcp" },
\t},
}
"""
CODEX = b"""\
model = "gpt-5"   # the default
approval_policy = "on-request"

[shell_environment_policy]
inherit = "core"
set = { CI = "1" }

[mcp_servers.docs]
command = "npx"
args = [
  "-y",  # no questions
  "docs-mcp",
]

[mcp_servers.plain]
command = 'uvx'

[[hooks.SessionStart]]
[[hooks.SessionStart.hooks]]
type = "command"
command = "greet"
"""
OPENCODE = b"""\
{
  "$schema": "https://opencode.ai/config.json",
  "permission": { "bash": { "git push": "ask" } },
  "mcp": { "db": { "type": "local", "command": ["bun", "x", "db-mcp"], "enabled": true } }
}\r
"""
SETTINGS = {
    "claude": (".claude/settings.json", CLAUDE),
    "codex": (".codex/config.toml", CODEX),
    "gemini": (".gemini/settings.json", GEMINI),
    "opencode": (".config/opencode/opencode.json", OPENCODE),
}
NAMES = sorted(SETTINGS)


class Rig:
    """A home with one harness's settings, and an installation into them."""

    def __init__(self, name: str, root: Path, *, is_project: bool = False, state: str = "state") -> None:
        self.home = root / "home"
        self.home.mkdir(exist_ok=True)
        self.state = StateDirectory.open(str(root / state))
        commands = Commands("/opt/bin/holdfast", "/opt/bin/holdfast-sh", self.state.path)
        self.row = next(row for row in INSTALLABLE if row.name == name)
        self.where = Where(is_project, str(self.home), str(self.home))
        self.ledger = Ledger(self.state)
        self.commands = commands

    @property
    def files(self) -> list[ManagedFile]:
        return self.row.files(self.where, self.commands)

    def install(self) -> Plan:
        plan = plan_install(self.row.title, self.files, self.ledger)
        install(plan, self.files, self.ledger)
        return plan

    def uninstall(self) -> Plan:
        plan = plan_uninstall(self.row.title, self.files, self.ledger)
        uninstall(plan, self.files, self.ledger)
        return plan

    def tree(self) -> dict[str, bytes]:
        """Every file of the home, and every directory."""
        found = {}
        for path in sorted(self.home.rglob("*")):
            found[str(path.relative_to(self.home))] = path.read_bytes() if path.is_file() else b"directory"
        return found


@pytest.fixture(autouse=True)
def no_directories_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


def rig_of(name: str, root: Path, content: bytes | None = None) -> tuple[Rig, Path]:
    """A rig whose home has the realistic settings, or these."""
    rig = Rig(name, root)
    relative, realistic = SETTINGS[name]
    path = rig.home / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(realistic if content is None else content)
    return rig, path


@pytest.mark.parametrize("name", NAMES)
def test_a_round_trip_is_exact(name: str, tmp_path: Path) -> None:
    rig, path = rig_of(name, tmp_path)
    path.chmod(0o640)
    before = rig.tree()
    assert rig.install().changes
    assert path.read_bytes() != before[SETTINGS[name][0]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    installed = rig.tree()
    assert rig.install().changes == ()  # idempotent
    assert rig.tree() == installed
    assert rig.uninstall().changes
    assert rig.tree() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert rig.uninstall().changes == ()
    assert not os.path.exists(rig.ledger.path)


@pytest.mark.parametrize("is_project", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_round_trip_where_nothing_was_there(name: str, is_project: bool, tmp_path: Path) -> None:
    rig = Rig(name, tmp_path, is_project=is_project)
    assert rig.install().changes
    assert rig.tree()
    rig.uninstall()
    assert rig.tree() == {}
    assert not os.path.exists(rig.ledger.path)


@pytest.mark.parametrize("name", NAMES)
def test_only_our_parts_go_when_the_user_changed_the_file(name: str, tmp_path: Path) -> None:
    rig, path = rig_of(name, tmp_path)
    rig.install()
    mine = b"\n# mine\n" if name == "codex" else b"\n// mine\n"
    if name == "claude":  # plain JSON
        mine = b"\n\n"
    path.write_bytes(path.read_bytes() + mine)
    plan = rig.uninstall()
    assert CHANGED_SINCE in [change.note for change in plan.changes]
    left = path.read_bytes()
    assert b"/opt/bin" not in left
    assert b"harnesses" not in left
    assert left.endswith(mine)
    assert content_of(left) == content_of(SETTINGS[name][1])


def content_of(data: bytes) -> Any:
    text = data.decode()
    return tomllib.loads(text) if "[mcp_servers" in text else parse(text).value


@pytest.mark.parametrize("name", NAMES)
def test_a_second_state_directory_takes_the_place_of_the_first(name: str, tmp_path: Path) -> None:
    """The state directory is in the commands. Another installation replaces ours, and takes all of it out again."""
    first, path = rig_of(name, tmp_path)
    first.install()
    second = Rig(name, tmp_path, state="other")
    second.install()
    text = path.read_text()
    assert second.state.path in text
    assert first.state.path not in text
    second.uninstall()
    assert content_of(path.read_bytes()) == content_of(SETTINGS[name][1])


def test_claude_gets_the_prefix_and_hooks_without_a_shell(tmp_path: Path) -> None:
    rig, path = rig_of("claude", tmp_path)
    rig.install()
    settings = json.loads(path.read_bytes())
    assert settings["env"] == {
        "FOO": "bar",
        "CLAUDE_CODE_SHELL_PREFIX": "/opt/bin/holdfast-sh",
        "HOLDFAST_STATE_DIR": rig.state.path,
    }
    greet, ours = settings["hooks"]["SessionStart"]
    assert greet["hooks"][0]["command"] == "~/bin/greet"
    (hook,) = ours["hooks"]
    words = ["hook", "session-start", "--harness", "claude", "--state-dir", rig.state.path]
    assert (hook["command"], hook["args"]) == ("/opt/bin/holdfast", words)
    assert settings["permissions"] == json.loads(CLAUDE)["permissions"]


def test_servers_are_wrapped_and_others_are_not(tmp_path: Path) -> None:
    words = ["stdio", "--state-dir", str(tmp_path / "state"), "--"]
    rig, path = rig_of("gemini", tmp_path)
    rig.install()
    servers = parse(path.read_text()).value["mcpServers"]
    assert servers["files"]["command"] == "/opt/bin/holdfast"
    assert servers["files"]["args"] == [*words, "npx", "-y", "@modelcontextprotocol/server-filesystem", "."]
    assert servers["remote"] == {"httpUrl": "https://example.org/mcp"}
    assert b"// the server" in path.read_bytes()

    rig, path = rig_of("codex", tmp_path)
    rig.install()
    servers = tomllib.loads(path.read_text())["mcp_servers"]
    assert servers["docs"] == {"command": "/opt/bin/holdfast", "args": [*words, "npx", "-y", "docs-mcp"]}
    assert servers["plain"] == {"command": "/opt/bin/holdfast", "args": [*words, "uvx"]}
    assert b"# no questions" in path.read_bytes()

    rig, path = rig_of("opencode", tmp_path)
    rig.install()
    command = parse(path.read_text()).value["mcp"]["db"]["command"]
    assert command == ["/opt/bin/holdfast", *words, "bun", "x", "db-mcp"]


@pytest.mark.parametrize(
    "policy", ["[shell_environment_policy]\nset = {}\n", "[shell_environment_policy.set]\nA='1'\n"]
)
def test_codex_has_one_table_of_variables(policy: str, tmp_path: Path) -> None:
    rig, path = rig_of("codex", tmp_path, policy.encode())
    rig.install()
    variables = tomllib.loads(path.read_text())["shell_environment_policy"]["set"]
    assert variables["BASH_ENV"] == rig.commands.entry("codex", rig.where)
    path.write_bytes(path.read_bytes() + b"# mine\n")
    rig.uninstall()
    assert path.read_text() == policy + "# mine\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("claude", b'{"env": ', "it is not valid JSON: line 1"),
        ("claude", b"[]", "it holds no object"),
        ("claude", b'{"env": []}', "env is no object"),
        ("claude", b'{"hooks": {"SessionStart": {}}}', "hooks.SessionStart has an unknown shape"),
        ("claude", b'{"hooks": []}', "hooks.SessionStart has an unknown shape"),
        ("claude", b'{"env": {"CLAUDE_CODE_SHELL_PREFIX": "/x"}}', "env.CLAUDE_CODE_SHELL_PREFIX is set already"),
        ("claude", b'{"a": "\xff"}', "it is not UTF-8"),
        ("gemini", b'{"mcpServers": 3}', "mcpServers is no object"),
        ("gemini", b'{"hooks": {"BeforeTool": "x"}}', "hooks.BeforeTool has an unknown shape"),
        ("opencode", b"{mcp}", "it is not valid JSON"),
        ("codex", b"a = [", "it is not valid TOML"),
        ("codex", b"hooks = 3", "hooks.SessionStart has an unknown shape"),
        ("codex", b"mcp_servers = 3", "mcp_servers is no table"),
        ("codex", b"shell_environment_policy = { inherit = 'all' }", "its shape is unknown"),
        ("codex", b"[shell_environment_policy.set]\nBASH_ENV = '/x'\n", "BASH_ENV is set already"),
        ("codex", b"[hooks]\nSessionStart = [{ hooks = [] }]\n", "its shape is unknown"),
    ],
)
def test_settings_that_we_do_not_understand_stay(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    rig, path = rig_of(name, tmp_path, content)
    before = rig.tree()
    with pytest.raises(SettingsError) as raised:
        rig.install()
    assert said in str(raised.value)
    assert str(path) in str(raised.value)
    assert rig.tree() == before
    assert not os.path.exists(rig.ledger.path)


def test_read_only_settings_stay(tmp_path: Path) -> None:
    rig, path = rig_of("claude", tmp_path)
    path.chmod(0o444)
    with pytest.raises(SettingsError, match="is read-only"):
        rig.install()
    assert path.read_bytes() == CLAUDE


def test_the_file_behind_a_link_is_changed_and_the_link_stays(tmp_path: Path) -> None:
    rig, path = rig_of("claude", tmp_path)
    real = tmp_path / "dotfiles.json"
    path.rename(real)
    path.symlink_to(real)
    rig.install()
    assert path.is_symlink()
    assert b"holdfast-sh" in real.read_bytes()
    rig.uninstall()
    assert path.is_symlink()
    assert real.read_bytes() == CLAUDE
    real.unlink()
    with pytest.raises(SettingsError, match="which is not there"):
        rig.install()


def test_a_change_in_between_is_not_lost(tmp_path: Path) -> None:
    rig, path = rig_of("claude", tmp_path)
    plan = plan_install("Claude Code", rig.files, rig.ledger)
    path.write_bytes(b'{"new": 1}')
    with pytest.raises(SettingsError, match="was changed by another program meanwhile: run the command again"):
        install(plan, rig.files, rig.ledger)
    assert rig.tree()[".claude/settings.json"] == b'{"new": 1}'
    assert list(path.parent.iterdir()) == [path]  # no temporary file
    assert not os.path.exists(rig.ledger.path)


def test_settings_that_are_too_large_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not read would be lost."""
    content = b"# a comment\n" * 100 + b"model = 'o3'\n"
    rig, path = rig_of("codex", tmp_path, content)
    monkeypatch.setattr(settings_file, "_LARGEST", 1200)
    with pytest.raises(SettingsError, match="is larger than 1200 bytes"):
        rig.install()
    assert path.read_bytes() == content
    monkeypatch.setattr(settings_file, "_LARGEST", 10_000)  # the control
    assert rig.install().changes


def test_settings_that_are_a_fifo_keep_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    program = "import sys; from holdfast.harnesses.settings_file import read; read(sys.argv[1])"
    line = [sys.executable, "-c", program, str(tmp_path / "settings.json")]
    done = subprocess.run(line, stderr=subprocess.PIPE, timeout=60, check=False)
    assert b"settings.json is no file" in done.stderr


def test_two_installations_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have made their plans. One waits, finds a changed file, and leaves the ledger as the other has made it."""
    rig, path = rig_of("claude", tmp_path)
    first, second = (plan_install("Claude Code", rig.files, rig.ledger) for _ in range(2))
    make, waits = settings_file.carry_out, Ledger(rig.state)
    waits.lock.bound_s = 0.1

    def meet_another(change: FileChange) -> None:
        monkeypatch.setattr(installation, "carry_out", make)
        with pytest.raises(StateError):
            install(second, rig.files, waits)
        make(change)

    monkeypatch.setattr(installation, "carry_out", meet_another)
    install(first, rig.files, rig.ledger)
    with pytest.raises(SettingsError, match="was changed by another program meanwhile"):
        install(second, rig.files, waits)
    rig.uninstall()
    assert path.read_bytes() == CLAUDE


def test_a_failed_write_puts_the_other_files_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, path = rig_of("gemini", tmp_path)
    plan = plan_install("Gemini CLI", rig.files, rig.ledger)
    assert [change.path for change in plan.changes][-1] == str(path)
    rename = os.rename

    def full(source: str, target: str, **options: Any) -> None:
        if target == str(path):
            raise OSError(28, "No space left on device")
        rename(source, target, **options)

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(SettingsError, match="No space left"):
        install(plan, rig.files, rig.ledger)
    assert path.read_bytes() == GEMINI
    assert not os.path.exists(rig.commands.entry("gemini", rig.where))


def test_a_file_that_cannot_be_put_back_is_named_and_the_others_are_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program changes the second file right after us, and the third cannot be written."""
    rig = Rig("claude", tmp_path)
    first, second, third = (rig.home / name for name in "abc")
    files = [own_file(str(path), f"# {MADE_BY} x`\n") for path in (first, second, third)]
    plan = plan_install("a harness", files, rig.ledger)
    make = settings_file.carry_out

    def meet_another(change: FileChange) -> None:
        if change.path == str(third):
            second.write_text("mine\n")
            raise SettingsError("there is no room")
        make(change)

    monkeypatch.setattr(installation, "carry_out", meet_another)
    with pytest.raises(SettingsError, match=f"there is no room; {second} is not put back: .* was changed by another"):
        install(plan, files, rig.ledger)
    assert (first.exists(), second.read_text(), third.exists()) == (False, "mine\n", False)


def test_a_file_of_another_origin_is_left_alone(tmp_path: Path) -> None:
    rig, _ = rig_of("opencode", tmp_path)
    plugin = rig.home / ".config/opencode/plugins/holdfast.js"
    plugin.parent.mkdir()
    plugin.write_text("// mine\n")
    with pytest.raises(SettingsError, match="this file is not ours"):
        rig.install()
    rig.uninstall()
    assert plugin.read_text() == "// mine\n"


def test_the_diff_shows_what_changes(tmp_path: Path) -> None:
    rig, path = rig_of("claude", tmp_path)
    (change,) = plan_install("Claude Code", rig.files, rig.ledger).changes
    lines = diff(change).splitlines()
    assert lines[:2] == [f"--- {path}", f"+++ {path}"]
    assert '+  "env": { "FOO": "bar", "CLAUDE_CODE_SHELL_PREFIX": "/opt/bin/holdfast-sh",' in "\n".join(lines)
    assert not [line for line in lines if line.startswith("-") and "model" in line]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_is_added_gives_a_permission(name: str, tmp_path: Path) -> None:
    rig, path = rig_of(name, tmp_path)
    for change in plan_install(rig.row.title, rig.files, rig.ledger).changes:
        added = [line[1:] for line in diff(change).splitlines() if line.startswith("+")]
        if change.path == str(path) and name == "claude":  # its own lines are rewritten beside ours
            added = [line for line in added if "deny" not in line]
        words = ("allow", "approv", "trust", "permission", "bypass", "yolo", "decision")
        assert not [line for line in added if any(word in line.lower() for word in words)]
