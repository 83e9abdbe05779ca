"""Containment: found by a look at every layout, never guessed, and a missing cgroup says why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.guard import containment
from holdfast.guard.containment import Mount, parse_mounts, parse_own_groups, visible_path

UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate"
HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"""


@pytest.fixture(autouse=True)
def probed_anew() -> Iterator[None]:
    containment.forget()
    yield
    containment.forget()


def test_mounts_with_and_without_optional_fields() -> None:
    assert parse_mounts(UNIFIED) == [Mount("/", "/sys/fs/cgroup", "cgroup2", frozenset({"rw", "nsdelegate"}))]
    assert [(mount.kind, mount.point) for mount in parse_mounts(HYBRID)] == [
        ("cgroup", "/sys/fs/cgroup/memory"),
        ("cgroup", "/sys/fs/cgroup/cpu,cpuacct"),
        ("cgroup2", "/sys/fs/cgroup/unified"),
    ]


def test_mount_points_are_unescaped() -> None:
    line = r"1 2 0:3 /a\040b /mnt/x\134y rw - cgroup2 cgroup2 rw"
    assert parse_mounts(line) == [Mount("/a b", r"/mnt/x\y", "cgroup2", frozenset({"rw"}))]


@pytest.mark.parametrize(
    "line", ["", "nonsense", "1 2 - cgroup2", " - cgroup2 cgroup2 rw", "1 2 3 4 5 cgroup2 - x y z"]
)
def test_lines_that_are_no_mounts_are_passed_over(line: str) -> None:
    assert parse_mounts(line) == []


def test_own_groups() -> None:
    text = "9:name=systemd:/user\n4:memory:/deep/er\n2:cpu,cpuacct:/\n0::/user.slice/a:b\nnonsense\n"
    assert parse_own_groups(text) == {
        "name=systemd": "/user",
        "memory": "/deep/er",
        "cpu": "/",
        "cpuacct": "/",
        "": "/user.slice/a:b",
    }


@pytest.mark.parametrize(
    ("root", "point", "own", "path"),
    [
        ("/", "/sys/fs/cgroup", "/", "/sys/fs/cgroup"),
        ("/", "/sys/fs/cgroup", "/user.slice/me", "/sys/fs/cgroup/user.slice/me"),
        ("/docker/x", "/sys/fs/cgroup", "/docker/x", "/sys/fs/cgroup"),  # a bind mount shows its part as the root
        ("/docker/x", "/sys/fs/cgroup", "/docker/x/sub", "/sys/fs/cgroup/sub"),
        ("/docker/x", "/sys/fs/cgroup", "/docker/xy", None),
        ("/docker/x", "/sys/fs/cgroup", "/", None),
        ("/", "/sys/fs/cgroup", "/../other", None),  # outside of our cgroup namespace
    ],
)
def test_where_a_mount_shows_our_own_cgroup(root: str, point: str, own: str, path: str | None) -> None:
    assert visible_path(Mount(root, point, "cgroup2", frozenset()), own) == path


def pretend(monkeypatch: pytest.MonkeyPatch, mountinfo: str, own: str) -> containment.Containment:
    real = containment._read  # noqa: SLF001 - what the kernel says is the only thing a test can replace
    said = {"/proc/self/mountinfo": mountinfo, "/proc/self/cgroup": own}
    monkeypatch.setattr(containment, "_read", lambda path: said[path] if path in said else real(path))
    monkeypatch.delenv(containment.FORCE_VARIABLE, raising=False)
    return containment.probe()


def test_no_version_2_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pretend(monkeypatch, "", "4:memory:/\n")
    assert found == (None, None, None, "this kernel offers no cgroup v2", False)


def test_version_2_that_is_not_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pretend(monkeypatch, "", "0::/\n").why_not == "no cgroup v2 is mounted here"


def test_a_mount_that_does_not_show_us(monkeypatch: pytest.MonkeyPatch) -> None:
    mount = "1 2 0:3 /other /nowhere rw - cgroup2 cgroup2 rw"
    assert pretend(monkeypatch, mount, "0::/mine\n").why_not == "/nowhere does not show our own cgroup /mine"


def test_a_directory_that_only_looks_like_a_cgroup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    found = pretend(monkeypatch, f"1 2 0:3 / {tmp_path} rw - cgroup2 cgroup2 rw", "0::/\n")
    assert found.cgroup_base is None
    assert found.why_not is not None
    assert "cannot be read" in found.why_not
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cgroup.procs"], "the probe leaves nothing"


def test_budgets_from_version_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    mounts = f"1 2 0:3 / {tmp_path} rw - cgroup cgroup rw,memory"
    found = pretend(monkeypatch, mounts, "4:memory:/mine\n3:pids:/\n")
    assert (found.memory_base, found.pids_base, found.controls) == (f"{tmp_path}/mine", None, False)


def test_force_subreaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(containment.FORCE_VARIABLE, "subreaper")
    assert containment.probe() == (None, None, None, "HOLDFAST_CONTAINMENT=subreaper is set", False)


@pytest.mark.root
def test_here_a_leaf_can_be_made_and_the_probe_left_none() -> None:
    found = containment.probe()
    if found.cgroup_base is None:
        pytest.skip(f"needs a writable cgroup v2: {found.why_not}")
    assert [name for name in os.listdir(found.cgroup_base) if name.startswith("holdfast-probe")] == []
    leaf = Path(found.cgroup_base, f"holdfast-test-{os.getpid()}")
    leaf.mkdir()
    assert (leaf / "cgroup.kill").exists()
    leaf.rmdir()


def test_the_answer_is_kept() -> None:
    assert containment.probe() is containment.probe()
