"""`holdfast.run`: blocking, complete, and without leftovers in whatever way it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.guard import launch, leftovers
from holdfast.runs import live

from ..support.driven import Gate
from ..support.processes import is_gone, kill_both, kill_children, own_children, parent_of, sentinel_of, wait_exited
from ..support.readiness import is_ready, names_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Chunk

    from ..support.children import Children

pytestmark = pytest.mark.guard


class Watching:
    """An `on_output` that acts once, when the ready line is there."""

    def __init__(self, act: Callable[[dict[str, int]], object]) -> None:
        self.act: Callable[[dict[str, int]], object] | None = act
        self.seen = b""
        self.names: dict[str, int] = {}

    def __call__(self, chunk: Chunk) -> None:
        self.seen += chunk.data
        if self.act is not None and is_ready(self.seen):
            act, self.act = self.act, None
            self.names = names_in(self.seen)
            act(self.names)


def test_a_result_has_everything() -> None:
    result = holdfast.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.status, result.cause, result.exit_code, result.signal) == ("failed", "exit", 3, None)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert result.report["run_id"] == result.run_id
    assert result.report["state"] == "settled"
    assert result.report["output"]["complete"] is True
    assert result.facts[-1].kind == "end"


def test_check_passes_a_success_on_and_raises_the_rest() -> None:
    result = holdfast.run(["true"])
    assert result.check() is result
    failed = holdfast.run(["sh", "-c", "exit 3"], run_id="failing")
    with pytest.raises(holdfast.RunError, match=r"the run failed: .*3.* \(run failing\)") as caught:
        failed.check()
    assert caught.value.result is failed


def test_bytes_are_kept_as_they_are() -> None:
    data = bytes(range(256)) * 5000
    assert holdfast.run(["cat"], input=data).stdout == data


def test_merged_streams_stay_in_order() -> None:
    script = "for i in 1 2 3; do echo o$i; echo e$i >&2; done"
    assert holdfast.run(["sh", "-c", script], merge=True).stdout == b"o1\ne1\no2\ne2\no3\ne3\n"


def test_a_timeout_keeps_what_was_written_before_it(child: Children) -> None:
    result = holdfast.run(child("exits_on_term"), timeout=1)
    assert (result.status, result.cause, result.exit_code) == ("timed_out", "deadline", 0)
    assert is_ready(result.stdout)
    assert b"bye" not in result.stdout, "written after the verdict: recorded, not delivered"
    assert result.report["output"]["late_bytes"] == len("bye\n")


def test_a_command_that_does_not_exist() -> None:
    result = holdfast.run(["/nonexistent/command"])
    assert (result.status, result.cause, result.exit_code) == ("failed", "spawn", None)
    assert result.reason == "no such file or directory"


def test_bad_options_start_nothing() -> None:
    with pytest.raises(holdfast.SpecError):
        holdfast.run([])
    with pytest.raises(holdfast.SpecError, match="input and stdin"):
        holdfast.run(["cat"], input=b"x", stdin="null")


def test_a_command_that_never_reads_its_input(child: Children) -> None:
    result = holdfast.run(child("never_reads.sh"), input=bytes(1 << 20), timeout=60)
    assert (result.status, result.stdout) == ("succeeded", b"ready\n")


def test_a_command_that_keeps_its_input_open_and_unread(child: Children) -> None:
    watching = Watching(lambda _: None)
    result = holdfast.run(child("never_reads.sh", "stay"), input=bytes(1 << 20), timeout=0.5, on_output=watching)
    assert (result.status, result.cause) == ("timed_out", "deadline")


def test_stdin_from_a_file_and_inherited(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"from a file")
    assert holdfast.run(["cat"], stdin=tmp_path / "input").stdout == b"from a file"
    script = "import holdfast, sys; sys.stdout.buffer.write(holdfast.run(['cat'], stdin='inherit').stdout)"
    outer = holdfast.run([sys.executable, "-c", script], input=b"passed on")
    assert (outer.stderr, outer.stdout) == (b"", b"passed on")


def test_without_input_a_pipe_is_at_its_end() -> None:
    assert holdfast.run(["cat"], stdin="pipe", timeout=60).status == "succeeded"


def test_a_terminal_with_typed_input() -> None:
    result = holdfast.run(
        ["sh", "-c", "stty -echo; test -t 0 && test -t 2 && cat"], pty=True, input=b"line", timeout=60
    )
    assert result.status == "succeeded"
    assert result.stdout.replace(b"line", b"", 1) != result.stdout


def test_output_is_handed_over_and_not_kept(child: Children) -> None:
    size = 40 << 20
    got = {"stdout": 0, "stderr": 0}

    def count(chunk: Chunk) -> None:
        got[chunk.stream] += len(chunk.data)

    result = holdfast.run(child("writes_bytes", size), on_output=count)
    assert got == {"stdout": size, "stderr": len(f"wrote {size}\n")}
    assert (result.status, result.stdout, result.stderr) == ("succeeded", b"", b"")


def test_much_output_comes_whole(tmp_path: Path) -> None:
    script = 'head -c 60000000 /dev/urandom | tee "$0"; echo end >&2'
    result = holdfast.run(["sh", "-c", script, str(tmp_path / "copy")])
    assert result.stdout == (tmp_path / "copy").read_bytes()
    assert result.stderr == b"end\n"


def test_input_goes_on_while_output_never_pauses() -> None:
    script = "yes & cat >/dev/null; kill $!"
    result = holdfast.run(["sh", "-c", script], input=bytes(4 << 20), on_output=lambda _: None, timeout=60)
    assert result.status == "succeeded"


class StumbledError(Exception):
    pass


@pytest.mark.parametrize("error", [StumbledError, KeyboardInterrupt])
def test_an_exception_while_waiting_ends_the_run_first(child: Children, error: type[BaseException]) -> None:
    def stumble(_: object) -> None:
        raise error

    watching = Watching(stumble)
    with pytest.raises(error):
        holdfast.run(child("ignores_term"), on_output=watching, grace=0.2)
    assert is_gone(watching.names["pid"])


def test_ctrl_c_leaves_the_run_its_grace(child: Children, tmp_path: Path) -> None:
    """And a second one does not, because somebody asks again on purpose: see the next test."""
    mark = tmp_path / "saved"
    watching = Watching(lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        holdfast.run(child("exits_on_term", 0, mark, int(signal.SIGINT)), on_output=watching, grace=60)
    assert mark.exists()


def test_a_second_ctrl_c_kills() -> None:
    watching = Watching(lambda _: signal.raise_signal(signal.SIGINT))
    script = "trap 'kill -INT $0' INT; echo ready pid=$$; while :; do sleep 0.05; done"
    with pytest.raises(KeyboardInterrupt):
        holdfast.run(["sh", "-c", script, str(os.getpid())], on_output=watching, grace=600)
    assert is_gone(watching.names["pid"])


def test_ctrl_c_ends_the_run_first(child: Children) -> None:
    watching = Watching(lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        holdfast.run(child("ignores_term", int(signal.SIGINT)), on_output=watching, grace=0.2)
    assert is_gone(watching.names["pid"])


def test_ctrl_c_while_nothing_happens(child: Children) -> None:
    """The signal comes while the loop waits: the run itself sends it, so that it certainly runs."""
    argv = ["sh", "-c", f"kill -INT {os.getpid()}; exec {' '.join(child('ignores_term'))}"]
    with pytest.raises(KeyboardInterrupt):
        holdfast.run(argv, grace=0.2)


def test_ctrl_c_between_the_start_and_the_first_wait(child: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard lives and nobody has its handle yet: the run ends at once all the same, not after its grace."""

    def interrupted(_pid: int) -> int:
        raise KeyboardInterrupt

    before = own_children()
    monkeypatch.setattr(launch, "_pidfd", interrupted)
    with pytest.raises(KeyboardInterrupt):
        holdfast.run(child("ignores_term"), grace=600)
    assert not own_children() - before


