"""The check: after each test, and at the end of the session, no process may be there that was not there before.

A process that a fixture of a wider scope starts may live as long as that fixture. When the fixture is torn down, the
test that is torn down with it answers for it. A process from before the first test answers at the end of the session.
With pytest-xdist each worker checks its own tests, and tells the controller what its session left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .left_process import become_subreaper, children, end_all, live_children

if TYPE_CHECKING:
    from collections.abc import Generator

_WAIT_S = 1.0  # for processes that are about to exit
_OUTPUT = "holdfast_left"


class LeftoverCheck:
    """The hooks of one pytest process."""

    def __init__(self, config: pytest.Config, *, reaps: bool) -> None:
        self._config = config
        self._reaps = reaps
        self._allowed = tuple(config.getini("holdfast_allow"))
        self._known = children()  # processes that nobody has to answer for: they were there, or were reported
        self._fixtures: dict[str, set[int]] = {}  # by the scope and name of the fixture that started them
        self._before: set[int] = set()  # started before the first test, by imports and by hooks
        self._left: list[str] = []
        # The controller of pytest-xdist runs no tests: its children are its workers.
        self._runs_tests = hasattr(config, "workerinput") or config.getoption("dist", default="no") == "no"

    def pytest_sessionstart(self) -> None:
        become_subreaper()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self._before = children() - self._known

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = children()
        try:
            return (yield)
        finally:
            self._fixtures.setdefault(_name(fixturedef), set()).update(children() - before)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        self._fixtures.pop(_name(fixturedef), None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        finally:
            found = self._find(self._before.union(*self._fixtures.values()))
        if found:
            pytest.fail(_sentence(f"{item.nodeid} left", found), pytrace=False)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._runs_tests:
            self._left += self._find(set())
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_OUTPUT] = self._left
        elif self._left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._left += getattr(node, "workeroutput", {}).get(_OUTPUT, [])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left:
            terminalreporter.section("processes left behind", red=True, bold=True)
            terminalreporter.line(_sentence("the session left", self._left))

    def _find(self, owned: set[int]) -> list[str]:
        """The processes that are left and not owned, each as a line; from now on they are known, or gone."""
        found = live_children(self._known | owned, self._allowed, _WAIT_S)
        if found and self._reaps:
            end_all(found)
        self._known.update(process.pid for process in found)
        return [str(process) for process in found]


def _name(fixturedef: pytest.FixtureDef[Any]) -> str:
    return f"{fixturedef.scope} {fixturedef.baseid} {fixturedef.argname}"


def _sentence(begin: str, lines: list[str]) -> str:
    return f"{begin} {len(lines)} process{'' if len(lines) == 1 else 'es'} behind:\n  " + "\n  ".join(lines)
