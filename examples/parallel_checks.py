"""Several checks at once, with a table at the end. The first failure does not stop the others; Ctrl-C stops all.

python examples/parallel_checks.py 'ruff check .' 'mypy' 'pytest -q'
"""

from __future__ import annotations

import sys

import anyio

import holdfast


async def main(lines: list[str]) -> int:
    async with holdfast.Supervisor() as supervisor:
        runs = [await supervisor.start(line, shell=True, merge=True, timeout="10m") for line in lines]
        results = [await run.result() for run in runs]
    for line, result in zip(lines, results, strict=True):
        print(f"{result.status:10} {result.report['duration_s'] or 0:6.1f}s  {line}")
        if not result.ok:
            print(result.stdout.decode(errors="replace"), end="")
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1:]))
