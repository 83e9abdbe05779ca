"""The rows of commands that attack their supervisor, its machine or their budgets.

The rule behind them: deadline, grace, drain, kill-wait and two seconds are the end, whatever one process of the command
does, and no answer says more than is known.
"""

from __future__ import annotations

from .expectation import Expect
from .row import SPAWN, SUCCEEDED, TIMED_OUT, Row, bound_s, run_of, starving
from .task import Task

_LINES = 4000
_LINES_BYTES = sum(10 + line * 7919 % 97 for line in range(1, _LINES + 1))  # of tests/children/writes_lines.c
_USUAL = Task(())
_ENDED = TIMED_OUT._replace(within_s=bound_s(_USUAL))
_ENDED_OR_LOST = Expect(("timed_out", "lost"), within_s=bound_s(_USUAL))
# Only one part of the supervisor goes on, and it acts twice before it gives the others up (`runs/watchdog.py`).
_TWO_MORE_STEPS_S = 0.6
_OFTEN = 2000
_STOPPING = f"i=0; while [ $i -lt {_OFTEN} ]; do kill -STOP $PPID; kill -CONT $PPID; i=$((i + 1)); done"


def _attack(name: str, child: str, *how: str, expect: Expect = _ENDED) -> Row:
    """A command that attacks the processes above it, up to the process that looks at the cell."""
    holds = "ended in time, nobody left"
    return Row(
        name, 50, child, holds, _USUAL._replace(runs=run_of("@attacks", how[0], how[1], "{cell}", *how[2:])), expect
    )


def _over_budget(name: str, child: str, need: str, task: Task, **changes: object) -> Row:
    """A command that spends more than it may."""
    expect = Expect(("failed",), "limit", within_s=bound_s(task))._replace(**changes)  # type: ignore[arg-type]
    return Row(name, 13, child, "failed, by that limit, nobody left", task, expect, (need,))


ATTACKS: tuple[Row, ...] = (
    _attack("stops-parent", "stops its parent", "stop", "parent"),
    _attack("hammers-parent", "stops its parent again and again", "hammer", "parent", expect=_ENDED_OR_LOST),
    _attack("kills-parent", "SIGKILLs its parent", "kill", "parent", expect=_ENDED_OR_LOST),
    _attack("kills-parent-hidden", "the same, and leaves a process without environment in a session of its own",
            "kill", "parent", "hidden", expect=_ENDED_OR_LOST),
    _attack("stops-grandparent", "stops its grandparent, if that is a part of the supervisor", "stop", "grandparent"),
    _attack("kills-grandparent", "SIGKILLs its grandparent, if that is a part of the supervisor", "kill",
            "grandparent"),
    _attack("stops-both", "stops parent and grandparent at once", "stop", "both"),
    _attack("hammers-both", "stops parent and grandparent again and again", "hammer", "both",
            expect=_ENDED_OR_LOST._replace(within_s=bound_s(_USUAL) + _TWO_MORE_STEPS_S)),
    _attack("kills-both", "SIGKILLs parent and grandparent at once, and leaves a process with 1 MiB of environment",
            "kill", "both", "marked", expect=_ENDED_OR_LOST._replace(begins=None))
    ._replace(interfere="large-environment"),  # nobody is left who could read its output
    Row("stops-group", 50, "stops its process group", "ended in time, nobody left",
        _USUAL._replace(runs=run_of("/bin/sh", "-c", "echo ready; kill -STOP 0; exec sleep 60")), _ENDED),
    Row("kills-group", 50, "SIGKILLs its process group", "failed, by a signal",
        Task(run_of("/bin/sh", "-c", "echo ready; kill -KILL 0"), timeout_s=2.0),
        Expect(("failed",), "signal", signal=9, within_s=2.5)),
    Row("stopped-often", 50, f"is stopped and continued {_OFTEN:,} times", "its exit code",
        Task(run_of("/bin/sh", "-c", f"echo ready; /bin/sh -c '{_STOPPING}'; exit 7"), timeout_s=6.0),
        Expect(("failed",), "exit", (7,), within_s=6.0)),
    Row("supervisor-stopped", 50, "the supervisor is stopped while its deadline passes", "ended on time",
        Task(run_of("@works_on.sh", "{mark}", 1.6)), TIMED_OUT._replace(mark=False), (), "stop-supervisor", "sleep"),
    Row("writes-across", 50, "writes lines while everything but the command is stopped", "every byte",
        Task(run_of("@writes_lines", "{shared}", _LINES, 200, 0), timeout_s=20.0, stream=True),
        SUCCEEDED._replace(counted=_LINES_BYTES, begins=None, within_s=10.0), (), "stop-across", "writes_lines"),
    Row("freezes-itself", 50, "freezes the cgroup that it is in", "ended in time, nobody left",
        _USUAL._replace(runs=run_of("@freezes_itself.sh")), _ENDED, ("leaf",)),
    starving("fork-bomb", "fork bomb under a limit of processes: each that dies is replaced", "@bombs", 150)
    ._replace(alone=True),
    starving("sibling-chains", "8 chains: each process starts its successor as a sibling and exits", "@chains", 8)
    ._replace(alone=True),
    starving("real-time", "a busy loop with a real-time priority, if it may have one", "@real_time")
    ._replace(alone=True),
    Row("silent-files", 51, "its program's file system stops answering", "its SIGTERM handler runs",
        _USUAL._replace(runs=run_of("{directory}/silent/exits_on_term", 0, "{mark}")), _ENDED._replace(mark=True),
        ("fuse", "grace"), "silence", "exits_on_term"),
    Row("text-busy", 22, "its program is open for writing", "failed to start, and said so as such",
        Task(run_of("{directory}/busy"), timeout_s=4.0), SPAWN, (), "text-busy"),
    Row("pid-namespace", 51, "the supervisor starts its children in a new PID namespace", "succeeded",
        Task(run_of("/bin/echo", "ready"), timeout_s=2.0), SUCCEEDED._replace(within_s=2.5),
        ("root", "threadless"), "pid-namespace"),
    Row("sandboxed", 51, "the program enters a sandbox (Landlock) between two runs", "so does the second run",
        Task(run_of("/bin/sh", "-c", 'echo ready; mkfifo "$0" && exit 1; exit 7', "{directory}/fifo"), timeout_s=4.0,
             sandboxed=True), Expect(("failed",), "exit", (7,)), ("sandbox",)),
    _over_budget("too-many-processes", "starts 200 processes, and may have 50", "processes",
                 Task(run_of("@crowds", "idle", 200), timeout_s=2.0, processes=50), begins=None),
    _over_budget("too-much-output", "writes 4 MiB, and may write 1 MiB", "output",
                 Task(run_of("@writes_bytes", 4 << 20), timeout_s=2.0, output_bytes=1 << 20), begins=None),
    _over_budget("too-much-cpu", "is busy, and may use 0.3 s of CPU time", "cpu",
                 Task(run_of("@stays_busy", 3000), timeout_s=2.0, cpu_s=0.3)),
)  # fmt: skip
