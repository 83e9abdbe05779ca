"""The leftovers of a trial: found by descent, counted, ended; and the bytes that can still be read."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from trials.scenes import FLOOD_LINE_BYTES, FLOOD_LINES, SCENES

from trials import bytes_kept, leftovers

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "f00dfeed1234"
SLEEPER = "import sys, time; print('ready', flush=True); time.sleep(300)"


def started() -> subprocess.Popen[bytes]:
    """A Python that sleeps, after its ready line."""
    command = [sys.executable, "-c", SLEEPER]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    return process


def test_a_process_that_left_its_session_is_found_counted_and_ended() -> None:
    sleeper = started()
    try:
        left = leftovers.wait(0.0)
        assert any(SLEEPER in command for command in left.commands)
        assert left.memory_bytes > 0
        leftovers.kill([sleeper.pid])
        assert sleeper.wait(20) == -9
        assert sleeper.pid not in leftovers.find()
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_stranger_is_not_the_harness(tmp_path: Path) -> None:
    stranger = started()
    try:
        assert stranger.pid not in leftovers.of_program(tmp_path)
        assert stranger.pid in leftovers.of_program(type(tmp_path)(os.path.realpath(sys.executable)).parent)
    finally:
        stranger.kill()
        stranger.wait()


def test_a_word_counts_where_it_was_printed_and_not_in_its_command() -> None:
    for scene in SCENES:
        for command in scene.commands:
            text = command.format(token=TOKEN, port=1, fifo="fifo")
            assert bytes_kept.recognise(scene, TOKEN, text.encode()) == set(), scene.name
        printed = "\n".join(bytes_kept.words(scene, TOKEN)).encode()
        assert scene.flood or bytes_kept.size(bytes_kept.recognise(scene, TOKEN, printed)) == bytes_kept.printed(
            scene, TOKEN
        )


def test_lines_of_the_flood_are_counted_once(tmp_path: Path) -> None:
    flood = next(scene for scene in SCENES if scene.flood)
    (tmp_path / "one").write_bytes(b"%099d\n%099d\n" % (1, 2))
    (tmp_path / "two").write_bytes(b'"%099d\\n%099d\\n"' % (2, FLOOD_LINES))
    (tmp_path / "skipped").write_bytes(b"%099d\n" % 7)
    found = bytes_kept.in_files(flood, TOKEN, tmp_path, [tmp_path / "skipped"])
    assert found == {1, 2, FLOOD_LINES}
    assert bytes_kept.size(found) == 3 * FLOOD_LINE_BYTES
