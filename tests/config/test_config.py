"""Settings: one table, one precedence, and mistakes that are reported with file, line and name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import ConfigError
from holdfast.config import Config, Effective, Setting, SettingSource, load_config, reload, settings
from holdfast.config.toml import TomlFile
from holdfast.values.disk_floor import DiskFloor

MANUAL = Path(__file__).parents[2] / "docs" / "configuration.md"
# For every kind of value: as text, as TOML, and the meaning of both. No value equals a default.
EXAMPLES: dict[str, tuple[str, str, Any]] = {
    "DURATION": ("90s", '"90s"', 90.0),
    "SIZE": ("3M", '"3M"', 3 << 20),
    "SIZE|N%": ("2.5%,3M", '"2.5%,3M"', DiskFloor(2.5, 3 << 20)),
    "queue|refuse": ("refuse", '"refuse"', "refuse"),
    "COUNT": ("7", "7", 7),
    "HOST:PORT": ("127.0.0.1:1,[::1]:2", '["127.0.0.1:1", "[::1]:2"]', ("127.0.0.1:1", "[::1]:2")),
    "PATH": ("/etc/one.pem", '"/etc/one.pem"', "/etc/one.pem"),
    "KEY=COUNT": (
        "session:a=1,label:b=c=2",
        '{ "session:a" = 1, "label:b=c" = 2 }',
        {"session:a": 1, "label:b=c": 2},
    ),
    "TEXT": ("one,two", '["one", "two"]', ("one", "two")),
    "drain|handoff|cancel": ("handoff", '"handoff"', "handoff"),
    "local|ray": ("ray", '"ray"', "ray"),
    "text|json": ("json", '"json"', "json"),
    "": ("yes", "true", True),
}
WITH_FLAG = [setting for setting in settings().values() if setting.flag is not None]


def example(setting: Setting) -> tuple[str, str, Any]:
    if setting.kind.metavar == "TEXT" and not setting.kind.many:
        return "one", '"one"', "one"
    return EXAMPLES[setting.kind.metavar or ""]


def load(
    tmp_path: Path, text: str | None = None, flags: dict[str, list[str]] | None = None, **environ: str
) -> Effective:
    if text is not None:
        (tmp_path / "config.toml").write_text(text)
    # An empty home: the user of this test may have settings of their own.
    return load_config(flags, {"HOME": str(tmp_path / "home"), **environ}, state_dir=str(tmp_path))


def mistakes(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert caught.value.file == str(tmp_path / "config.toml")
    return tuple(mistake.removeprefix(f"{tmp_path}/") for mistake in caught.value.mistakes or (str(caught.value),))


def test_names_are_unique() -> None:
    table = settings().values()
    for names in ([s.path for s in table], [s.flag for s in WITH_FLAG], [s.variable for s in WITH_FLAG]):
        assert len(set(names)) == len(names)
    assert [setting.name for setting in table] == list(Config._fields)


def test_defaults(tmp_path: Path) -> None:
    found = load(tmp_path)
    assert found.config == Config()
    assert found.file is None
    assert set(found.sources.values()) == {SettingSource("default")}


@pytest.mark.parametrize("setting", WITH_FLAG, ids=lambda setting: setting.name)
def test_flag_before_variable_before_file_before_default(tmp_path: Path, setting: Setting) -> None:
    text, toml, value = example(setting)
    assert setting.flag is not None
    assert setting.variable is not None
    (tmp_path / "config.toml").write_text(f"# one\n{setting.path} = {toml}\n")

    def ask(flags: dict[str, list[str]], **environ: str) -> tuple[Any, SettingSource]:
        found = load(tmp_path, None, flags, **environ)
        others = {name: source for name, source in found.sources.items() if name != setting.name}
        assert set(others.values()) == {SettingSource("default")}
        return getattr(found.config, setting.name), found.sources[setting.name]

    by_file = SettingSource("file", f"{tmp_path / 'config.toml'}:2")
    by_variable = SettingSource("variable", setting.variable)
    by_flag = SettingSource("flag", setting.flag)
    words = text.split(",") if setting.kind.many else [text]
    wrong = {setting.variable: "@"} if setting.kind.metavar != "TEXT" else {}
    assert ask({}) == (value, by_file)
    assert ask({}, **{setting.variable: text}) == (value, by_variable)
    assert ask({setting.flag: words}, **{setting.variable: text}) == (value, by_flag)
    assert ask({setting.flag: words}, **wrong) == (value, by_flag), "what does not count is not looked at"
    assert ask({}, **{setting.variable: ""}) == (value, by_file), "an empty variable is none"


@pytest.mark.parametrize("setting", settings().values(), ids=lambda setting: setting.name)
def test_what_is_written_is_read_back(setting: Setting) -> None:
    if setting.kind.many:
        return  # shown for people, with a space after each comma
    _, _, value = example(setting) if not setting.secret else ("", "", "s")
    for held in (setting.default, value):
        assert setting.kind.read(setting.kind.write(held), "x") == held


def test_optional_settings_can_be_switched_off(tmp_path: Path) -> None:
    found = load(tmp_path, 'retention.age = "none"\nretention.count = "none"', {"--retention-size": ["none"]})
    assert (found.config.retention_age_s, found.config.retention_count, found.config.retention_bytes) == (None,) * 3
    assert mistakes(tmp_path, 'shutdown.drain = "none"')[0].startswith("config.toml:1: shutdown.drain 'none' is not a")


def test_which_file(tmp_path: Path) -> None:
    state, home, other = tmp_path / "state", tmp_path / "home", tmp_path / "other.toml"
    environ = {"XDG_CONFIG_HOME": str(home)}

    def runs(path: Path | None = None, **variables: str) -> int:
        named = None if path is None else str(path)
        return load_config({}, {**environ, **variables}, named, state_dir=str(state)).config.max_runs

    assert runs() == 16
    (home / "holdfast").mkdir(parents=True)
    (home / "holdfast" / "config.toml").write_text("limits.max_runs = 1")
    assert runs() == 1
    state.mkdir()
    (state / "config.toml").write_text("limits.max_runs = 2")
    assert runs() == 2
    other.write_text("limits.max_runs = 3")
    assert runs(HOLDFAST_CONFIG=str(other)) == 3
    assert runs(other, HOLDFAST_CONFIG="/nowhere") == 3
    with pytest.raises(ConfigError, match=r"/nowhere: it cannot be read: No such file or directory: name another"):
        runs(Path("/nowhere"))


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[limits]\n\nmax_run = 3", "3: limits.max_run is unknown: did you mean limits.max_runs?"),
        ("[limit]\nmax_runs = 3", "1: limit is unknown: did you mean limits?"),
        ("# x\nmax_runs = 3", "2: max_runs is unknown: did you mean limits.max_runs?"),
        ("[zebra.other]\nzz = 1", "1: zebra is unknown: holdfast config lists what can be set"),
        ("limits = 3", "1: limits is not a table: write [limits], and its settings below"),
        ("[limits]\nmax_runs = '3'", "2: limits.max_runs is text: it has to be a whole number"),
        ("[limits]\nmax_runs = true", "2: limits.max_runs is true or false: it has to be a whole number"),
        ("[limits]\nmax_runs = 0", "2: limits.max_runs must be at least 1: nothing could ever run"),
        ("[limits]\nqueue_limit = -1", "2: limits.queue_limit -1 is out of range: write a number that is not"),
        ("[limits.concurrency]\na = 1\nb = 'x'", "3: limits.concurrency.b is not a whole number: write how many"),
        ("[shutdown]\ndrain = '1x'", "2: shutdown.drain '1x' is not a duration: write seconds as a number"),
        ("[shutdown]\ndrain = -1", "2: shutdown.drain must not be negative: write seconds"),
        ("[shutdown]\ndrain = [1]", "2: shutdown.drain is a list: it has to be a duration"),
        ("[shutdown]\non_shutdown = 'x'", "2: shutdown.on_shutdown 'x' is unknown: use one of drain, handoff, cancel"),
        ("[http]\nlisten = [\n'::1:80',\n]", "2: http.listen '::1:80' is not an address: write HOST:PORT"),
        ("[http]\nlisten = [1]", "2: http.listen is not a list of text"),
        ("[http]\nrequest_size = 1.5", "2: http.request_size is a number: it has to be a size"),
        ("defaults.memory = 'much'", "1: defaults.memory 'much' is not a size"),
        ("[http]\ninsecure_plain_tcp = 1", "2: http.insecure_plain_tcp is a number: it has to be true or false"),
        ("webhooks.secret = 5", '1: webhooks.secret is a number: it has to be text, or "none"'),
        ("\n\nx = ", "3: invalid value: correct it"),
        ("[limits]\nmax_runs = 1\nmax_runs = 2", "3: cannot overwrite a value: correct it"),
        ("a = 1\nb = '''", "2: "),
    ],
)
def test_mistakes_have_a_line_and_a_name(tmp_path: Path, text: str, mistake: str) -> None:
    found = mistakes(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(f"config.toml:{mistake}")


def test_all_mistakes_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "[shutdown]\ndrain = 'soon'\n[limits]\nmax_runs = 'x'\nmore = 1\n"
    found = mistakes(tmp_path, text)
    assert [mistake.partition(" ")[0] for mistake in found] == ["config.toml:2:", "config.toml:4:", "config.toml:5:"]
    with pytest.raises(ConfigError, match=r"config.toml:2: .*; holdfast config lists all 3 mistakes") as caught:
        load(tmp_path)
    assert (caught.value.line, caught.value.name) == (2, "shutdown.drain")


def test_mistakes_in_flags_and_variables(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--max-runs 'x' is not a whole number: write digits only$"):
        load(tmp_path, None, {"--max-runs": ["x"]})
    with pytest.raises(ConfigError, match=r"^HOLDFAST_DRAIN 'x' is not a duration"):
        load(tmp_path, HOLDFAST_DRAIN="x")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"a = 1\nb = '\xff'")
    with pytest.raises(ConfigError, match=r"config.toml:2: it is not UTF-8"):
        load(tmp_path)
    (tmp_path / "config.toml").write_bytes(b"#" * (1 << 20) + b"#")
    with pytest.raises(ConfigError, match="larger than a mebibyte"):
        load(tmp_path)


def test_lines_of_everything_toml_can_do(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        '# one\n"a b".c = 1\nlong = [\n  1,\n  # x = 5\n  2]\ntext = """\n[no.table]\ny = 1\n"""\n'
        "[t.u]\nz = { q = 1, r = 2 }\n[[list]]\nw = 1\n[t.v] # comment\n'k' = 3\r\nlast=4"
    )
    found = TomlFile(str(file))
    lines = {
        ("a b",): 2,
        ("a b", "c"): 2,
        ("long",): 3,
        ("text",): 7,
        ("t",): 11,
        ("t", "u"): 11,
        ("t", "u", "z"): 12,
        ("t", "u", "z", "q"): 12,
        ("list",): 13,
        ("t", "v"): 15,
        ("t", "v", "k"): 16,
        ("t", "v", "last"): 17,
        ("no", "table"): None,
    }
    assert {path: found.line(path) for path in lines} == lines


@given(st.text(alphabet="ab.=[]{}\"\n' #1,", max_size=60))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    place = tmp_path_factory.mktemp("any")
    error: ConfigError | None = None
    try:
        load(place, text)
    except ConfigError as raised:
        error = raised
    assert error is None or (error.file is not None and error.line is not None)


def test_reload_takes_what_can_change(tmp_path: Path) -> None:
    old = load(tmp_path, "limits.max_runs = 2\n", {"--drain": ["5s"]})
    (tmp_path / "config.toml").write_text(
        "limits.max_runs = 3\nshutdown.drain = 9\nhttp.listen = ['127.0.0.1:0']\nhttp.request_size = '1M'\n"
    )
    new, changed, needs_restart = reload(old)
    assert (changed, needs_restart) == (("max_runs",), ("listen", "request_bytes"))
    assert (new.config.max_runs, new.config.drain_s) == (3, 5.0), "a flag still counts before the file"
    assert (new.config.listen, new.config.request_bytes) == (old.config.listen, old.config.request_bytes)
    assert new.sources["listen"] == SettingSource("default"), "the source of the value in force"
    assert new.sources["max_runs"] == SettingSource("file", f"{tmp_path / 'config.toml'}:1")
    again = reload(new)
    assert (again.changed, again.needs_restart) == ((), needs_restart), "as long as it differs"


def test_reload_of_a_file_with_a_mistake_changes_nothing(tmp_path: Path) -> None:
    old = load(tmp_path, "limits.max_runs = 2")
    (tmp_path / "config.toml").write_text("limits.max_runs = 3\nlimits.max = 1")
    with pytest.raises(ConfigError, match=r":2: limits.max is unknown"):
        reload(old)
    assert old.config.max_runs == 2


def test_reload_finds_a_file_that_was_made_since(tmp_path: Path) -> None:
    old = load(tmp_path)
    (tmp_path / "config.toml").write_text("log.format = 'json'")
    assert reload(old).changed == ("log_format",)


@pytest.mark.parametrize("wrong", ["5.5.5%", "-1%", "100%", "%", "soon", "5%,soon"])
def test_a_floor_that_is_none(tmp_path: Path, wrong: str) -> None:
    assert "limits.disk_floor" in mistakes(tmp_path, f"limits.disk_floor = '{wrong}'")[0]


def test_the_smaller_floor_counts() -> None:
    assert DiskFloor(5.0, 1 << 30).of(100 << 30) == 1 << 30
    assert DiskFloor(5.0, 1 << 30).of(1 << 30) == (1 << 30) // 20
    assert (DiskFloor(10.0, None).of(1000), DiskFloor(None, 300).of(1000), DiskFloor(None, 3000).of(1000)) == (
        100,
        300,
        1000,
    )


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    load(tmp_path, "limits.max_runs = 3")
    (tmp_path / "config.toml").chmod(mode)
    with pytest.raises(ConfigError, match="others may write to it: look at it, then chmod go-w"):
        load(tmp_path)
    (tmp_path / "config.toml").chmod(0o644)
    assert load(tmp_path).config.max_runs == 3, "control: others may read it"


@pytest.mark.root
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    load(tmp_path, "limits.max_runs = 3")
    os.chown(tmp_path / "config.toml", 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to user 65534"):
        load(tmp_path)


def test_secrets_are_not_told(tmp_path: Path) -> None:
    found = load(tmp_path, "webhooks.secret = 'hush'")
    assert found.config.webhook_secret == "hush"
    assert "hush" not in repr(found) + str(found.config)
    assert "webhook_secret=(set)" in repr(found.config)


def table() -> str:
    """The table of the manual. To renew it: python -c 'from tests.config.test_config import table; print(table())'."""
    rows = ["| in the file | flag | default | what | reload |", "|---|---|---|---|---|"]
    for setting in settings().values():
        flag = f"`{setting.flag}`" if setting.flag else ""
        reloads = "yes" if setting.reloads else "restart"
        rows.append(f"| `{setting.path}` | {flag} | {setting.shown(setting.default)} | {setting.doc} | {reloads} |")
    return "\n".join(rows)


def test_the_manual_has_the_table() -> None:
    assert table() in MANUAL.read_text()


@pytest.mark.parametrize("setting", WITH_FLAG, ids=lambda setting: setting.name)
def test_variables_are_named_as_the_manual_says(setting: Setting) -> None:
    assert setting.flag is not None
    assert setting.variable == "HOLDFAST_" + setting.flag.removeprefix("--").replace("-", "_").upper()


def test_the_manuals_example_is_right(tmp_path: Path) -> None:
    _, _, rest = MANUAL.read_text().partition("```toml\n")
    example_text = rest.partition("```")[0]
    assert load(tmp_path, example_text).config != Config()