def test_much_output_is_gathered_while_it_comes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Half of the output is taken, and its memory freed, before the command writes the rest; nothing is missing."""
    gate = Gate(tmp_path / "gate")
    released: list[int] = []
    really = live.LiveRun.release

    def release(run: live.LiveRun, consumed: int) -> None:
        really(run, consumed)
        if not released:
            gate.open()
        released.append(consumed)

    monkeypatch.setattr(live.LiveRun, "release", release)
    write = "import os\nfor i in range({}): os.write(1, b'%08d' % i * 1000); os.write(2, b'e%d\\n' % i)\n"
    script = f"{write.format('0, 500')}open({str(gate.path)!r}).read()\n{write.format('500, 1000')}"
    result = holdfast.run([sys.executable, "-S", "-c", script])
    assert result.stdout == b"".join(b"%08d" % i * 1000 for i in range(1000))
    assert result.stderr == b"".join(b"e%d\n" % i for i in range(1000))
    assert released == sorted(released)
    assert result.report["output"]["complete"] is True


def test_from_many_threads_at_once() -> None:
    results: list[holdfast.Result] = []

    def work(number: int) -> None:
        results.extend(holdfast.run(["sh", "-c", f"echo {number}; exit {number}"]) for _ in range(3))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 24
    assert all(result.stdout == f"{result.exit_code}\n".encode() for result in results)


def test_a_run_inside_a_run_knows_its_parent() -> None:
    script = "import holdfast; print(holdfast.run(['true']).report['parent'], end='')"
    outer = holdfast.run([sys.executable, "-c", script])
    assert (outer.stderr, outer.stdout) == (b"", outer.run_id.encode())


def test_a_heartbeat_counts_as_activity(child: Children) -> None:
    beating = holdfast.run(child("beats", 30, 100), idle_timeout=2, idle_counts="heartbeat")
    assert (beating.status, beating.stdout.splitlines()[-1]) == ("succeeded", b"done")
    silent = holdfast.run(["sleep", "110"], idle_timeout=0.4, idle_counts="heartbeat")
    assert (silent.status, silent.cause) == ("timed_out", "idle")


def kill_guard_of(names: dict[str, int]) -> None:
    leader = parent_of(names["pid"])
    os.kill(parent_of(leader), signal.SIGKILL)


def kill_both_of(names: dict[str, int]) -> None:
    guard = parent_of(parent_of(names["pid"]))
    kill_both(sentinel_of(guard), guard)


@pytest.mark.parametrize("kill", [kill_guard_of, kill_both_of], ids=["guard", "both"])
def test_a_killed_guard_leaves_a_lost_run_and_no_process(
    child: Children, contained: str, kill: Callable[[dict[str, int]], None]
) -> None:
    watching = Watching(kill)
    argv = child("starts_and_waits.sh", *child("ignores_term"))
    result = holdfast.run(argv, on_output=watching)
    assert (result.status, result.cause) == ("lost", "guard")
    assert result.report["containment"] == contained
    assert result.report["tree"] == ("unknown" if kill is kill_both_of else "gone")
    assert wait_exited(watching.names["pid"], 0), "the grandchild is dead by the time the call returns"


@pytest.mark.usefixtures("contained")
def test_without_cleaning_up_the_grandchild_would_survive(child: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    before = own_children()
    really = leftovers.clean_up
    monkeypatch.setattr(leftovers, "clean_up", lambda *_, **__: leftovers.TreeEnd("unknown"))
    watching = Watching(kill_both_of)
    result = holdfast.run(child("starts_and_waits.sh", *child("ignores_term")), on_output=watching)
    assert not wait_exited(watching.names["pid"], 0)
    started = next(fact for fact in result.facts if fact.kind == "started")
    really(result.run_id, started.detail["cgroup"], has_run=True)
    kill_children(before)


FAKE_GUARD = """#!{python}
import os
end = os.fstat(3).st_size
os.pwrite(3, {record!r}, end)
os.write(4, b"a packet of no known kind")
os.read(4, 4096)
"""


def fake_guard(path: Path, record: bytes) -> Path:
    """A guard that appends `record` to the journal and exits at the first request."""
    path.write_text(FAKE_GUARD.format(python=sys.executable, record=record))
    path.chmod(0o755)
    return path


def test_a_record_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(fake_guard(tmp_path / "guard", b"HLDF" + b"\xff" * 40)))
    with pytest.raises(holdfast.JournalDamagedError, match="another version") as caught:
        holdfast.run(["true"], run_id="unreadable")
    assert caught.value.run_id == "unreadable"


def test_a_torn_record_is_a_lost_guard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The control of the test above: half a frame is no damage; it is a guard that died while it wrote."""
    guard = fake_guard(tmp_path / "guard", b"HLDF\x03\x00")
    guard.write_text(guard.read_text().replace("os.read(4, 4096)", ""))
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard))
    assert holdfast.run(["true"]).status == "lost"


