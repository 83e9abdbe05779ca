"""LangChain: an execution policy for its shell tool, whose shell is a run. Needs the extra `langchain`.

```python
ShellToolMiddleware(workspace, execution_policy=HoldfastExecutionPolicy(memory="2G"))
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain.agents.middleware import _execution

from ..compat import subprocess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass
class HoldfastExecutionPolicy(_execution.BaseExecutionPolicy):
    """The shell of an agent on this host. What its commands leave in the background ends with the shell.

    The shell itself stays between commands, as LangChain wants it. `command_timeout` is LangChain's own: it kills the
    shell, and so everything that the shell started.
    """

    grace: float = 2.0
    memory: str | None = None
    pids: int | None = None

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> subprocess.Popen[str]:
        """Start the shell. OSError: it cannot be started."""
        return subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=workspace,
            env=env,
            encoding="utf-8",
            errors="replace",
            bufsize=1,
            start_new_session=True,  # LangChain kills by the group
            grace=self.grace,
            memory=self.memory,
            pids=self.pids,
        )
