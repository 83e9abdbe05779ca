"""A client of the Python SDK: connects, lists the tools, calls `echo` for each line of its stdin, then closes."""

from __future__ import annotations

import json
import os
import sys

import anyio

from mcp import Client, StdioServerParameters


async def main(*command: str) -> None:
    server = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ))
    async with Client(server) as client:
        tools = sorted(tool.name for tool in (await client.list_tools()).tools)
        say(tools=tools, echo=await echo(client, "first"))
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            say(echo=await echo(client, line.strip()))


def say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def echo(client: Client, message: str) -> str:
    result = await client.call_tool("echo", {"message": message})
    return str(getattr(result.content[0], "text", ""))


anyio.run(main, *sys.argv[1:])
