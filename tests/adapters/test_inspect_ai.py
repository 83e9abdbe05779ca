"""The sandbox inside evaluations of Inspect: what scorers see of commands that misbehave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import Generate, TaskState, solver
from inspect_ai.util import SandboxUnavailableError, sandbox

import holdfast.adapters.inspect_ai
from holdfast.adapters.command_end import CommandEnd

from ..support.processes import state_of
from .conftest import daemon_of, end_survivor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from inspect_ai.scorer import Scorer
    from inspect_ai.solver import Solver

# Inspect leaves its own memory streams open, and says so when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@solver
def idle() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        return state

    return solve


@scorer(metrics=[accuracy()])
def executes(argv: list[str], seen: dict[str, Any], timeout: int) -> Scorer:
    """Scores 1 when the command exits with 0, and 0 when it exits otherwise; anything else is no score."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        await sandbox().write_file("deep/er/file", "hello")
        assert await sandbox().read_file("deep/er/file") == "hello"
        try:
            result = await sandbox().exec(argv, input="typed", timeout=timeout)
        except BaseException as error:
            seen["error"] = error
            raise
        seen["result"] = result
        return Score(value=1 if result.success else 0)

    return score


@pytest.fixture(autouse=True, scope="module")
def inspect_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have Inspect open the log of this process before the first test, in a directory of its own."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        scored(["true"], tmp_path_factory.mktemp("log"))
        yield


def scored(argv: list[str], tmp_path: Path, timeout: int = 60, where: str = "holdfast") -> tuple[Any, dict[str, Any]]:
    """The log of an evaluation with this command in its scorer, and what the scorer saw."""
    seen: dict[str, Any] = {}
    task = Task([Sample("x")], solver=idle(), scorer=executes(argv, seen, timeout), sandbox=where)
    (log,) = evaluate(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    return log, seen


def test_a_command_is_scored_by_its_exit_code(tmp_path: Path) -> None:
    log, seen = scored(["sh", "-c", "cat; cat deep/er/file; exit 1"], tmp_path)
    assert log.status == "success"
    assert seen["result"].stdout == "typedhello"
    assert log.samples[0].scores["executes"].value == 0


def test_its_own_124_is_an_exit_code(tmp_path: Path) -> None:
    log, seen = scored(["sh", "-c", "exit 124"], tmp_path)
    assert (log.status, seen["result"].returncode) == ("success", 124)


@pytest.mark.parametrize("end", ["trap '' TERM", "trap 'exit 0' TERM"])
def test_a_timeout_is_no_score(tmp_path: Path, stubborn: str, end: str) -> None:
    said = tmp_path / "said"
    log, seen = scored(
        ["sh", "-c", f"{stubborn.replace(' stay', f' exit >{said}')} {end}; sleep 60 & wait"], tmp_path, 5
    )
    assert isinstance(seen["error"], TimeoutError)
    assert log.status == "error"
    assert not log.samples[0].scores
    assert state_of(daemon_of(said.read_text())) is None


def test_a_lost_run_is_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: object, **__: object) -> CommandEnd:
        return CommandEnd("lost", 125, "", "", "the guard died", False, "run")

    monkeypatch.setattr(holdfast.adapters.inspect_ai, "start_command", lost)
    log, seen = scored(["true"], tmp_path)
    assert isinstance(seen["error"], SandboxUnavailableError)
    assert not log.samples[0].scores


def test_a_daemon_that_a_command_leaves_is_ended(tmp_path: Path, leaves_daemon: str) -> None:
    _log, seen = scored(["sh", "-c", leaves_daemon], tmp_path)
    assert state_of(daemon_of(seen["result"].stdout)) is None


def test_control_with_the_local_sandbox_of_inspect_the_daemon_stays(tmp_path: Path, leaves_daemon: str) -> None:
    _log, seen = scored(["sh", "-c", leaves_daemon], tmp_path, where="local")
    end_survivor(daemon_of(seen["result"].stdout))
