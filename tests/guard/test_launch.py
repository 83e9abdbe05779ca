"""Launching a guard: descriptors arrive at their numbers, and a failed launch leaves nothing behind.

That no descriptor, process or cgroup is left is asserted after each test by the fixture `nothing_left_behind`.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.guard import binary
from holdfast.runs.ephemeral import start_ephemeral
from holdfast.values.spec import make_spec

from ..support.descriptors import room_for
from ..support.leftovers import open_descriptors

if TYPE_CHECKING:
    from typing import Any

pytestmark = pytest.mark.guard

# Run with all three standard descriptors closed: every number that the guard expects is then free in the launcher,
# and given to another file. The exit code says what went wrong.
CLOSED_STDIO = """
import os, sys
import holdfast
from holdfast.guard import descriptors
descriptors.FIRST_FREE = int(sys.argv[1])
os.closerange(0, 10)
result = holdfast.run(["sh", "-c", "cat; echo err >&2; exit 7"], input=b"in", timeout=20)
right = (result.exit_code, result.stdout, result.stderr) == (7, b"in", b"err\\n")
os._exit(0 if right else 1)
"""


def test_the_guard_gets_its_descriptors_whatever_numbers_are_free() -> None:
    assert subprocess.run([sys.executable, "-c", CLOSED_STDIO, "10"], check=False, timeout=60).returncode == 0


def test_without_moving_sources_up_they_would_collide() -> None:
    assert subprocess.run([sys.executable, "-c", CLOSED_STDIO, "0"], check=False, timeout=60).returncode != 0


def test_a_missing_guard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(tmp_path / "absent"))
    with pytest.raises(holdfast.GuardError, match=f"{tmp_path}/absent cannot be started") as caught:
        holdfast.run(["true"], run_id="r1")
    assert caught.value.errno == errno.ENOENT
    assert caught.value.run_id == "r1"
    assert "HOLDFAST_GUARD" in str(caught.value.remedy)


def test_a_guard_that_is_not_executable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "guard").write_bytes(Path(binary.guard_path()).read_bytes())
    monkeypatch.setenv("HOLDFAST_GUARD", str(tmp_path / "guard"))
    with pytest.raises(holdfast.GuardError) as caught:
        holdfast.run(["true"])
    assert caught.value.errno == errno.EACCES
    assert "chmod +x" in str(caught.value.remedy)


def test_a_guard_that_is_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "guard").write_text("for another machine")
    (tmp_path / "guard").chmod(0o755)
    monkeypatch.setenv("HOLDFAST_GUARD", str(tmp_path / "guard"))
    with pytest.raises(holdfast.GuardError, match="cannot be started"):
        holdfast.run(["true"])


def test_the_packaged_guard_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOLDFAST_GUARD", raising=False)
    monkeypatch.setattr(binary, "_PACKAGED_GUARD", str(tmp_path / "holdfast-guard"))
    with pytest.raises(holdfast.GuardError) as caught:
        holdfast.run(["true"])
    assert caught.value.remedy == "build it (make guard) or reinstall holdfast"


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_no_process_or_memory_left(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_spawn", refuse)
    with pytest.raises(holdfast.ResourceError, match="cannot start a guard") as caught:
        holdfast.run(["true"], stdin="pipe", run_id="r2")
    assert caught.value.errno == code
    assert caught.value.run_id == "r2"
    assert caught.value.remedy


@pytest.mark.parametrize("options", [{"stdin": "pipe"}, {"pty": True}, {"idle_counts": "heartbeat"}], ids=str)
def test_at_every_descriptor_that_is_missing_nothing_is_left(options: Any) -> None:
    holdfast.run(["true"])  # files that are opened once per process are open now
    before = open_descriptors()
    refused: list[holdfast.ResourceError] = []
    for room in range(24):
        try:
            with room_for(room):
                result = holdfast.run(["true"], **options)
        except holdfast.ResourceError as error:
            refused.append(error)
        else:
            break
        finally:
            assert open_descriptors() == before
    assert result.status == "succeeded"
    assert {error.errno for error in refused} == {errno.EMFILE}
    assert all("ulimit -n" in str(error.remedy) for error in refused)
    assert len(refused) >= 5, "journal, spec, stdin, two sockets: each was the missing one once"


def test_stdin_from_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(holdfast.SpecError, match="stdin cannot be read") as caught:
        holdfast.run(["cat"], stdin=tmp_path / "absent")
    assert caught.value.field == "stdin"


def test_stdin_from_a_fifo_without_a_writer_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert holdfast.run(["cat"], stdin=tmp_path / "fifo", timeout=30).status == "succeeded"


def test_environment_values_are_not_written_down() -> None:
    live = start_ephemeral(
        make_spec(["sh", "-c", 'echo "$SECRET" >/dev/null; cat'], env={"SECRET": "hunter2"}, stdin="pipe")
    )
    try:
        record = os.pread(live.journal, 1 << 20, 0)
        assert record.startswith(b"HOLDFAST")
        assert b"SECRET" in record
        assert b"hunter2" not in record
    finally:
        live.close_control()
        live.reap(wait=True)
        live.close()


def test_everything_of_ours_is_closed_on_exec() -> None:
    before = set(open_descriptors())
    live = start_ephemeral(make_spec(["cat"], stdin="pipe", idle_counts="heartbeat"))
    try:
        assert [fd for fd in set(open_descriptors()) - before if os.get_inheritable(fd)] == []
    finally:
        live.close_control()
        live.reap(wait=True)
        live.close()
