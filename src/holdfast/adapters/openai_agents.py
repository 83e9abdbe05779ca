"""OpenAI Agents SDK: an executor for its `ShellTool`. Needs the extra `openai-agents`.

```python
ShellTool(executor=ShellExecutor(cwd=workspace))
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents import ShellCallOutcome, ShellCommandOutput, ShellResult

from .command_end import shell, start_command

if TYPE_CHECKING:
    from typing import Unpack

    from agents import ShellCommandRequest

    from ..values.options import SpecOptions
    from .command_end import CommandEnd


class ShellExecutor:
    """Runs the commands of a shell call one after the other, each as a run whose tree ends with it.

    The request's own timeout wins over the option `timeout`. The commands after one that timed out are not run: the
    model has not seen what the first one left.
    """

    def __init__(self, **options: Unpack[SpecOptions]) -> None:
        self._options = options

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        options: SpecOptions = {**self._options}
        if action.timeout_ms is not None:
            options["timeout"] = action.timeout_ms / 1000
        outputs: list[ShellCommandOutput] = []
        for command in action.commands:
            end = await start_command(shell(command), **options)
            outputs.append(_output(command, end))
            if end.timed_out:
                break
        return ShellResult(output=outputs, max_output_length=action.max_output_length)


def _output(command: str, end: CommandEnd) -> ShellCommandOutput:
    outcome = ShellCallOutcome("timeout") if end.timed_out else ShellCallOutcome("exit", end.exit_code)
    # The Responses API has no word for other ends: the reason goes where the model reads it.
    told = "" if end.timed_out or end.was_seen else f"\n[{end.status}: {end.reason}]"
    return ShellCommandOutput(stdout=end.stdout, stderr=end.stderr + told, outcome=outcome, command=command)
