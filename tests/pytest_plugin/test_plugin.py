"""The plugin in a pytest of its own, alone and with pytest-xdist: leaky suites, and suites that only look leaky."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.processes import is_gone, wait_exited

if TYPE_CHECKING:
    from ..support.children import Children

BEGIN = """
import os, subprocess, sys
from pathlib import Path
import pytest

DAEMON = os.environ["DAEMON"]

def start():
    child = subprocess.Popen([DAEMON, "exit"], stdout=subprocess.PIPE, text=True)
    with child:
        word = child.stdout.readline()
    Path("left").write_text(word.split("=")[1])
"""
LEAKS = "def test_leaks():\n    start()\n\ndef test_clean():\n    subprocess.run(['true'], check=True)\n"
FIXTURE = "@pytest.fixture(scope='module')\ndef server():\n    start()\n    yield\n    {end}\n\n"
USES = "def test_first(server): pass\ndef test_second(server): pass\n"
KILL = "os.kill(int(Path('left').read_text()), 9)"


@pytest.fixture
def suite(tmp_path: Path, child: Children) -> Suite:
    return Suite(tmp_path, child("daemonises")[0], [])


@pytest.fixture(params=["alone", "xdist"])
def either(request: pytest.FixtureRequest, suite: Suite) -> Suite:
    suite.options = ["-n", "1"] if request.param == "xdist" else []
    return suite


class Suite:
    """A suite in a directory, and the numbers of what it left."""

    def __init__(self, path: Path, daemon: str, options: list[str]) -> None:
        self.path = path
        self.daemon = daemon
        self.options = options

    def run(self, source: str, *options: str) -> tuple[int, str]:
        """The exit code and the output of pytest for these tests."""
        (self.path / "test_it.py").write_text(BEGIN + source)
        (self.path / "pytest.ini").write_text("[pytest]\n")
        environment = {**os.environ, "DAEMON": self.daemon}
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *self.options, *options]
        done = subprocess.run(
            argv, cwd=self.path, env=environment, capture_output=True, text=True, check=False, timeout=100
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def left(self) -> int:
        return int((self.path / "left").read_text())

    def end(self) -> bool:
        """Kill what is left; False when it was gone already."""
        if is_gone(self.left):
            return False
        os.kill(self.left, 9)
        return wait_exited(self.left)


def test_nothing_happens_unless_asked(suite: Suite) -> None:
    code, output = suite.run(LEAKS)
    assert code == 0, output
    assert "2 passed" in output
    assert suite.end()


def test_a_test_that_leaves_a_process_fails_with_its_name(suite: Suite) -> None:
    code, output = suite.run(LEAKS, "--holdfast")
    assert suite.end()
    assert code == 1, output
    assert "test_it.py::test_leaks left 1 process behind" in output
    assert f"process {suite.left}: daemonises as-daemon" in output
    assert "2 passed, 1 error" in output  # the test after it does not answer for it


def test_reap_ends_what_is_left(either: Suite) -> None:
    code, output = either.run(LEAKS, "--holdfast-reap")
    assert code == 1, output
    assert is_gone(either.left)


def test_a_process_tells_who_started_it(suite: Suite) -> None:
    source = "def test_leaks():\n    Path('left').write_text(str(subprocess.Popen(['sleep', '600']).pid))\n"
    _, output = suite.run(source, "--holdfast-reap")
    assert f"process {suite.left}: sleep 600, started by test_it.py::test_leaks (call)" in output
    assert is_gone(suite.left)


def test_the_process_of_a_wider_fixture_may_stay_as_long_as_it(suite: Suite) -> None:
    code, output = suite.run(FIXTURE.format(end=KILL) + USES, "--holdfast")
    assert code == 0, output
    assert "2 passed" in output


def test_a_fixture_that_leaves_its_process_fails_the_last_test(either: Suite) -> None:
    code, output = either.run(FIXTURE.format(end="pass") + USES, "--holdfast-reap")
    assert code == 1, output
    assert "test_it.py::test_second left 1 process behind" in output
    assert is_gone(either.left)


def test_a_process_of_an_import_fails_the_session(either: Suite) -> None:
    code, output = either.run("if not Path('left').exists():\n    start()\n\ndef test_it(): pass\n", "--holdfast-reap")
    assert code == 1, output
    assert "1 passed" in output
    assert "the session left 1 process behind" in output
    assert is_gone(either.left)


def test_an_allowed_process_may_stay(suite: Suite) -> None:
    code, output = suite.run(LEAKS, "--holdfast", "-o", "holdfast_allow=as-daemon")
    assert suite.end()
    assert code == 0, output


def test_supervised_processes_end_with_the_test(suite: Suite) -> None:
    source = (
        "def test_it(supervised):\n"
        "    process = supervised([DAEMON, 'stay'], stdout=subprocess.PIPE, text=True, grace=0.2)\n"
        "    Path('left').write_text(process.stdout.readline().split('=')[1])\n"
        "    assert process.poll() is None\n"
    )
    code, output = suite.run(source, "--holdfast")
    assert code == 0, output
    assert is_gone(suite.left)
