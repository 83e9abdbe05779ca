"""A host that lacks what a guard needs: the error names the missing thing, and what to do about it."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.guard.requirements import find_missing

if TYPE_CHECKING:
    from tests.support.children import Children

pytestmark = pytest.mark.guard

_RUNS = "import holdfast; print(holdfast.run(['echo', 'hi'], timeout=20).stdout)"
_LOOKS = "from holdfast.doctor.host_health import examine; print(*examine(), sep='\\n')"
_PIDFD_OPEN = 434  # the same on every architecture
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}.get(platform.machine(), 319)
# A /dev of its own, without the null device, or with a file in its place.
_OTHER_DEV = 'mount -t tmpfs none /dev && mknod /dev/urandom c 1 9 && {} exec "$@"'


def ask(prefix: list[str], program: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program through another command."""
    return subprocess.run([*prefix, sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("number", "name"), [(_PIDFD_OPEN, "pidfd_open"), (_MEMFD_CREATE, "memfd_create")])
def test_a_missing_system_call_is_named(child: Children, number: int, name: str) -> None:
    without = child("without_calls", number)
    error = ask(without, _RUNS).stderr
    assert f"the guard cannot be started: the system call {name} is missing" in error
    assert f"allow {name} in the sandbox" in error
    assert "reinstall" not in error
    found = ask(without, _LOOKS).stdout
    assert f"the system call {name} is missing" in found
    assert "lacks" in found
    assert "open-file locks" not in found.partition("remedy")[0], "they are there"


def test_control_other_calls_may_be_missing(child: Children) -> None:
    done = ask(child("without_calls", "435,436"), _RUNS)  # clone3, close_range
    assert (done.returncode, done.stdout) == (0, "b'hi\\n'\n"), done.stderr


@pytest.mark.root
@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("", "/dev/null is missing"),
        ("mkdir /dev/null &&", "/dev/null cannot be opened: Is a directory"),
    ],
)
def test_a_missing_null_device_is_named(made: str, what: str) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("allowed: no mount namespace can be made here")
    without = ["unshare", "-m", "sh", "-c", _OTHER_DEV.format(made), "sh"]
    error = ask(without, _RUNS).stderr
    assert f"the guard cannot be started: {what}" in error
    assert "mknod -m 666 /dev/null c 1 3" in error
    assert what in ask(without, _LOOKS).stdout


@pytest.mark.root
def test_a_null_device_that_is_a_file_is_found_by_the_doctor() -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("allowed: no mount namespace can be made here")
    found = ask(["unshare", "-m", "sh", "-c", _OTHER_DEV.format("echo surprise >/dev/null &&"), "sh"], _LOOKS).stdout
    assert "/dev/null is not the null device" in found


def test_nothing_is_missing_here() -> None:
    assert find_missing() is None
