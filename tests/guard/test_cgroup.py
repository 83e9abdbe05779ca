"""A cgroup that cannot be used is not reported, and a used one is removed."""

from __future__ import annotations

import os
import signal
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.guard import containment
from tests.support.cgroups import use_containment
from tests.support.driven import Driven
from tests.support.evidence import assert_all_gone, one, outcome_of
from tests.support.processes import children_that_stay, is_gone, kill_children, own_children
from tests.support.shimmed import guard_that_reads_lists_in_small_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.children import Children

pytestmark = [pytest.mark.guard, pytest.mark.root]


@pytest.fixture
def base() -> str:
    """The cgroup that runs are put below."""
    found = containment.probe()
    if found.cgroup_base is None:
        pytest.skip(f"needs a writable cgroup v2: {found.why_not}")
    return found.cgroup_base


@pytest.fixture
def threaded(base: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A base in which a leaf can be made, but no process can enter it."""
    group = Path(base, f"threaded-{os.getpid()}")
    group.mkdir()
    try:
        (group / "cgroup.type").write_text("threaded")
        use_containment(monkeypatch, containment.Containment(str(group), None, None, None))
        yield group
    finally:
        group.rmdir()  # fails when a leaf is left in it


def test_a_leaf_that_cannot_be_entered_is_not_claimed(threaded: Path) -> None:
    result = holdfast.run(["sh", "-c", "cat /proc/self/cgroup"], timeout=60)
    assert outcome_of(result) == ("succeeded", "exit")
    assert f"0::/{threaded.name}".encode() not in result.stdout
    assert result.report["containment"] == "subreaper"
    assert not one(result.facts, "started").detail["cgroup"]
    assert_all_gone(result.report)


@pytest.mark.usefixtures("threaded")
def test_without_the_leaf_the_tree_is_ended_and_budgets_are_sampled(child: Children) -> None:
    result = holdfast.run(child("daemonises", "stay"), timeout=1, grace=0.2)
    assert outcome_of(result) == ("timed_out", "deadline")
    assert_all_gone(result.report)
    result = holdfast.run(child("uses_memory", "now", 256 << 20), memory="32M", timeout=60, grace=1)
    assert outcome_of(result) == ("failed", "limit")
    assert_all_gone(result.report)


def test_control_a_leaf_that_can_be_entered_is(base: str) -> None:
    result = holdfast.run(["cat", "/proc/self/cgroup"], timeout=60)
    assert result.report["containment"] == "cgroup"
    assert one(result.facts, "started").detail["cgroup"].startswith(f"{base}/holdfast-")
    assert b"/holdfast-" in result.stdout


@pytest.mark.usefixtures("base")
def test_those_who_are_left_alone_keep_no_leaf(child: Children, tmp_path: Path) -> None:
    """The stragglers fork every millisecond while they are moved out."""
    for number in range(10):
        shared = tmp_path / str(number)
        shared.write_bytes(bytes(16))
        known = own_children()
        try:
            result = holdfast.run(child("reforks", shared, "exit"), stragglers="leave", drain=0.1, timeout=60)
            leaf = one(result.facts, "started").detail["cgroup"]
            left = os.path.exists(leaf)
            assert struct.unpack("=Q", shared.read_bytes()[:8])[0] >= 5
        finally:
            with shared.open("r+b") as file:
                file.seek(8)
                file.write(b"\1")  # its own word to end
            assert not children_that_stay(known, 10)
        if left:
            os.rmdir(leaf)
        assert not left, f"after {number} runs"
        assert outcome_of(result) == ("succeeded", "exit")


@pytest.mark.alone
@pytest.mark.usefixtures("base")
@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_thousand_who_are_left_alone_keep_no_leaf(
    child: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_pieces: bool
) -> None:
    """Their PIDs take more than one read: a PID that is cut in two would be that of a stranger."""
    if in_pieces:
        monkeypatch.setenv("HOLDFAST_GUARD", str(guard_that_reads_lists_in_small_pieces(tmp_path)))
    known = own_children()
    try:
        result = holdfast.run(child("crowds", "left", 1000), stragglers="leave", drain=0.1, timeout=60)
        left = own_children() - known
        groups = {Path(f"/proc/{pid}/cgroup").read_text() for pid in left}
    finally:
        kill_children(known)
    assert len(left) == 1000
    assert len(groups) == 1
    assert "holdfast-" not in groups.pop().split("pytest-holdfast-")[-1]
    assert not os.path.exists(one(result.facts, "started").detail["cgroup"])


# --- processes that leave the cgroup of their run ---


@pytest.fixture
def elsewhere(base: str) -> Iterator[Path]:
    """Another cgroup, as a login session or `systemd-run --scope` has."""
    group = Path(base, f"elsewhere-{os.getpid()}")
    group.mkdir()
    known = own_children()
    yield group
    kill_children(known)
    group.rmdir()


@pytest.mark.parametrize("kills_guard", [False, True])
def test_a_process_that_left_the_cgroup_and_its_environment_ends_too(elsewhere: Path, kills_guard: bool) -> None:
    stays = "trap '' TERM; echo ready pid=$$; while :; do sleep 60; done"
    leaves = f'echo $$ >{elsewhere}/cgroup.procs; exec env -i sh -c "$0"'
    argv = ["sh", "-c", 'setsid sh -c "$1" "$0" & wait', stays, leaves]
    with Driven(argv, timeout=60, grace=0.2) as run:
        moved = run.until_ready()["pid"]
        assert str(moved) in (elsewhere / "cgroup.procs").read_text().split(), "it has left"
        if kills_guard:
            os.kill(one(run.facts, "started").detail["guard_pid"], signal.SIGKILL)
        else:
            run.live.ask_stop()
        result = run.settle()
    assert outcome_of(result) == (("lost", "guard") if kills_guard else ("cancelled", "user"))
    assert result.report["tree"] == "gone"
    assert is_gone(moved), "the report said so"
