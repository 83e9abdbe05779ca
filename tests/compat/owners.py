"""The owners' own test suites, run against our drop-ins: `python -m tests.compat.owners SUITE [TEST...]`.

Each suite runs in a process of its own, which prints one line of JSON: what became of every test. The interpreter is
the one below the virtual environment, because some of CPython's tests do not run in one.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rigs.sdists import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

ROOT = Path(__file__).parents[2]
WITHIN_S = 600


class Seen(NamedTuple):
    """What became of the tests of a suite, by their names. A skipped test has the reason of its owners."""

    passed: list[str]
    failed: dict[str, str]
    skipped: dict[str, str]


class _Result(unittest.TestResult):
    """Takes down what became of every test; a test with a failed part has failed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Seen([], {}, {})

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.seen.passed.append(_name(test))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self.seen.skipped[_name(test)] = reason

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self.seen.failed[_name(test)] = self.failures[-1][1]

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self.seen.failed[_name(test)] = self.errors[-1][1]

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802, ARG002
        if err is not None:
            self.seen.failed[_name(test)] = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]


def _name(test: unittest.TestCase) -> str:
    return ".".join(test.id().split(".")[-2:])


def _cpython_subprocess() -> ModuleType:
    from holdfast.compat import subprocess as ours

    suite = importlib.import_module("test.test_subprocess")
    suite.subprocess = ours  # type: ignore[attr-defined]
    return suite


def _cpython_asyncio() -> ModuleType:
    import asyncio
    from asyncio import unix_events

    from holdfast.compat import asyncio_subprocess as ours

    # Some tests call the methods of the event loop, which all end in this one.
    vars(unix_events)["_UnixSelectorEventLoop"]._make_subprocess_transport = ours.make_transport  # noqa: SLF001
    for name in ("create_subprocess_exec", "create_subprocess_shell"):
        setattr(asyncio, name, getattr(ours, name))
        setattr(asyncio.subprocess, name, getattr(ours, name))
    return importlib.import_module("test.test_asyncio.test_subprocess")


# CPython's tests, and those of packages: where the test file is, below the source distribution.
_CPYTHON = {"cpython_subprocess": _cpython_subprocess, "cpython_asyncio": _cpython_asyncio}
_PACKAGES = {"anyio": "tests/test_subprocesses.py", "trio": "src/trio/_tests/test_subprocess.py"}
SUITES = (*_CPYTHON, *_PACKAGES)


def run_suite(name: str, tests: Iterable[str], directory: Path) -> Seen:
    """Run a suite, or some tests of it, in a process of its own that works in this directory."""
    return _run_cpython(name, tests, directory) if name in _CPYTHON else _run_package(name, tests, directory)


def _run_package(name: str, tests: Iterable[str], directory: Path) -> Seen:
    """Run the tests of a package's source distribution. Those of trio import trio by their place in it."""
    told = directory / "told.json"
    source = unpacked(name)
    path = source / _PACKAGES[name]
    options = ["-p", "owners_plugin", "-p", "no:cacheprovider", "-p", "no:randomly", "--timeout=60"]
    if name == "trio":
        options += ["-p", "trio._tests.pytest_plugin", "--run-slow"]
    # The source comes first: the tests of trio are modules of trio, and import it by their place. The packages have a
    # package `tests` of their own.
    places = [source / "src", ROOT / "src", Path(__file__).parent]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, *([f"{path}::{test}" for test in tests] or [str(path)])],
        cwd=source,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "TMPDIR": str(directory),
            "HOLDFAST_OWNERS": name,
            "HOLDFAST_OWNERS_TOLD": str(told),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=WITHIN_S,
        check=False,  # a failed test is no failure of the run: `told` says what became of each
    )
    return Seen(**json.loads(told.read_text()))


def _run_cpython(name: str, tests: Iterable[str], directory: Path) -> Seen:
    interpreter = getattr(sys, "_base_executable", sys.executable)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [interpreter, "-m", "tests.compat.owners", name, *tests],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=WITHIN_S,
        check=True,
    )
    return Seen(**json.loads(done.stdout.splitlines()[-1]))


def main(name: str, tests: list[str]) -> None:
    """Run the tests here, and print what became of them."""
    told = os.fdopen(os.dup(1), "w")  # some tests close descriptor 1 for a moment
    os.dup2(2, 1)
    suite = _CPYTHON[name]()
    loader = unittest.TestLoader()
    chosen = loader.loadTestsFromNames(tests, suite) if tests else loader.loadTestsFromModule(suite)
    result = _Result()
    chosen.run(result)
    told.write(json.dumps(result.seen._asdict()) + "\n")
    told.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
