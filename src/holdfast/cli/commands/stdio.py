"""`holdfast stdio`: run a server for a client that talks to it on stdin and stdout (MCP, LSP, ACP)."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, NamedTuple

from ...journal.unstarted import facts_of, signalled
from ...outcome import decide
from ...projections.exit_code import exit_code
from ...runs.front import SESSION_BYTES, Relay, become_front
from ...values import fields
from ...values.durations import parse_duration
from ...values.signals import STOPS
from ...values.spec_cache import new_spec
from ...values.starter import GONE, find_starter
from ..parsing.command import PrefixCommand
from ..parsing.options import CommandLine, Option, UsageError, parse
from ..parsing.run_options import OPTIONS as OPTIONS_OF_RUN
from ..parsing.run_options import options_of
from ..starting.start import start
from ..terminal.signal_pipe import SignalPipe

if TYPE_CHECKING:
    from ...values.options import SpecOptions

GRACE = "1s"  # clients send SIGKILL two seconds after SIGTERM: by then the whole tree is gone
AFTER_EOF = "2s"
PROTOCOLS = ("mcp", "lsp", "acp", "raw")
# Options of `run` that `stdio` does not have: the streams are the client's own, and the server ends with its client.
_NOT_HERE = (
    "--env-inherit",
    *("--idle-timeout", "--idle-counts", "--stdin", "--pty", "--no-pty", "--merge", "--late", "--max-output"),
    *(
        "--on-max-output",
        "--drain",
        "--drain-idle",
        "--in-container",
        "--runtime",
        "--lifetime",
        "--with-parent",
        "--with-process",
    ),
    *("--ready", "--ready-timeout", "--detach", "--grace", "--report", "--quiet", "--help"),
)
OPTIONS = (
    Option("--after-eof", "DURATION", f"the server's time to exit after end of file on stdin (default {AFTER_EOF})"),
    Option("--grace", "DURATION", f"the time from the first signal to SIGKILL (default {GRACE})"),
    Option("--idle", "DURATION", "end a server that is silent for this long; the next message starts it again (MCP)"),
    Option("--protocol", "|".join(PROTOCOLS), "what client and server speak (default mcp): --idle needs to know"),
    *(option for option in OPTIONS_OF_RUN if option.flag not in _NOT_HERE),
    Option("--without-parent", None, "go on when the process that started holdfast is gone"),
    Option("--verbose", None, "say on stderr how the server ended"),
    Option("--help", None, "print this text", short="h"),
)
_MORE = """\
Write it into the configuration of a client in place of the server. The server gets the client's own stdin, stdout and
stderr, so nothing is copied, delayed or added. Its whole tree ends when the client closes stdin, exits or is killed.
Clients pass on few variables: name the state directory with --state-dir, not in the environment.
With --idle the messages pass through Holdfast, which repeats the client's initialize to a new server.

Exit codes: the server's own; else those of `holdfast run`.
"""


def act(given: CommandLine) -> int:
    idle_s = _idle_of(given)
    return _serve(given, None if idle_s is None else _IdleServer.first(given, idle_s))


def wake(words: list[str]) -> int:
    """Start a server again that was ended for silence: its client has said something. The words are the front's."""
    session, starter, *line = words
    given = parse(OPTIONS, line)
    idle_s = _idle_of(given)
    assert idle_s is not None
    return _serve(given, _IdleServer(int(session), int(starter), idle_s))


def _serve(given: CommandLine, idle: _IdleServer | None) -> int:
    """Start the server, and become its front."""
    signals = SignalPipe()
    after_eof_s = parse_duration(given.last("--after-eof") or AFTER_EOF, field="after_eof")
    options = _options_of(given)
    relay = None if idle is None else idle.relay(options)
    if idle is not None and idle.starter_is_gone():
        options["starter"] = GONE
    spec = new_spec(given.words, options)
    early = signals.take()
    if stops := [number for number in early if number in STOPS]:
        return exit_code(decide(facts_of(signalled(stops[0]))))
    live, state = start(given, spec)
    words = ["front-ended", "verbose" if given.has("--verbose") else "quiet", "" if state is None else state.path]
    again = [] if idle is None else [str(idle.session), str(idle.starter), *_line_of(given)]
    return become_front(live, words, again, after_eof_s=after_eof_s, came=early + signals.take(), relay=relay)


def _options_of(given: CommandLine) -> SpecOptions:
    if given.last("--stragglers") == "session":
        remedy = "use kill, wait or leave"
        raise UsageError("--stragglers session needs an owner that stays, and stdio has none", remedy=remedy)
    options = options_of(given)
    options.update({"pty": False, "stdin": "inherit", "stdout": "inherit", "stderr": "inherit"})
    options.setdefault("grace", GRACE)
    if not given.has("--without-parent"):
        options["starter"] = find_starter()  # None: it is outside of our PID namespace
    return options


def _line_of(given: CommandLine) -> list[str]:
    """The command line again, with each value in the word of its option."""
    switches = {option.flag for option in OPTIONS if option.metavar is None}
    flags = [flag if flag in switches else f"{flag}={value}" for flag, found in given.values.items() for value in found]
    return [*flags, "--", *given.words]


def _idle_of(given: CommandLine) -> float | None:
    protocol = fields.check_word(given.last("--protocol") or "mcp", PROTOCOLS, "protocol")
    if (idle := given.last("--idle")) is None:
        return None
    if protocol != "mcp":
        remedy = "leave --idle out; the server then ends with its client"
        message = (
            f"--idle cannot start a server of {protocol} again: it would not know the session that its client is in"
        )
        raise UsageError(message, remedy=remedy)
    if given.has("--id"):
        raise UsageError("--id names one run, and --idle starts several", remedy="leave one of them out, or use --name")
    return fields.check_limit(idle, "idle")


class _IdleServer(NamedTuple):
    """What stays while a server is ended and started again."""

    session: int  # the memfd in which the front keeps the beginning of the session
    starter: int  # a pidfd of the process that started us; -1: it is not watched
    idle_s: float

    @classmethod
    def first(cls, given: CommandLine, idle_s: float) -> _IdleServer:
        session = os.memfd_create("holdfast-session", os.MFD_CLOEXEC)
        os.ftruncate(session, SESSION_BYTES)
        return cls(session, -1 if given.has("--without-parent") else _pidfd_of_parent(), idle_s)

    def starter_is_gone(self) -> bool:
        """Whether the process that started us is gone. Our parent then is its adopter, and no starter of this run."""
        if self.starter < 0:
            return False
        poll = select.poll()
        poll.register(self.starter, select.POLLIN)
        return bool(poll.poll(0))

    def relay(self, options: SpecOptions) -> Relay:
        """Let the server's bytes pass through the front. Its stderr stays the client's own."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        options.update({"stdin": "pipe", "stdout": writing})
        return Relay(reading, writing, self.session, self.starter, self.idle_s)


def _pidfd_of_parent() -> int:
    try:
        return os.pidfd_open(os.getppid())
    except OSError:
        return -1  # it is outside of our PID namespace


COMMAND = PrefixCommand(
    "stdio [OPTIONS] [--] SERVER [ARG]...",
    "Run a server (MCP, LSP, ACP) on the stdin and stdout of its client, and end all of it with the client.",
    OPTIONS,
    act,
    _MORE,
    "server",
)
