"""Inspect: a sandbox of the kind `holdfast`, in which each command is a run. Needs the extra `inspect`.

```python
Task(dataset, solver=..., sandbox="holdfast")
```

A score must say something about the model. So only an end that is the command's own becomes a result: an exit code or a
signal. A timeout is always a TimeoutError, also when the command exits 0 while it is ended. It is never a code of 124
that a scorer would read. A lost or cancelled run is a SandboxUnavailableError.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, overload

import inspect_ai.util
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from inspect_ai.util._subprocess import max_subprocesses_context_var  # the only place that knows `max_subprocesses`

from .command_end import start_command

if TYPE_CHECKING:
    from typing import Literal

    from inspect_ai.util import SandboxEnvironmentConfigType

    from ..values.options import SpecOptions


@sandboxenv(name="holdfast")
class HoldfastSandbox(SandboxEnvironment):
    """A directory of this host for one sample. It ends what commands leave behind; it does not isolate them."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="holdfast-inspect-", ignore_cleanup_errors=True)
        self.path = Path(self._directory.name)

    @classmethod
    async def sample_init(
        cls,
        task_name: str,  # noqa: ARG003 - Inspect's interface
        config: SandboxEnvironmentConfigType | None,  # noqa: ARG003
        metadata: dict[str, str],  # noqa: ARG003
    ) -> dict[str, SandboxEnvironment]:
        """A new directory for each sample."""
        return {"default": cls()}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,  # noqa: ARG003
        config: SandboxEnvironmentConfigType | None,  # noqa: ARG003
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,  # noqa: ARG003
    ) -> None:
        """Remove the directories. The runs are over: each ended with the call that started it."""
        for environment in environments.values():
            environment.as_type(HoldfastSandbox).remove()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 - Inspect's interface
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,  # noqa: ASYNC109
        timeout_retry: bool = True,  # noqa: ARG002 - never: the first try may have done half of its work
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command until its whole tree is gone. TimeoutError, SandboxUnavailableError: see the module."""
        if user is not None:
            raise SandboxUserUnsupportedError("a holdfast sandbox runs commands as the user of the evaluation")
        options: SpecOptions = {
            "cwd": str(self.path / (cwd or "")),
            "env": env,
            "timeout": timeout,
            "max_output": 2 * SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE,
        }
        data = input.encode() if isinstance(input, str) else input
        if not concurrency:
            return await _execute(cmd, data, options)
        async with inspect_ai.util.concurrency("subprocesses", max_subprocesses_context_var.get(), resizable=True):
            return await _execute(cmd, data, options)

    def remove(self) -> None:
        """Remove the directory of the sample."""
        self._directory.cleanup()

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file of the sample, and its parent directories."""
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents.encode() if isinstance(contents, str) else contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Read a file of the sample. OutputLimitExceededError: it is larger than Inspect's limit."""
        path = self.path / file
        if path.stat().st_size > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        data = path.read_bytes()
        return data.decode() if text else data


async def _execute(cmd: list[str], data: bytes | None, options: SpecOptions) -> ExecResult[str]:
    end = await start_command(cmd, data, **options)
    if end.timed_out:
        raise TimeoutError(f"the command timed out: {end.reason}")
    if not end.was_seen:
        raise SandboxUnavailableError(f"run {end.run_id} is {end.status}, and says nothing about the command")
    if end.is_cut:
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, end.stdout)
    return ExecResult(end.exit_code == 0, end.exit_code, end.stdout, end.stderr)
