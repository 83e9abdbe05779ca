"""A command whose file system has stopped answering: the guard never waits for it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from holdfast.guard.leftovers import environment_of
from holdfast.guard.processes import words_of
from tests.support.driven import Driven
from tests.support.evidence import assert_all_gone, one, outcome_of
from tests.support.silent_filesystem import SilentFilesystem, why_no_fuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.children import Children

pytestmark = [pytest.mark.guard, pytest.mark.root]


@pytest.fixture
def silent(tmp_path: Path, child: Children) -> Iterator[SilentFilesystem]:
    if (why_not := why_no_fuse()) is not None:
        pytest.skip(f"allowed: {why_not}")
    with SilentFilesystem(tmp_path / "silent", child.program("exits_on_term")) as filesystem:
        yield filesystem


@pytest.mark.usefixtures("contained")
def test_its_command_gets_every_rung(silent: SilentFilesystem) -> None:
    with Driven([str(silent.program), "7"], grace=30) as run:
        run.until_ready()
        silent.fall_silent()
        run.live.ask_stop()
        result = run.settle()
    assert outcome_of(result) == ("cancelled", "user")
    assert result.exit_code == 7
    assert one(result.facts, "signalled").detail["reached"] == 1
    assert_all_gone(result.report)


def test_control_to_stat_the_program_of_its_command_waits(silent: SilentFilesystem) -> None:
    with Driven([str(silent.program), "7"], grace=30) as run:
        program = f"/proc/{run.until_ready()['pid']}/exe"
        silent.fall_silent()
        assert os.readlink(program) == str(silent.program)
        waiter = threading.Thread(target=lambda: os.path.exists(program))
        waiter.start()
        run.live.ask_stop()
        run.settle()
        assert waiter.is_alive()
        silent.abort()
        waiter.join()


def test_arguments_and_environment_behind_it_are_read_at_once(
    silent: SilentFilesystem, child: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process maps a file of it over its own stack. The kernel reads no file there for another process."""
    monkeypatch.setenv("HOLDFAST_TEST_LONG", "x" * 100_000)
    with Driven(child("hides_stack", silent.program, "y" * 20_000), env_keep=["HOLDFAST_TEST_LONG"], timeout=3) as run:
        pid = run.until_ready()["pid"]
        silent.fall_silent()
        readers = [threading.Thread(target=read, args=(pid,)) for read in (environment_of, words_of)]
        for reader in readers:
            reader.start()
            reader.join(60)
        assert not [reader for reader in readers if reader.is_alive()]
        result = run.settle()
    assert outcome_of(result) == ("timed_out", "deadline")
    assert_all_gone(result.report)
