"""`holdfast mcp`: serve runs as tools of the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...values.durations import parse_duration, parse_size
from ...values.errors import HoldfastError
from ..parsing.command import Command, no_words
from ..parsing.options import Option, UsageError

if TYPE_CHECKING:
    from ..parsing.options import CommandLine

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MOST_PORT = 65535


def act(given: CommandLine) -> int:
    no_words(given, "mcp")
    listen = _address(given.last("--http"))
    from ...mcp.limits import ServerLimits, real_directories

    limits = ServerLimits(real_directories(given.all("--allow-dir")))
    if (text := given.last("--max-timeout")) is not None:
        limits = limits._replace(max_timeout_s=_more_than_nothing(parse_duration(text, field="max-timeout"), text))
    if (text := given.last("--max-output")) is not None:
        limits = limits._replace(max_output_bytes=int(_more_than_nothing(parse_size(text, field="max-output"), text)))
    if (text := given.last("--max-runs")) is not None:
        limits = limits._replace(max_runs=_count(text))
    try:
        import anyio

        from ...mcp.server import McpSettings, serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "holdfast":
            raise
        raise HoldfastError(f"this needs {error.name}", remedy="pip install 'holdfast[mcp]'") from None
    settings = McpSettings(
        state_dir=given.last("--state-dir"),
        limits=limits,
        session=given.last("--session"),
        detached=given.has("--detached"),
        listen=listen,
    )
    anyio.run(serve, settings)
    return 0


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _MOST_PORT:
        raise UsageError(f"{text!r} is no address", remedy="write --http 127.0.0.1:8808, or port 0 for any free port")
    if host not in _LOOPBACK:
        remedy = "use 127.0.0.1 or [::1], and a tunnel or a proxy for other hosts"
        raise UsageError(f"{host!r} is not this machine only", remedy=remedy)
    return host, int(port)


def _more_than_nothing(value: float, text: str) -> float:
    if value <= 0:
        raise UsageError(f"a limit of {text} allows nothing", remedy="give a larger one")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000):
        raise UsageError(f"--max-runs {text!r} is no number of runs", remedy="write a number from 1 to 100000")
    return int(text)


COMMAND = Command(
    "mcp [OPTIONS]",
    "Serve the tools exec, poll, output, wait, cancel, send_input and list to an MCP client, on stdin and stdout.",
    (
        Option("--http", "HOST:PORT", "streamable HTTP on the loopback interface instead; token in STATE/token"),
        Option("--allow-dir", "PATH", "where commands may start (default: the current directory)", many=True),
        Option("--max-timeout", "TIME", "the longest timeout of a run, and the default one (default: 1h)"),
        Option("--max-output", "SIZE", "the most output of one run (default: 64M)"),
        Option("--max-runs", "N", "the most live runs at once (default: 16)"),
        Option("--session", "NAME", "the session of its runs (default: a new one)"),
        Option("--detached", None, "let runs go on when the server ends"),
    ),
    act,
    "Runs end with the server, unless --detached. With --session, ids stay valid after a restart.\n"
    "Exit codes: 0 ended, 125 failed.\n",
)
