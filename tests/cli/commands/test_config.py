"""`holdfast config`: every value, and where it comes from."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from holdfast.config import settings

from ...support.daemons import daemon
from ..console import holdfast
from ..kept_runs import as_json

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(state_directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    state_directory.mkdir(parents=True)
    return state_directory / "config.toml"


def rows(text: bytes) -> dict[str, list[str]]:
    return {line.split(maxsplit=1)[0]: line.split(maxsplit=2)[1:] for line in text.decode().splitlines()}


def test_every_value_and_its_source(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[limits]\nqueue_limit = 5\nmax_runs = 2\n")
    monkeypatch.setenv("HOLDFAST_MAX_RUNS", "3")
    monkeypatch.setenv("HOLDFAST_DRAIN", "30s")
    done = holdfast("config", "--drain", "5s")
    assert (done.returncode, done.stderr) == (0, b"")
    found = rows(done.stdout)
    assert set(found) == {"daemon:", "file:", *(setting.path for setting in settings().values())}
    assert found["daemon:"] == ["none"]
    assert found["file:"] == [str(file)]
    assert found["limits.queue_limit"] == ["5", f"file {file}:2"]
    assert found["limits.max_runs"] == ["3", "variable HOLDFAST_MAX_RUNS"]
    assert found["shutdown.drain"] == ["5s", "flag --drain"]
    assert found["retention.age"] == ["30d", "default"]


def test_as_json(file: Path) -> None:
    file.write_text("webhooks.secret = 'hush'\nlimits.concurrency.'session:a' = 2\n")
    done = holdfast("config", "--json", "--listen", "127.0.0.1:1")
    assert b"hush" not in done.stdout
    found = as_json(done)
    assert found["file"] == str(file)
    assert set(found["settings"]) == {setting.path for setting in settings().values()}
    listen, keys = found["settings"]["http.listen"], found["settings"]["limits.concurrency"]
    assert (listen["value"], listen["source"], listen["where"]) == (["127.0.0.1:1"], "flag", "--listen")
    assert (keys["value"], keys["where"]) == ({"session:a": 2}, f"{file}:2")
    assert found["settings"]["webhooks.secret"]["text"] == "(set)"


def test_without_a_file(file: Path) -> None:
    assert holdfast("config").stdout.startswith(b"daemon: none\nfile: none\n")
    assert not file.exists()


def test_all_mistakes_are_told(file: Path) -> None:
    file.write_text("[limits]\nmax_run = 1\n[shutdown]\ndrain = 'x'\n")
    done = holdfast("config")
    assert (done.returncode, done.stdout) == (125, b"")
    assert [line.partition(": ")[2].partition(" is ")[0] for line in done.stderr.decode().splitlines()] == [
        f"{file}:2: limits.max_run",
        f"{file}:4: shutdown.drain 'x'",
    ]


def test_a_running_daemon_is_asked(file: Path) -> None:
    file.write_text("[limits]\nqueue_limit = 5\n")
    with daemon(file.parent, "--max-runs", "3", env={"HOLDFAST_DRAIN": "30s"}) as running:
        done = holdfast("config")
        assert (done.returncode, done.stderr) == (0, b"")
        found = rows(done.stdout)
        assert found["daemon:"] == [
            "process",
            f"{running.process.pid}, since {as_json(holdfast('config', '--json'))['daemon']['started_at']}",
        ]
        assert found["limits.max_runs"] == ["3", "flag --max-runs"]
        assert found["shutdown.drain"] == ["30s", "variable HOLDFAST_DRAIN"]
        assert found["limits.queue_limit"] == ["5", f"file {file}:2"]
        # A new daemon would have other settings: with an option, or on request.
        assert rows(holdfast("config", "--no-daemon").stdout)["limits.max_runs"] == ["16", "default"]
        assert rows(holdfast("config", "--drain", "1s").stdout)["limits.max_runs"] == ["16", "default"]
        # The file has changed, and the daemon has not read it again.
        file.write_text("[limits]\nqueue_limit = 6\n[http]\nrequest_size = '1M'\n")
        done = holdfast("config")
        assert rows(done.stdout)["limits.queue_limit"][0] == "5"
        assert done.stderr.decode().splitlines() == [
            "holdfast: changed since the daemon read its settings: limits.queue_limit; SIGHUP puts them in force",
            "holdfast: changed since the daemon started: http.request_size; a restart puts them in force",
        ]
        running.signal(signal.SIGHUP)
        running.until_line("^settings changed: queue_limit")
        assert rows(holdfast("config").stdout)["limits.queue_limit"][0] == "6"
        file.write_text("[limits]\nmax_run = 1\n")
        done = holdfast("config")
        assert (done.returncode, rows(done.stdout)["limits.queue_limit"][0]) == (125, "6")
        assert f"{file}:2: limits.max_run is unknown" in done.stderr.decode()


def test_the_secret_of_a_daemon_stays_with_it(file: Path) -> None:
    file.write_text("webhooks.secret = 'hush-hush-hush-hush'\n")
    with daemon(file.parent):
        done = holdfast("config", "--json")
        assert as_json(done)["settings"]["webhooks.secret"]["text"] == "(set)"
        assert b"hush" not in done.stdout


def test_a_socket_that_a_killed_daemon_left(file: Path) -> None:
    with daemon(file.parent, "--max-runs", "3") as running:
        running.kill()
    done = holdfast("config")
    assert (done.returncode, rows(done.stdout)["limits.max_runs"]) == (0, ["16", "default"])
    assert b"no daemon answers" in done.stderr


def test_help_names_every_flag() -> None:
    text = holdfast("config", "--help").stdout.decode()
    assert all(setting.flag in text for setting in settings().values() if setting.flag is not None)
