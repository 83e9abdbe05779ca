"""deepagents: a backend whose `execute` starts a run. Needs the extra `deepagents`.

```python
create_deep_agent(model, backend=HoldfastBackend(root_dir=workspace))
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import ExecuteResponse, SandboxBackendProtocol

from ..values.run_id import new_run_id
from .command_end import run_command, shell, start_command

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

    from ..values.options import SpecOptions
    from .command_end import CommandEnd

_TIMEOUT_S = 120.0  # as LocalShellBackend
_OUTPUT_BYTES = 100_000  # as LocalShellBackend


class HoldfastBackend(FilesystemBackend, SandboxBackendProtocol):
    """Files and shell commands of this host below `root_dir`, each command a run. It ends commands; it is no sandbox.

    The options are those of a run. `timeout` holds for commands that bring none. A command inherits the environment
    without the marks of an outer agent; `env_drop=["*"]` and `env` give it a chosen one.
    """

    def __init__(
        self, root_dir: str | Path | None = None, *, virtual_mode: bool = True, **options: Unpack[SpecOptions]
    ) -> None:
        super().__init__(root_dir=root_dir, virtual_mode=virtual_mode)
        self._id = f"holdfast-{new_run_id()}"
        self._options: SpecOptions = {
            "timeout": _TIMEOUT_S,
            "max_output": _OUTPUT_BYTES,
            "merge": True,
            **options,
            "cwd": str(self.cwd),
        }

    @property
    def id(self) -> str:
        """The name of this backend, which differs from that of every other."""
        return self._id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell line until its whole tree is gone. `timeout=0` means no timeout."""
        return _response(run_command(shell(command), **self._with(timeout)))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:  # noqa: ASYNC109
        """As `execute`, without a thread: a cancelled agent ends its command."""
        return _response(await start_command(shell(command), **self._with(timeout)))

    def _with(self, timeout: int | None) -> SpecOptions:
        return self._options if timeout is None else {**self._options, "timeout": timeout or None}


def _response(end: CommandEnd) -> ExecuteResponse:
    """The response; after an end that was not the command's own, the output says so."""
    told = "" if end.was_seen else f"\n[{end.status}: {end.reason}]"
    return ExecuteResponse(output=end.stdout + told, exit_code=end.exit_code, truncated=end.is_cut)
