"""What pytest loads: the options and the fixture. Nothing else happens unless the user asks for the check.

The entry point is loaded by every pytest of an environment that has Holdfast, so this module imports nothing of it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..compat.subprocess import Popen


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("holdfast", "processes that tests leave behind")
    group.addoption("--holdfast", action="store_true", help="fail a test that leaves processes behind")
    group.addoption("--holdfast-reap", action="store_true", help="as --holdfast, and end these processes")
    parser.addini("holdfast", "always use --holdfast", type="bool", default=False)
    parser.addini("holdfast_reap", "always use --holdfast-reap", type="bool", default=False)
    parser.addini("holdfast_allow", "words in the command lines of processes that may stay", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    reaps = config.getoption("holdfast_reap") or config.getini("holdfast_reap")
    if reaps or config.getoption("holdfast") or config.getini("holdfast"):
        from .leftover_check import LeftoverCheck

        config.pluginmanager.register(LeftoverCheck(config, reaps=bool(reaps)), "holdfast-leftovers")


@pytest.fixture
def supervised() -> Iterator[Callable[..., Popen[Any]]]:
    """Start processes that end with the test, each with its whole tree: `supervised(["server"], stdout=PIPE)`.

    It takes the arguments of `subprocess.Popen` and the options of a run, and returns a `Popen`.
    """
    from ..compat.subprocess import Popen

    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> Popen[Any]:
            process: Popen[Any] = Popen(*arguments, **options)
            stack.enter_context(process)  # waits until the tree is gone
            stack.callback(process.terminate)
            return process

        yield start
