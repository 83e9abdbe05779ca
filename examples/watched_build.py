"""A long command with its last line and its time on one line of the terminal, and its whole log only if it fails.

python examples/watched_build.py make -j8
"""

from __future__ import annotations

import sys

import anyio

import holdfast


async def main(argv: list[str]) -> int:
    last = ""
    async with holdfast.Supervisor() as supervisor, anyio.create_task_group() as group:
        run = await supervisor.start(argv, merge=True, idle_timeout="10m")

        async def follow() -> None:
            nonlocal last
            async for line in run.lines():
                last = line

        group.start_soon(follow)
        async for progress in run.progress(every="200ms"):
            print(f"\r\033[K{progress.elapsed_s:5.1f}s {last[:60]}", end="", file=sys.stderr, flush=True)
        result = await run.result()
    print(f"\n{result.status}: {last if result.ok else result.reason}")
    if not result.ok:
        sys.stdout.buffer.write(result.stdout)
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1:]))