# Refusals, and their messages.


def test_input_is_bytes(tmp_path: Path) -> None:
    with pytest.raises(holdfast.SpecError, match="input is of type str"):
        holdfast.run(["touch", str(tmp_path / "ran")], input="text")  # type: ignore[call-overload]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("lifetime", ["detached", "session"])
def test_a_call_that_waits_starts_nothing_that_outlives_it(lifetime: str, tmp_path: Path) -> None:
    with pytest.raises(holdfast.SpecError, match="cannot end with the call") as refused:
        holdfast.run(["touch", str(tmp_path / "ran")], lifetime=lifetime, session="s")
    assert (refused.value.field, refused.value.run_id is not None) == ("lifetime", True)
    assert not (tmp_path / "ran").exists()


UNKEPT = """
import resource, sys
import holdfast

resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
result = holdfast.run(["head", "-c", "100000", "/dev/zero"])
print(result.status, result.report["output"]["complete"])
try:
    result.check()
except holdfast.RunError as error:
    print(error)
"""


def test_success_without_its_output_does_not_pass_the_check() -> None:
    done = subprocess.run([sys.executable, "-c", UNKEPT], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "succeeded False"
    assert "its output could not be kept: File too large" in second
    holdfast.run(["head", "-c", "100000", "/dev/zero"]).check()  # and only then
