"""Runs of agents: a prompt becomes a run of the queue, and the run becomes an answer again.

Everything that a door shows is read from the run's record: the agent and the rule of its answer are labels of the run.
So an answer is the same after a restart of the daemon, and after a change of the configuration.
"""

from __future__ import annotations

import asyncio
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from ...config.agents import STDIN, TEXT_ANSWER
from ...journal.reader import JournalReader
from ...values.errors import HoldfastError, RunNotFoundError
from ...values.run_id import check_run_id, new_run_id
from ..queue.submission import Submission
from .answer import LARGEST, AgentAnswer, answer_by, text_of
from .prompt import argv_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from ...config import Agent
    from ..service.service import Service
    from .prompt_files import PromptFiles

AGENT, RULE, DOOR = "agent", "agent.answer", "agent.door"
LONGEST_WAIT_S = 3600.0
_OUTPUT_WAIT_S = 30.0  # for the output of a command that has exited: its drain is shorter unless it is set longer
_BLOCK = 256 << 10


class UnknownAgentError(HoldfastError):
    """The configuration has no agent of this name."""


class AgentRuns:
    """The agents of the configuration in force, and their runs."""

    def __init__(self, service: Service, prompts: PromptFiles, agents: Callable[[], Mapping[str, Agent]]) -> None:
        self.service = service
        self._prompts = prompts
        self._agents = agents

    def agents(self) -> list[Agent]:
        """Every agent, by name."""
        return sorted(self._agents().values())

    def agent(self, name: str) -> Agent:
        """The agent of this name. UnknownAgentError."""
        try:
            return self._agents()[name]
        except KeyError:
            remedy = "the daemon's configuration names its agents in [agents.NAME]"
            raise UnknownAgentError(f"there is no agent {name[:80]!r}", remedy=remedy) from None

    async def submit(
        self, name: str, prompt: str, *, door: str, labels: Mapping[str, str], key: str | None, url: str | None = None
    ) -> dict[str, Any]:
        """Queue a run of the agent and return its report.

        UnknownAgentError: there is no such agent. SpecError: the prompt is wrong. Other errors as in `Service.submit`.
        """
        agent = self.agent(name)
        argv = argv_of(agent, prompt)
        # The same key with the same prompt gives the same run id, and so the same prompt file: a repeated request
        # is the same run.
        run_id = new_run_id() if key is None else _id_of_key(door, key, prompt)
        told = {**labels, AGENT: name, RULE: agent.answer, DOOR: door}
        fields: dict[str, Any] = {**agent.options, "argv": argv, "name": name, "run_id": run_id, "labels": told}
        if url is not None:
            fields["on_verdict"] = {"url": url}
        if agent.prompt == STDIN:
            fields["stdin"] = self._prompts.path_of(run_id)
        submission = msgspec.convert(fields, Submission)
        wrote = agent.prompt == STDIN and self._prompts.write(run_id, prompt)
        is_new = False
        try:
            report, is_new = await self.service.submit(submission, idempotency_key=key)
        finally:
            if wrote and not is_new:
                self._prompts.remove(run_id)
        return report

    async def report(self, run_id: str) -> dict[str, Any]:
        """The report of an agent's run. RunNotFoundError: there is no such run, or it is not a run of an agent."""
        try:
            found = await self.service.report(check_run_id(run_id))
        except HoldfastError as error:
            if getattr(error, "field", None) != "run_id":
                raise
            raise RunNotFoundError(error.message, remedy=error.remedy) from None
        if AGENT not in found["labels"]:
            raise RunNotFoundError("this is not a run of an agent", run_id=run_id)
        return found

    async def decided(self, run_id: str, timeout_s: float = LONGEST_WAIT_S) -> dict[str, Any]:
        """The report when there is a verdict and the answer is complete; before that, when the daemon stops.

        A run that was stopped has all of its answer at the verdict. A command that exited may still have output in its
        pipes, so its answer is complete when the run is settled.
        """
        found = await self.service.wait(run_id, timeout_s=timeout_s)
        if found["cause"] in ("exit", "signal") and found["state"] != "settled":
            found = await self.service.wait(run_id, until="settled", timeout_s=_OUTPUT_WAIT_S)
        return found

    @staticmethod
    def rule_of(report: Mapping[str, Any]) -> str:
        """The rule for the run's answer, as it was configured when the run was queued."""
        found: str = report["labels"].get(RULE, TEXT_ANSWER)
        return found

    async def answer(self, report: Mapping[str, Any]) -> AgentAnswer:
        """What the command has answered so far."""
        parts = [text async for text in self.text(report["run_id"], follow=False)]
        found = answer_by(self.rule_of(report), "".join(parts))
        written = report["output"]["stdout_bytes"] or 0
        return found._replace(problem=f"it is cut after {LARGEST} bytes") if written > LARGEST else found

    def text(self, run_id: str, *, follow: bool) -> AsyncGenerator[str]:
        """The command's stdout as text, piece by piece; with `follow` until the run is settled or the daemon stops."""
        return text_of(self._written(run_id, follow=follow))

    async def _written(self, run_id: str, *, follow: bool) -> AsyncGenerator[bytes]:
        fd, more = self.service.journal(run_id), follow
        while fd < 0 and more:
            more = await self.service.output_wait(run_id, 0)
            fd = self.service.journal(run_id)
        if fd < 0:
            return
        try:
            reader = JournalReader(fd, run_id=run_id)
            while True:
                while chunks := await asyncio.to_thread(reader.read, _BLOCK):
                    for chunk in chunks:
                        if chunk.stream == "stdout" and not chunk.late:
                            yield chunk.data
                if not more or reader.ended:
                    return
                # `more` is False when nothing more will be written. The bytes written before that must still be read.
                more = await self.service.output_wait(run_id, reader.position)
        finally:
            os.close(fd)


def _id_of_key(door: str, key: str, prompt: str) -> str:
    digest = sha256("\0".join((door, key, prompt)).encode("utf-8", "surrogatepass"))
    return f"key-{digest.hexdigest()[:24]}"
