"""Fixtures of every test: real children, both event loops, and nothing left behind after each test."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import containment

from .support.cgroups import OWN_GROUPS
from .support.children import Children
from .support.leftovers import find_leftovers, take_stock
from .support.processes import become_subreaper
from .support.strict import fail_if_skipped
from .support.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

TOKEN = "HOLDFAST_TEST_TOKEN"
FAILED = pytest.StashKey[bool]()
TURNS = pytest.StashKey[Turns]()


def pytest_sessionstart(session: pytest.Session) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a signal that stops the suite still cleans up
    _be_interruptible()
    become_subreaper()
    OWN_GROUPS.enter()
    session.config.stash[TURNS] = Turns(Path(__file__).with_name("__init__.py"), Path(__file__))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that run alone last, so that nobody waits for a long test and for them in the middle of all."""
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to run if pytest-xdist has lost its groups: tests of one group disturb each other side by side."""
    grouped = (item for item in session.items if item.get_closest_marker("xdist_group"))
    if session.config.getoption("loadgroup", default=False) and any("@" not in item.nodeid for item in grouped):
        raise pytest.UsageError("pytest-xdist does not group tests with this version of pytest")


def _be_interruptible() -> None:
    """Reset ignored signals: a shell's background job ignores some, and all children of tests would, too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # so the time limit of a test does not count what it waits for its turn
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with item.config.stash[TURNS].taken(alone=item.get_closest_marker("alone") is not None):
        return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[TURNS].close()
    try:
        OWN_GROUPS.leave()
    except OSError as error:  # raised from here it would hide the report of the test that left something behind
        sys.stderr.write(f"\nsomething was left in the tests' own cgroup: {error}\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_skipped(report)
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_if_skipped(report)
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "contained" in metafunc.fixturenames:
        # An ordinary user without a delegated cgroup has one containment; root has both or says why not.
        has_cgroup = containment.probe().cgroup_base is not None or os.geteuid() == 0
        metafunc.parametrize("contained", ["cgroup", "subreaper"] if has_cgroup else ["subreaper"], indirect=True)


@pytest.fixture(scope="session")
def states_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default state directories of the user; no test may make one."""
    return tmp_path_factory.mktemp("user") / "state"


@pytest.fixture(autouse=True)
def nothing_left_behind(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, states_of_the_user: Path
) -> Iterator[None]:
    """After each test there is no new process, descriptor or cgroup, and no run in the user's own directories."""
    monkeypatch.setenv(TOKEN, request.node.name.encode("ascii", "replace").decode()[:200])
    before = take_stock()
    with pytest.MonkeyPatch.context() as environment:  # not the test's own fixture, which the test may undo
        environment.delenv("HOLDFAST_STATE_DIR", raising=False)
        environment.setenv("XDG_STATE_HOME", str(states_of_the_user))
        yield
    # The traceback of a failed test keeps its frames, and their open files: that would be noise.
    leftovers = find_leftovers(before, descriptors=FAILED not in request.node.stash)
    if states_of_the_user.exists():
        leftovers.append("runs in the user's own state directory")
        shutil.rmtree(states_of_the_user)
    if leftovers:
        pytest.fail("left behind:\n  " + "\n  ".join(leftovers), pytrace=False)


@pytest.fixture
def contained(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once for each containment of this host; the value is what the report must say."""
    kind: str = request.param
    if kind == "cgroup":
        if (why_not := containment.probe().why_not) is not None:
            pytest.skip(f"needs a writable cgroup v2: {why_not}")
        yield kind
        return
    with pytest.MonkeyPatch.context() as forced:
        forced.setenv(containment.FORCE_VARIABLE, "subreaper")
        containment.forget()
        yield kind
    containment.forget()  # after the variable is gone: the next probe must find the truth


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Async tests run on both event loops."""
    backend: str = request.param
    return backend


@pytest.fixture(scope="session")
def shared_directory() -> Iterator[Path]:
    """A directory that every user may read; pytest's own directories are for its user only."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-tests-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def child(shared_directory: Path) -> Children:
    """The argv of a program of tests/children: `child("exits_on_term", 1)`."""
    return Children(shared_directory)
