"""The environment inside mini-swe-agent's own agent, with its deterministic model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

os.environ["MSWEA_SILENT_STARTUP"] = "1"

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output

from holdfast.adapters.mini_swe_agent import HoldfastEnvironment

from ..support.processes import state_of
from .conftest import daemon_of, end_survivor

if TYPE_CHECKING:
    from pathlib import Path

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo answer"


def observed(environment: HoldfastEnvironment | LocalEnvironment, *commands: str) -> tuple[dict[str, Any], str]:
    """How an agent ends that runs these commands, and everything that its model was told."""
    model = DeterministicModel(outputs=[make_output(c, [{"command": c}]) for c in (*commands, SUBMIT)])
    agent = DefaultAgent(model, environment, system_template="system", instance_template="task")
    end = agent.run("task")
    return end, "\n".join(str(message.get("content")) for message in agent.messages)


def test_an_agent_runs_and_submits(tmp_path: Path) -> None:
    end, told = observed(HoldfastEnvironment(cwd=str(tmp_path), env={"WORD": "hello"}), "echo $WORD; pwd; exit 3")
    assert end["exit_status"] == "Submitted"
    assert end["submission"] == "answer\n"
    assert f"hello\n{tmp_path}\n" in told
    assert "<returncode>3" in told or "3" in told


def test_a_timeout_ends_the_tree_and_keeps_the_output(stubborn: str) -> None:
    environment = HoldfastEnvironment(timeout=5, grace=0.2)
    observation = environment.execute({"command": stubborn})
    assert observation["returncode"] == -1
    assert "timed out" in observation["exception_info"]
    assert state_of(daemon_of(observation["output"])) is None


def test_a_daemon_that_a_command_leaves_is_ended(leaves_daemon: str) -> None:
    end, told = observed(HoldfastEnvironment(), leaves_daemon)
    assert end["exit_status"] == "Submitted"
    assert state_of(daemon_of(told)) is None


def test_control_with_the_environment_of_mini_swe_agent_the_daemon_stays(leaves_daemon: str) -> None:
    _, told = observed(LocalEnvironment(), leaves_daemon)
    end_survivor(daemon_of(told))
