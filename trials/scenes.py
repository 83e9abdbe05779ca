"""The scenes: what the scripted model asks of a harness, the same in each one, with and without Holdfast."""

from __future__ import annotations

from dataclasses import dataclass

TOOL_LIMIT_S = 3.0  # the time limit of the tool where a scene wants one
FLOOD_LINES = 1_000_000
FLOOD_LINE_BYTES = 100
SETTLE_S = 5.0  # what lives longer than this after the session was left behind


@dataclass(frozen=True, slots=True)
class Scene:
    """One scripted session. In texts `{token}`, `{port}` and `{fifo}` are those of the trial.

    A word of `printed` is not in the text of its command, so that an echo of the command is not taken for its output.
    """

    name: str
    title: str
    story: str
    commands: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()
    flood: bool = False
    needs_s: float = 0.0  # how long a harness has a reason to wait for the results
    limited: bool = False  # the tool call has a time limit
    server: bool = False  # with an MCP server that ignores the end of its input, and a call of its tool
    killed: bool = False  # SIGKILL for the harness as soon as the command runs
    resumed: bool = False  # then the session is started again
    note: str = ""  # what a reader of the results should know


_PLAIN = Scene(
    "plain",
    "a plain command, for comparison",
    "The command prints one line and exits.",
    commands=("printf 'plain-%s\\n' {token}",),
    printed=("plain-{token}",),
)
_DAEMONS = Scene(
    "daemons",
    "a command leaves daemons",
    "The command starts two processes in sessions of their own, prints one line and exits.",
    commands=("setsid sleep 300 & setsid -f sleep 301; printf 'started-%s\\n' {token}",),
    printed=("started-{token}",),
)
_SERVER = Scene(
    "dev-server",
    "a development server",
    "One command starts a web server in the background. The next command fetches a page from it.",
    commands=(
        "python3 -m http.server {port} --bind 127.0.0.1 >/dev/null 2>&1 & printf 'serving-%s\\n' {token}",
        "python3 fetch.py {port}",
    ),
    printed=("serving-{token}", "page-{token}"),
    note="A lost page means that the server ended with the command that started it, and that the next command did not "
    "reach it. With Holdfast the server goes on until the session or the harness ends.",
)
_HOLDS = Scene(
    "holds-stdout",
    "a command hangs, and a grandchild holds its stdout",
    "The command starts a process in a session of its own, which keeps stdout open, and then hangs. "
    f"The tool has a limit of {TOOL_LIMIT_S:.0f} s.",
    commands=("setsid sleep 300 & printf 'hanging-%s\\n' {token}; sleep 302",),
    printed=("hanging-{token}",),
    needs_s=TOOL_LIMIT_S,
    limited=True,
)
_FLOOD = Scene(
    "flood",
    "100 MB of output",
    "The command prints a million numbered lines of 100 bytes.",
    commands=(f"seq -f %099.0f 1 {FLOOD_LINES}",),
    flood=True,
)
_PROMPT = Scene(
    "prompt",
    "a command asks on stdin",
    f"The command prints a question and reads the answer from its stdin. The tool has a limit of {TOOL_LIMIT_S:.0f} s.",
    commands=("printf 'question-%s? ' {token}; read answer; printf 'answered-%s\\n' {token}",),
    printed=("question-{token}?", "answered-{token}"),
    limited=True,
)
_LAST_WORDS = Scene(
    "last-words",
    "a time limit, and last words",
    "The command works for longer than the tool's limit of "
    f"{TOOL_LIMIT_S:.0f} s. Told to stop by SIGTERM, it prints one more line.",
    commands=("trap 'printf \"saved-%s\\n\" {token}; exit 0' TERM; printf 'working-%s\\n' {token}; sleep 303 & wait",),
    printed=("working-{token}", "saved-{token}"),
    needs_s=TOOL_LIMIT_S,
    limited=True,
)
_MCP = Scene(
    "mcp-server",
    "an MCP server ignores the end of its input",
    "A launcher starts the server, as npx and uvx do. The model calls the server's tool once. After the session the "
    "server ignores that its stdin has ended.",
    printed=("echo-{token}",),
    server=True,
)
_KILLED = Scene(
    "killed",
    "the harness is SIGKILLed in the middle",
    "The MCP server of the scene before is connected, and a command with a daemon is running, when SIGKILL ends "
    "every process of the harness itself.",
    commands=("setsid sleep 300 & printf 'running-%s\\n' {token}; echo ready >{fifo}; sleep 304",),
    printed=("running-{token}",),
    server=True,
    killed=True,
)
_RESTART = Scene(
    "restart",
    "the harness is SIGKILLed, and its session resumed",
    "A command is running when SIGKILL ends every process of the harness itself. The session is then resumed with "
    "the harness's own option for it.",
    commands=("printf 'begun-%s\\n' {token}; echo ready >{fifo}; sleep 305",),
    printed=("begun-{token}",),
    killed=True,
    resumed=True,
    note="Codex asks its user once to review new hooks. Nobody has answered in this session, so its model is not told "
    "what Holdfast knows.",
)

SCENES = (
    _PLAIN, _DAEMONS, _SERVER, _HOLDS, _FLOOD, _PROMPT, _LAST_WORDS, _MCP, _KILLED, _RESTART,
)  # fmt: skip
