"""The rows: each is an adversarial child, the task for the peer, and the expectation.

`@name` in an argv is a program of tests/children; `{mark}`, `{shared}` and `{directory}` are paths of the cell.
`{holdfast}` is the command `holdfast`, `{cell}` the PID of the process that looks at the cell.
"""

from __future__ import annotations

import re

from .attacks import ATTACKS
from .expectation import Expect
from .row import CANCELLED, NOBODY, SPAWN, SUCCEEDED, TIMED_OUT, Row, bound_s, starving
from .row import run_of as _run
from .task import Task

_MUCH = 5_000_000
_FLOOD = 256 << 20
_SLOWLY = 2 << 20
_EDGE_S = 0.1


def _three_descriptors(stdout: bytes) -> str | None:
    numbers = [int(found) for found in re.findall(rb"^(\d+) ", stdout, re.MULTILINE)]
    return None if numbers == [0, 1, 2] else f"the command sees descriptors {numbers}"


def _early(stdout: bytes) -> str | None:
    return None if stdout[_MUCH:].startswith(b"early\nready") else f"{len(stdout)} bytes arrived"


PROMPT = Task((), timeout_s=3.0)  # a peer that waits for a holder until then is not prompt


def _ending(name: str, number: int, child: str, holds: str, *argv: object, **more: object) -> Row:
    """A command that must be ended at its deadline."""
    expect = more.pop("expect", TIMED_OUT)
    return Row(name, number, child, holds, Task(_run(*argv)), expect, **more)  # type: ignore[arg-type]


def _prompt(name: str, number: int, child: str, holds: str, *argv: object, **changes: object) -> Row:
    """A command that ends by itself, and leaves another process.

    The command begins a moment later: a peer that asks for an exit that has already happened may be prompt by chance.
    """
    expect = SUCCEEDED._replace(within_s=2.5, **changes)  # type: ignore[arg-type]
    later = ("/bin/sh", "-c", 'sleep 0.2; exec "$0" "$@"', *argv)
    return Row(name, number, child, holds, PROMPT._replace(runs=_run(*later)), expect)


def _traced(name: str, child: str, holds: str, how: str) -> Row:
    """A command under ptrace that ends with code 7 where its supervisor sees it."""
    expect = Expect(("failed",), "exit", (7,), begins=None, within_s=2.5)
    return Row(name, 48, child, holds, PROMPT._replace(runs=_run("@traced", how)), expect)


def _spawn(name: str, child: str, *argv: object, cwd: str | None = None) -> Row:
    holds = "failed to start, and said so as such"
    return Row(name, 22, child, holds, Task(_run(*argv), cwd=cwd, timeout_s=3.0), SPAWN, ("cwd",) if cwd else ())


