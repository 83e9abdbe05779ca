"""`Supervisor.run`: the input and the result of one run in one await. The run ends with its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from .result import Result
    from .run import Run


async def result_of(run: Run, data: bytes | None) -> Result:
    """Write the input, wait until the run is settled, and return its result. If that fails, end the run."""
    try:
        if data is not None:
            await run.write_stdin(data)
            await run.close_stdin()
        result = await run.result()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await run.cancel("the caller was interrupted")
            await run.settled()
        run.close()
        raise
    run.close()
    return result
