"""Guards, cgroups and directories that are not what they were: the next run of a supervisor does not notice."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast import Supervisor

from .test_reuse import SHOW_CGROUP, guard_of, needs_cgroup

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.guard, pytest.mark.anyio]


def seen_from(directory: str, *, hide: str) -> tuple[list[str], str]:
    """What two runs of one supervisor see of their working directory, and what a child of `subprocess` sees.

    The supervisor is in a process of its own, which goes to the directory and then makes it unreachable with `hide`.
    """
    program = (
        "import anyio, os, subprocess, sys, holdfast\n"
        "async def main():\n"
        "    async with holdfast.Supervisor() as supervisor:\n"
        "        await (await supervisor.start(['true'])).settled()\n"
        "        os.chdir(sys.argv[1])\n"
        "        exec(sys.argv[2])\n"
        "        for _ in range(2):\n"
        "            run = await supervisor.start(SHOW)\n"
        "            sys.stdout.buffer.write((await run.result()).stdout)\n"
        "    sys.stdout.buffer.write(subprocess.run(SHOW, stdout=-1).stdout)\n"
        "SHOW = ['stat', '-c', '%i %d', '.']\n"
        "anyio.run(main)\n"
    )
    # Root's mounts are its own, and no directory is closed to it unless it gives these capabilities up.
    alone = ["unshare", "--mount", "setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"]
    argv = [*(alone if os.geteuid() == 0 else []), sys.executable, "-c", program, directory, hide]
    told = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stderr
    *runs, expected = told.stdout.splitlines()
    return runs, expected


UNREACHABLE = {
    "deleted": "os.rmdir(sys.argv[1])",
    "behind a closed directory": "os.chmod(os.path.dirname(sys.argv[1]), 0)",
    "behind a mount": (
        "import ctypes\n"
        "outer = os.path.dirname(sys.argv[1])\n"
        "assert ctypes.CDLL(None).mount(b'none', outer.encode(), b'tmpfs', 0, None) == 0\n"
        "os.mkdir(sys.argv[1])"
    ),
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.root] * ("mount" in way)) for way in UNREACHABLE])
def test_a_directory_that_no_path_leads_to_is_the_commands_too(way: str, tmp_path: Path) -> None:
    here = tmp_path / "outer" / "here"
    here.mkdir(parents=True)
    try:
        runs, expected = seen_from(str(here), hide=UNREACHABLE[way])
    finally:
        here.parent.chmod(0o700)
    assert expected
    assert runs == [expected] * 2


# The command leaves its cgroup first: to freeze it from inside would stop the command itself.
OWN_LEAF = "leaf=/sys/fs/cgroup/unified$(sed -n 's,^0::,,p' /proc/self/cgroup); echo $$ >$leaf/../cgroup.procs; "
LEAF_CHANGES = {
    "frozen": "echo 1 >$leaf/cgroup.freeze",
    "threaded": "echo threaded >$leaf/cgroup.type",
    "limited": "echo 5 >$leaf/cgroup.max.descendants",
    "given away": "chown 4242 $leaf",
    "closed": "chmod 0700 $leaf",
    "nothing": "true",
}


@pytest.mark.root
@pytest.mark.parametrize("change", LEAF_CHANGES)
async def test_a_cgroup_that_a_run_has_changed_is_not_used_again(change: str) -> None:
    """The command of the next run would be frozen, or could not enter it. Control: an unchanged one is used again."""
    needs_cgroup()
    async with Supervisor() as supervisor:
        _, first = await guard_of(supervisor, *SHOW_CGROUP)
        _, changed = await guard_of(supervisor, "sh", "-ec", OWN_LEAF + LEAF_CHANGES[change])
        assert changed.exit_code == 0, changed.stderr
        _, after = await guard_of(supervisor, *SHOW_CGROUP, timeout=10, ladder="KILL")
        assert after.status == "succeeded"
        assert after.report["containment"] == "cgroup"
        assert (after.stdout == first.stdout) is (change == "nothing")


GUARD_CHANGES = {
    "resource limits": ("resource.prlimit(guard, resource.RLIMIT_NOFILE, (55, 55))", "resource.getrlimit(7)"),
    "priority": ("os.setpriority(0, guard, 7)", "os.getpriority(0, 0)"),
    "scheduling policy": ("os.sched_setscheduler(guard, 3, os.sched_param(0))", "os.sched_getscheduler(0)"),
    "CPU affinity": ("os.sched_setaffinity(guard, {0})", "os.sched_getaffinity(0)"),
    "out-of-memory score": (
        "open(f'/proc/{guard}/oom_score_adj', 'w').write('77')",
        "open('/proc/self/oom_score_adj').read()",
    ),
    "core dump filter": (
        "open(f'/proc/{guard}/coredump_filter', 'w').write('1')",
        "open('/proc/self/coredump_filter').read()",
    ),
    "session keyring": (
        "import ctypes; call = ctypes.CDLL(None).syscall; call(KEYCTL, 1, None); assert call(KEYCTL, 18) == 0",
        "__import__('ctypes').CDLL(None).syscall(KEYCTL, 0, -3, 0)",
    ),
    "nothing": ("pass", "0"),
}
KEYCTL = "219" if os.uname().machine == "aarch64" else "250"


@pytest.mark.parametrize("change", GUARD_CHANGES)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
async def test_a_guard_that_its_command_has_changed_is_not_used_again(change: str) -> None:
    """The next command would inherit the change. Control: an unchanged guard is used again."""
    alter, show = [code.replace("KEYCTL", KEYCTL) for code in GUARD_CHANGES[change]]
    look = [sys.executable, "-S", "-c", f"import os, resource; print({show})"]
    async with Supervisor() as supervisor:
        first, before = await guard_of(supervisor, *look)
        prepare = "import os, resource; guard = os.getppid()"
        second, changed = await guard_of(supervisor, sys.executable, "-S", "-c", f"{prepare}; {alter}")
        third, after = await guard_of(supervisor, *look)
        assert (changed.exit_code, changed.stderr, after.stdout) == (0, b"", before.stdout)
        assert first == second
        assert (third == first) is (change == "nothing")