ROWS: tuple[Row, ...] = (
    _ending("ignores-term", 1, "ignores SIGTERM", "killed after the grace", "@ignores_term"),
    _ending(
        "leader-exits", 2, "leader exits on SIGTERM, its child ignores it", "tree empty", "@leader_exits_on_term", -1
    ),
    _ending("daemon", 3, "double-forked daemon, environment cleared", "dead", "@daemonises", "stay"),
    _prompt("daemon-left", 3, "exits 0 and leaves such a daemon", "dead", "@daemonises", "exit"),
    _ending("reforks", 4, "re-forks in a new session every millisecond", "dead", "@reforks", "{shared}"),
    _ending(
        "stopped", 5, "stopped with SIGSTOP, has a SIGTERM handler", "the handler runs", "@stops_itself", 7, "{mark}",
        expect=TIMED_OUT._replace(mark=True),
    ),
    _prompt("silent-holder", 6, "exits 0, a silent grandchild holds stdout", "prompt success, bytes kept",
            "@leaves_holder", "silent", 0, begins=b"early\nready"),
    _prompt("endless-writer", 7, "exits 0, a grandchild writes for ever", "prompt success, bytes kept",
            "@leaves_holder", "writes", 0, begins=b"early\n"),
    _prompt("left-behind", 8, "exits 0, leaves a process with null stdio", "killed",
            "@leaves_holder", "null", 0, "stubborn", begins=b"early\nready"),
    _prompt("much-then-holder", 9, "5 MB of output, then a holder", "every byte kept",
            "@leaves_holder", "silent", _MUCH, "stubborn", begins=b"e" * _MUCH, check=_early),
    Row("at-the-deadline", 10, "exits 0 within ±1 ms of its deadline, 21 times", "succeeded or timed out, each time",
        Task(tuple(("@exits_at", f"+{int((_EDGE_S - 0.004) * 1e9) + step * 250_000}") for step in range(21)),
             timeout_s=_EDGE_S),
        Expect(("succeeded", "timed_out"))),
    _ending("exits-0-late", 11, "its SIGTERM handler exits 0", "still timed out", "@exits_on_term", 0),
    _ending("exits-1-late", 11, "its SIGTERM handler exits 1", "still timed out", "@exits_on_term", 1),
    Row("cancel-in-grace", 12, "cancelled in the grace of its timeout", "timed out it stays",
        Task(_run("@ignores_term"), timeout_s=0.5, grace_s=0.8, cancel_after_s=0.8), TIMED_OUT, ("cancel",)),
    Row("timeout-in-grace", 12, "its deadline comes in the grace of a cancel", "cancelled it stays",
        Task(_run("@ignores_term"), timeout_s=0.8, grace_s=0.8, cancel_after_s=0.5), CANCELLED, ("cancel",)),
    Row("deadline-then-memory", 13, "runs out of memory after its deadline", "timed out it stays",
        Task(_run("@uses_memory", "on-term", 256 << 20), memory_bytes=32 << 20, grace_s=5.0), TIMED_OUT, ("memory",)),
    _prompt("kills-itself", 14, "SIGKILLs itself", "failed, by a signal", "@kills_itself.sh")._replace(
        expect=Expect(("failed",), "signal", signal=9)),
    Row("exit-codes", 15, "exits 137, 143, 124", "failed, by that exit code",
        Task(tuple(("@exits.sh", str(code)) for code in (137, 143, 124)), timeout_s=3.0),
        Expect(("failed",), "exit", (137, 143, 124))),
    Row("storm", 16, "fork storm", "extinct", Task(_run("@storms", 30), timeout_s=1.0), TIMED_OUT,
        repeats=6),
    _ending("forks-on-term", 17, "its SIGTERM handler starts new children", "all dead", "@forks_on_term", 3,
            repeats=4),  # a kill of the group may come before they have left the group
    Row("unkillable", 18, "unkillable for now: frozen, state D", "given up on in time, and not called dead",
        Task(_run("@ignores_term"), timeout_s=1.2),
        Expect(("timed_out",), left=False, within_s=bound_s(Task((), timeout_s=1.2))),
        ("freezer",), "freeze", "ignores_term"),
    Row("main-thread-gone", 19, "its main thread is gone, another works", "runs on to its exit code",
        Task(_run("@main_thread_gone", 400, 7), timeout_s=3.0), Expect(("failed",), "exit", (7,))),
    _ending("main-thread-gone-stays", 19, "the same, for ever", "ended at the deadline", "@main_thread_gone"),
    _prompt("daemon-crash", 20, "daemonises, then crashes", "failed by signal 11, daemon dead", "@daemonises", "crash")
    ._replace(expect=Expect(("failed",), "signal", signal=11)),
    _ending("job-control", 21, "job-control shell, jobs in groups of their own", "all dead", "@job_control.sh"),
    _spawn("no-such-file", "no such file", "{directory}/nothing-here"),
    _spawn("not-executable", "not executable", "@not_executable.sh"),
    _spawn("bad-interpreter", "names an interpreter that is not there", "@bad_interpreter.sh"),
    _spawn("no-such-directory", "is to run in a directory that is not there", "/bin/true", cwd="{directory}/nowhere")
    ._replace(repeats=6),
    Row("stop-and-continue", 24, "the supervisor is stopped and continued as it starts it", "not wedged",
        Task((("/bin/true",),) * 40, timeout_s=20.0), SUCCEEDED._replace(begins=None, within_s=8.0),
        (), "stop-and-continue", repeats=12),
    Row("supervisor-terminated", 25, "the supervisor gets SIGTERM mid-run", "the handler runs, nobody left",
        Task(_run("@exits_on_term", 0, "{mark}"), timeout_s=20.0), NOBODY._replace(mark=True),
        (), "terminate", "exits_on_term"),
    Row("supervisor-interrupted", 25, "the supervisor gets SIGINT mid-run", "so does the command; nobody left",
        Task(_run("@exits_on_term", 0, "{mark}", 2), timeout_s=20.0), NOBODY._replace(mark=True),
        ("signals",), "interrupt", "exits_on_term"),
    Row("supervisor-killed", 25, "the supervisor gets SIGKILL mid-run", "nobody left",
        Task(_run("@ignores_term"), timeout_s=20.0), NOBODY, (), "kill", "ignores_term"),
    Row("nested", 26, "runs under a `holdfast run` of its own, and saves its state at SIGTERM", "saved, nobody left",
        Task(_run("{holdfast}", "run", "--quiet", "--no-pty", "--state-dir", "{directory}/inner", "--grace", "8s", "--",
                  "sh", "-c", "trap 'sleep 0.5; echo >\"$0\"; exit 0' TERM; echo ready; while :; do sleep 0.05; done",
                  "{mark}"), timeout_s=2.0, grace_s=5.0),
        TIMED_OUT._replace(mark=True, within_s=8.0), ("grace",)),
    Row("stopped-across", 11, "exits 0 a second late, while everything but the command is stopped", "timed out",
        Task(_run("@exits_at", "+2500000000", 0), timeout_s=1.5), TIMED_OUT._replace(within_s=7.0), (), "stop-across",
        "exits_at"),
    Row("killed-in-grace", 26, "the supervisor gets SIGKILL in the grace", "nobody left",
        Task(_run("@ignores_term"), timeout_s=0.6, grace_s=1.2), NOBODY, ("grace",), "kill-in-grace", "ignores_term"),
    Row("flood", 32, "256 MiB of fast output, streamed", "every byte, in bounded memory",
        Task(_run("@writes_bytes", _FLOOD), timeout_s=30.0, stream=True),
        SUCCEEDED._replace(counted=_FLOOD, within_s=30.0, peak_mib=200)),
    Row("slow-reader", 32, "2 MiB of output, then its deadline; its reader is slower", "every byte that was in time",
        Task(_run("/bin/sh", "-c", f"head -c {_SLOWLY} /dev/zero; exec sleep 60"), timeout_s=1.5, slow_reader=True,
             stream=True),
        TIMED_OUT._replace(counted=_SLOWLY, begins=None, within_s=10.0), ("reader",)),
    Row("unread-input", 33, "never reads the 1 MB on its stdin, exits 0", "succeeded",
        Task(_run("@never_reads.sh"), timeout_s=3.0, input_bytes=1 << 20), SUCCEEDED._replace(within_s=2.5),
        ("input",)),
    Row("unread-input-stays", 33, "never reads the 1 MB on its stdin, stays", "ended at the deadline",
        Task(_run("@never_reads.sh", "stay"), input_bytes=1 << 20), TIMED_OUT, ("input",)),
    Row("cancel-in-write", 33, "cancelled while its input is written", "cancelled, ended",
        Task(_run("@never_reads.sh", "stay"), timeout_s=3.0, input_bytes=1 << 20, cancel_after_s=0.5),
        CANCELLED._replace(within_s=2.5), ("input", "cancel")),
    Row("closes-output", 34, "closes stdout and stderr, runs on", "its exit code, not end of file",
        Task(_run("@closes_output", 400, 5), timeout_s=3.0), Expect(("failed",), "exit", (5,))),
    Row("dots", 35, "dots without a newline, under an idle timeout", "counts as output",
        Task(_run("@writes_dots", 8, 150), timeout_s=20.0, idle_timeout_s=0.9), SUCCEEDED, ("idle",)),
    Row("bytes", 36, "split UTF-8, NUL, invalid bytes", "byte for byte", Task(_run("@splits_bytes.sh"), timeout_s=3.0),
        SUCCEEDED._replace(begins=None, stdout=b"caf\xc3\xa9 \x00\xff\xfe\x80\xed\xa0\x80\r",
                           stderr=b"\xf0\x9f\xa6\x80\x00\xff")),
    Row("busy", 37, "silent but busy, under an idle timeout that counts CPU", "not ended",
        Task(_run("@stays_busy", 1500), timeout_s=20.0, idle_timeout_s=0.8, idle_counts="cpu"), SUCCEEDED, ("idle",)),
    Row("heartbeats", 37, "heartbeats only, under an idle timeout that counts them", "not ended",
        Task(_run("@beats", 8, 150), timeout_s=20.0, idle_timeout_s=0.9, idle_counts="heartbeat"), SUCCEEDED,
        ("idle",)),
    Row("thread-exits", 41, "the thread that started it ends", "the command lives",
        Task(_run("@exits_at", "+600000000", 6), timeout_s=4.0, thread=True), Expect(("failed",), "exit", (6,)),
        ("thread",)),
    Row("terminal", 42, "has a terminal, ignores SIGHUP and SIGTERM", "dead",
        Task(_run("@ignores_hangup", 15), pty=True), TIMED_OUT, ("pty",)),
    Row("hangs-up", 42, "has a terminal, and hangs it up itself, if it may", "its exit code",
        Task(_run("@hangs_up", 5), timeout_s=3.0, pty=True), Expect(("failed",), "exit", (5,), begins=None), ("pty",)),
    Row("descriptor", 44, "a secret descriptor is open in the supervisor", "the command sees 0 to 2 only",
        Task(_run("@lists_descriptors"), timeout_s=3.0), SUCCEEDED._replace(begins=None, check=_three_descriptors),
        (), "secret"),
    Row("blocked-loop", 47, "the event loop of the program is blocked past the deadline", "ended on time",
        Task(_run("@works_on.sh", "{mark}", 1.6), timeout_s=0.6, block_loop_s=2.0), TIMED_OUT._replace(mark=False),
        ("loop",)),
    _traced("traced-stop", "asks to be traced, then handles a signal", "its exit code", "signalled"),
    _traced("traced-exec", "asks to be traced, then executes a program", "its exit code", "execs"),
    _traced("traced-orphan", "exits 7, leaves an orphan that asks to be traced", "the code, nobody left", "orphan"),
    _traced("hidden-exit", "exits 7, traced by a child of its own that never waits", "its exit code, at once",
            "by-child"),
    starving("busy-loops", "200 busy loops that ignore SIGTERM", "@crowds", "busy", 200),
    Row("crowd", 49, "2,000 processes, each with a SIGTERM handler", "every handler runs",
        Task(_run("@crowds", "idle", 2000, "{shared}", "{mark}"), timeout_s=4.0, grace_s=5.0),
        TIMED_OUT._replace(mark=True, within_s=12.5)),
    *ATTACKS,
)  # fmt: skip

NUMBERS_ELSEWHERE = {
    23: "needs a guard that is held at the door",
    27: "needs a supervisor that comes back",
    28: "needs a process number that comes round",
    29: "needs a reboot",
    30: "needs damaged records",
    31: "needs a full disk under the records",
    38: "needs the wall clock of the machine",
    39: "needs a service",
    40: "needs sessions",
    43: "needs another user's process",
    45: "needs a service",
    46: "needs a registry",
}
