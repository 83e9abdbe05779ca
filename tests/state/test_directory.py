"""The state directory: made once, checked always, and a clear error if it cannot be used."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory, default_path
from holdfast.state.owned_files import write_atomically
from holdfast.values.errors import StateError, StateVersionError
from tests.support.descriptors import room_for
from tests.support.unprivileged import NOBODY, as_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestPlace:
    def test_the_variable_then_the_platform(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/somebody")
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.delenv("HOLDFAST_STATE_DIR", raising=False)
        assert default_path() == "/home/somebody/.local/state/holdfast"
        monkeypatch.setenv("XDG_STATE_HOME", "/state")
        assert default_path() == "/state/holdfast"
        monkeypatch.setenv("HOLDFAST_STATE_DIR", "/mine")
        assert default_path() == "/mine"

    def test_is_made_for_its_user_only(self, tmp_path: Path) -> None:
        state = StateDirectory.open(str(tmp_path / "deep" / "state"))
        for path in (state.path, state.runs_path, state.live_path, state.sessions_path):
            assert os.stat(path).st_mode & 0o777 == 0o700
        assert Path(state.path, "format").read_text() == "1\n"
        assert StateDirectory.open(state.path, create=False).path == state.path

    def test_many_make_it_at_once(self, tmp_path: Path) -> None:
        script = "import sys; from holdfast.state.directory import StateDirectory as S; S.open(sys.argv[1]).live_ids()"
        argv = [sys.executable, "-c", script, str(tmp_path / "state")]
        makers = [subprocess.Popen(argv) for _ in range(6)]
        assert [maker.wait() for maker in makers] == [0] * 6
        assert sorted(os.listdir(tmp_path / "state")) == ["format", "live", "runs", "sessions"]

    def test_one_that_was_half_made_is_completed(self, tmp_path: Path) -> None:
        (tmp_path / "state" / "runs").mkdir(parents=True, mode=0o700)
        (tmp_path / "state").chmod(0o700)
        assert StateDirectory.open(str(tmp_path / "state")).live_ids() == []


class TestRefusals:
    def test_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(StateError, match="start a run") as raised:
            StateDirectory.open(str(tmp_path / "no"), create=False)
        assert str(tmp_path / "no") in str(raised.value)
        with pytest.raises(StateError, match="no state directory"):
            StateDirectory.open(str(tmp_path), create=False)

    def test_a_file_is_in_the_way(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        for path in (tmp_path / "file", tmp_path / "file" / "state"):
            with pytest.raises(StateError) as raised:
                StateDirectory.open(str(path))
            assert raised.value.remedy

    def test_no_descriptor_is_left(self, state: StateDirectory) -> None:
        with room_for(0), pytest.raises(StateError, match="ulimit -n") as raised:
            state.live_ids()
        assert "--state-dir" not in str(raised.value), "another directory does not help"

    @pytest.mark.parametrize("text", ["2\n", "", "x\n", "1 2\n", "\xff"])
    def test_another_format(self, state: StateDirectory, text: str) -> None:
        Path(state.path, "format").write_text(text)
        with pytest.raises(StateVersionError, match="format") as raised:
            StateDirectory.open(state.path)
        assert raised.value.remedy

    def test_others_may_write(self, state: StateDirectory) -> None:
        os.chmod(state.path, 0o770)
        with pytest.raises(StateError, match="chmod 700"):
            StateDirectory.open(state.path)

    @pytest.mark.root
    def test_another_users(self, state: StateDirectory) -> None:
        os.chown(state.path, NOBODY, NOBODY)
        with pytest.raises(StateError, match=f"belongs to user {NOBODY}") as raised:
            StateDirectory.open(state.path)
        assert "--state-dir" in str(raised.value)

    @pytest.mark.root
    def test_may_not_write(self, shared_directory: Path) -> None:
        script = "import sys; from holdfast.state.directory import StateDirectory as S\ntry: S.open(sys.argv[1])\n"
        script += "except Exception as error: print(type(error).__name__, error)"
        python = [sys.executable, "-c", script, str(shared_directory / "state")]
        done = subprocess.run(as_nobody(python), capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip("allowed: this Python cannot be read by an ordinary user")
        assert done.stdout.startswith("StateError")
        assert "you may not write there" in done.stdout

    def test_a_part_is_missing(self, state: StateDirectory) -> None:
        os.rmdir(state.live_path)
        with pytest.raises(StateError, match="live"):
            state.live_ids()


@pytest.mark.root
class TestFileSystems:
    @pytest.fixture
    def mount(self, tmp_path: Path) -> Iterator[Path]:
        place = tmp_path / "mount"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", str(place)], check=True)
        yield place
        subprocess.run(["umount", str(place)], check=True)

    def test_read_only(self, mount: Path) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        with pytest.raises(StateError, match="read-only file system"):
            StateDirectory.open(str(mount / "state"))

    def test_full(self, mount: Path) -> None:
        with (mount / "filler").open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        with pytest.raises(StateError, match="disk is full"):
            StateDirectory.open(str(mount / "state"))
        (mount / "filler").unlink()
        assert StateDirectory.open(str(mount / "state")).live_ids() == []


class TestMarks:
    def test_live(self, state: StateDirectory) -> None:
        for run_id in ("b", "a", "a"):
            state.mark_live(run_id)
        assert state.live_ids() == ["a", "b"]
        for run_id in ("a", "a"):
            state.unmark_live(run_id)
        assert state.live_ids() == ["b"]

    def test_a_mark_is_only_a_name(self, state: StateDirectory) -> None:
        """A mark is a name without a file of its own: one file less for each run."""
        for run_id in ("a", "b", "a"):
            state.mark_live(run_id)
        assert os.stat(state.format_path).st_nlink == 3
        for run_id in "ab":
            state.unmark_live(run_id)
        assert StateDirectory.open(state.path, create=False).path == state.path, "the format is still there"

    @pytest.mark.parametrize("number", [errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP])
    def test_without_links_it_is_a_file(
        self, state: StateDirectory, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", refuse)
        for run_id in "aa":
            state.mark_live(run_id)
        assert state.live_ids() == ["a"]
        state.unmark_live("a")
        assert state.live_ids() == []

    def test_what_keeps_both_away_is_told(self, state: StateDirectory) -> None:
        os.rmdir(state.live_path)
        with pytest.raises(FileNotFoundError, match="live"):
            state.mark_live("a")

    @pytest.mark.parametrize("name", ["", ".", "..", "../runs", "a/b", "/etc", ".new-a", "a\0b"])
    def test_what_is_no_name_is_no_run(self, state: StateDirectory, name: str) -> None:
        os.mkdir(os.path.join(state.runs_path, ".new-a"))
        os.makedirs(os.path.join(state.runs_path, "a", "b"))
        assert state.has("a")
        assert not state.has(name)

    def test_hidden_ones_are_not_listed(self, state: StateDirectory) -> None:
        os.mkdir(state.hidden_path("a", "new"))
        os.mkdir(state.run_path("b"))
        assert list(state.all_ids()) == ["b"]

    def test_missing(self, state: StateDirectory) -> None:
        os.mkdir(state.hidden_path("a", "new"))
        os.mkdir(state.run_path("b"))
        assert [state.is_missing(run_id) for run_id in "abc"] == [False, False, True]
        for run_id in "abc":
            state.mark_live(run_id)
            state.unmark_missing(run_id)
        assert state.live_ids() == ["a", "b"]

    def test_writing_leaves_the_old_one_or_the_new_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "file"
        write_atomically(str(path), b"old")

        def fails(*_: object) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(os, "write", fails)
            with pytest.raises(OSError, match="No space"):
                write_atomically(str(path), b"new")
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["file"]
