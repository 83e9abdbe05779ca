"""Start a server, wait until it is ready, run a client against it, and end both, whatever happens.

python examples/server_and_client.py 8123 'python3 -m http.server 8123' 'curl -fsS http://127.0.0.1:8123/'
"""

from __future__ import annotations

import sys

import anyio

import holdfast


async def main(words: list[str]) -> int:
    port, server_line, client_line = words
    async with holdfast.Supervisor() as supervisor:
        server = await supervisor.start(server_line, shell=True, merge=True, ready=f"port:{port}", grace=2)
        try:
            await server.ready(timeout="30s")
        except holdfast.NotReadyError as error:
            print(f"the server is not ready: {error.message}", file=sys.stderr)
            return 1
        client = await supervisor.start(client_line, shell=True, timeout="1m")
        async for line in client.lines():
            print(line)
        return (await client.result()).exit_code or 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1:]))
