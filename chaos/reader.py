"""`python -m chaos.reader STATE`: another program that uses the state directory: it cancels, sweeps and lists.

`cancel ID` and `close SESSION` come in on stdin; in between it sweeps, which brings the index up to date as well.
`answered ID HOW`, `swept FINISHED REAPED` and `defect TEXT` go out.
"""

from __future__ import annotations

import logging
import os
import select
import sys

from holdfast.state import parallel_stop, sessions
from holdfast.state.directory import StateDirectory
from holdfast.state.upkeep.sweep import Sweeper

_INTERVAL_MS = 300


def say(*words: object) -> None:
    """One line to the driver, at once."""
    os.write(1, (" ".join(map(str, words)).replace("\n", " ") + "\n").encode())


def main() -> None:
    """Be the reader that the arguments describe."""
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # lost guards are normal here
    logging.getLogger("holdfast").propagate = False
    state = StateDirectory.open(sys.argv[1])
    sweeper = Sweeper(state, age_s=5.0)
    rest, poll = b"", select.poll()
    poll.register(0, select.POLLIN)
    while True:
        if not poll.poll(_INTERVAL_MS):
            sweep(sweeper)
            continue
        data = os.read(0, 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        obey(state, [line.decode().split() for line in lines])


def sweep(sweeper: Sweeper) -> None:
    """Sweep once; report everything that the sweep calls a defect of Holdfast."""
    swept = sweeper.sweep()
    if swept.finished or swept.reaped:
        say("swept", len(swept.finished), len(swept.reaped))
    for problem in swept.problems:
        if "defect in Holdfast" in problem:
            say("defect", problem)


def obey(state: StateDirectory, orders: list[list[str]]) -> None:
    """Cancel runs, many at once, and close sessions."""
    run_ids = [words[1] for words in orders if words[0] == "cancel"]
    for stopped in parallel_stop.stop_all(state, run_ids, reason="chaos") if run_ids else []:
        say("answered", stopped.run_id, stopped.how, stopped.problem or "")
    for words in orders:
        if words[0] == "close":
            for stopped in sessions.close(state, words[1]).runs:
                say("answered", stopped.run_id, stopped.how, stopped.problem or "")


if __name__ == "__main__":
    main()
