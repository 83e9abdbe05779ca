"""mini-swe-agent: an `Environment` for its agents. Needs the extra `mini-swe-agent`.

```python
DefaultAgent(model, HoldfastEnvironment(cwd=repository, timeout=60), ...)
```
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from minisweagent.environments.local import LocalEnvironment, LocalEnvironmentConfig

from .command_end import run_command, shell

if TYPE_CHECKING:
    from .command_end import CommandEnd


class HoldfastEnvironmentConfig(LocalEnvironmentConfig):
    """The settings of mini-swe-agent's own local environment, with a grace and budgets."""

    grace: float = 2.0
    memory: str | None = None
    pids: int | None = None


class HoldfastEnvironment(LocalEnvironment):
    """mini-swe-agent's local environment, in which each command is a run: its whole tree ends with it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(config_class=HoldfastEnvironmentConfig, **settings)

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run the command of an action; a timeout has the return code -1 and all output from before it."""
        config = self.config
        end = run_command(
            shell(action.get("command", "")),
            cwd=cwd or config.cwd or os.getcwd(),
            env=config.env,
            timeout=timeout or config.timeout,
            grace=config.grace,
            memory=config.memory,
            pids=config.pids,
            merge=True,
        )
        observation = _observation(end)
        self._check_finished(observation)
        return observation


def _observation(end: CommandEnd) -> dict[str, Any]:
    if end.was_seen:
        return {"output": end.stdout, "returncode": end.exit_code, "exception_info": ""}
    what = "timed out" if end.timed_out else f"was {end.status}"
    return {
        "output": end.stdout,
        "returncode": -1,
        "exception_info": f"The command {what}: {end.reason}",
        "extra": {"exception_type": end.status, "exception": end.reason, "run_id": end.run_id},
    }
