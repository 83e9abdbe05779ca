"""A supervisor of its own, in a process that a test kills: prints the PID of a process of its run, and the run's id."""

from __future__ import annotations

import asyncio
import sys

from holdfast.ray import Supervisor


async def main(address: str, state_dir: str, lease_s: float) -> None:
    """Start one run and wait for its end, which does not come."""
    async with Supervisor(address=address, state_dir=state_dir, lease=lease_s) as supervisor:
        script = "setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000"
        run = await supervisor.start(["sh", "-c", script], grace=0.2)
        pid = (await anext(run.output())).data.decode().strip()
        sys.stdout.write(f"{pid} {run.run_id}\n")
        sys.stdout.flush()
        await run.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
