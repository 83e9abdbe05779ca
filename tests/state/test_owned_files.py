"""Files of the state directory against another user: the directory is checked first, and no link is followed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.state import owned_files
from holdfast.state.directory import StateDirectory
from holdfast.state.file_lock import FileLock
from holdfast.state.index.index import Index
from holdfast.values.errors import StateError
from tests.support.unprivileged import NOBODY, as_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator

PRECIOUS = "root:secret\n"
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]


@pytest.fixture
def trap(shared_directory: Path) -> Iterator[Path]:
    """A state directory that an ordinary user made in a directory where everybody may write."""
    place = Path(tempfile.mkdtemp(dir=shared_directory))
    place.chmod(0o777)
    _as_nobody("mkdir", str(place / "state"))
    yield place / "state"
    shutil.rmtree(place)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of ours, outside of the state directory."""
    file = tmp_path / "precious"
    file.write_text(PRECIOUS)
    return file


def _as_nobody(*argv: str) -> None:
    subprocess.run(as_nobody(list(argv)), check=True)


@pytest.mark.root
class TestAnotherUser:
    @pytest.mark.parametrize("command", [["run", "--", "true"], ["serve"], ["mcp"]], ids=lambda argv: argv[0])
    def test_a_link_for_the_temporary_name_is_not_followed(
        self, trap: Path, precious: Path, command: list[str]
    ) -> None:
        argv = [*HOLDFAST, command[0], "--state-dir", str(trap), *command[1:]]
        # The shell becomes the command, so its PID is the one that a temporary name may hold.
        waiting = subprocess.Popen(
            ["sh", "-c", 'read go; exec "$@" </dev/null', "sh", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        _as_nobody("ln", "-s", str(precious), str(trap / f"format.{waiting.pid}.new"))
        _, said = waiting.communicate("go\n", timeout=30)
        assert precious.read_text() == PRECIOUS
        assert waiting.returncode != 0
        assert f"belongs to user {NOBODY}" in said
        assert os.listdir(trap) == [f"format.{waiting.pid}.new"], "nothing was written before the check"

    def test_control_a_truncating_open_destroys_the_file(self, trap: Path, precious: Path) -> None:
        """Without the check, and with the flags of before, the same trap works."""
        _as_nobody("ln", "-s", str(precious), str(trap / "format.1.new"))
        os.close(os.open(trap / "format.1.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        assert precious.read_text() == ""

    def test_a_link_to_a_directory_of_ours_is_not_taken(self, trap: Path, tmp_path: Path) -> None:
        (ours := tmp_path / "ours").mkdir(mode=0o700)
        _as_nobody("ln", "-s", str(ours), str(trap / "link"))
        with pytest.raises(StateError, match=f"belongs to user {NOBODY}"):
            StateDirectory.open(str(trap / "link"))
        assert os.listdir(ours) == []
        # Control: a link that its owner made leads there.
        (tmp_path / "own link").symlink_to(ours)
        assert StateDirectory.open(str(tmp_path / "own link")).live_ids() == []

    @pytest.mark.parametrize("part", ["runs", "live", "sessions"])
    def test_a_directory_that_was_given_to_us_is_looked_into(self, trap: Path, tmp_path: Path, part: str) -> None:
        """An administrator changes the owner of the directory, but not of what is in it."""
        (tmp_path / "elsewhere").mkdir()
        _as_nobody("ln", "-s", str(tmp_path / "elsewhere"), str(trap / part))
        os.chown(trap, 0, 0)
        os.chmod(trap, 0o700)
        with pytest.raises(StateError, match=f"{part} belongs to user {NOBODY}"):
            StateDirectory.open(str(trap))
        assert os.listdir(tmp_path / "elsewhere") == []

    @pytest.mark.parametrize("name", ["index.lock", "index.sqlite"])
    def test_a_link_in_the_place_of_a_file(self, trap: Path, precious: Path, name: str) -> None:
        _as_nobody("ln", "-s", str(precious), str(trap / name))
        os.chown(trap, 0, 0)
        os.chmod(trap, 0o700)
        with pytest.raises(StateError):
            Index.open(StateDirectory.open(str(trap)))
        assert precious.read_text() == PRECIOUS


class TestOurOwn:
    def test_a_new_file_is_never_an_old_one(self, state: StateDirectory, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").write_text("kept")
        os.symlink(tmp_path / "elsewhere", os.path.join(state.path, "link"))
        with pytest.raises(FileExistsError):
            owned_files.create(os.path.join(state.path, "link"))
        with pytest.raises(OSError, match="symbolic links"):
            owned_files.open_or_create(os.path.join(state.path, "link"), os.O_RDWR)
        assert (tmp_path / "elsewhere").read_text() == "kept"

    def test_a_file_for_us_alone(self, state: StateDirectory) -> None:
        path = os.path.join(state.path, "new")
        before = os.umask(0)
        try:
            os.close(owned_files.create(path))
        finally:
            os.umask(before)
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert owned_files.check_file(path)
        assert not owned_files.check_file(path + "x")

    def test_a_pipe_is_no_lock_file(self, state: StateDirectory) -> None:
        os.mkfifo(os.path.join(state.path, "pipe"))
        with pytest.raises(StateError, match="no file of ours"):
            FileLock(os.path.join(state.path, "pipe")).exclusive().__enter__()

    def test_nothing_is_made_where_others_may_write(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)
        with pytest.raises(StateError, match="others may write"):
            owned_files.create(str(tmp_path / "new"))
        with pytest.raises(StateError, match="others may write"):
            StateDirectory.open(str(tmp_path))
        assert os.listdir(tmp_path) == []
        tmp_path.chmod(0o700)
        assert StateDirectory.open(str(tmp_path)).live_ids() == [], "control: our own directory is taken"
