"""One cell: `python -m conformance.cell ROW PEER` runs one row with one peer and prints the result as JSON.

It is a process of its own and a subreaper: a process that escapes the peer comes here, is counted, and is killed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.children import Children
from tests.support.processes import become_subreaper

from .conversation import Conversation
from .expectation import Seen, judge
from .interference import Interference
from .oracle import KEPT, Leaf, left, reaping
from .peers import PEERS, apart, environment
from .places import CHILDREN, INTERPRETER, ROOT
from .rows import ROWS
from .surroundings import Surroundings

if TYPE_CHECKING:
    from .peers import Peer
    from .row import Row

_READY_S = 30.0
_ANSWER_MARGIN_S = 1.0
_LOOK_S = 0.4
_KILLED_LOOK_S = 3.0
_LEAVE_S = 4.0
_CHAIN_S = 0.2
_REPEATING_S = 10.0


def run_cell(row: Row, peer: Peer) -> dict[str, Any]:
    """Run one cell: the parts that held and the parts that did not, with what was seen."""
    become_subreaper()
    end = time.monotonic() + _REPEATING_S
    for _ in range(row.repeats):
        with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
            Path(directory, "shared").write_bytes(bytes(16))
            seen = _watch(row, peer, directory)
            findings = judge(row.expect, seen)
            answers = [_plain(answer) for answer in seen.answers]
        if findings or time.monotonic() > end:
            break
    return {
        "verdict": "failed" if findings else "held",
        "findings": [finding._asdict() for finding in findings],
        "answers": answers,
    }


def _watch(row: Row, peer: Peer, directory: str) -> Seen:
    leaf = Leaf(f"{row.name}-{os.path.basename(directory)}")
    with Surroundings(row.interfere, directory) as around:
        interference = Interference(around, leaf, _program(row, around))
        try:
            with _start(row, peer, directory, leaf, around) as adapter:
                KEPT.add(adapter.pid)
                with reaping():
                    return _look(row, adapter, leaf, interference, directory)
        finally:
            interference.undo()
            leaf.close()


def _program(row: Row, around: Surroundings) -> str | None:
    """The program that the interference waits for, as /proc names it."""
    if around.filesystem is not None:
        return str(around.filesystem.program)
    if row.program is None or (CHILDREN / row.program).exists():
        return row.program and str(CHILDREN / row.program)
    return os.path.realpath(shutil.which(row.program) or "")


def _start(row: Row, peer: Peer, directory: str, leaf: Leaf, around: Surroundings) -> subprocess.Popen[bytes]:
    def enter() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell ignores it for what it starts in the background
        leaf.enter()
        around.enter_child()

    return subprocess.Popen(
        [*peer.command(), _task(row, directory).encode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if "CONFORMANCE_DEBUG" not in os.environ else None,
        cwd=ROOT,
        env=environment() | around.environment,
        pass_fds=around.pass_fds,
        process_group=0,
        preexec_fn=enter,
    )


def _task(row: Row, directory: str) -> Any:
    children = Children(CHILDREN)
    places = {"{mark}": f"{directory}/mark", "{shared}": f"{directory}/shared", "{directory}": directory}
    places |= {"{holdfast}": str(INTERPRETER.with_name("holdfast")), "{cell}": str(os.getpid())}

    def filled(word: str) -> str:
        for name, path in places.items():
            word = word.replace(name, path)
        return children(word[1:])[0] if word.startswith("@") else word

    runs = tuple(tuple(map(filled, argv)) for argv in row.task.runs)
    cwd = filled(row.task.cwd) if row.task.cwd else None
    return row.task._replace(runs=runs, cwd=cwd, directory=directory)


def _look(row: Row, adapter: subprocess.Popen[bytes], leaf: Leaf, interference: Interference, directory: str) -> Seen:
    assert adapter.stdin is not None
    assert adapter.stdout is not None
    talk = Conversation(adapter.stdout.fileno())
    hung = None
    found = []
    if not talk.until_ready(_READY_S, names_supervisor=row.interfere is not None):
        raise RuntimeError("the adapter did not get ready")
    interference.act(adapter.pid, talk.supervisor, partial(talk.has_answered, len(row.task.runs)))
    if row.expect.statuses:
        for _ in row.task.runs:
            limit_s = row.expect.within_s + _ANSWER_MARGIN_S
            answer = talk.answer(limit_s)
            if answer is None:
                hung = f"no answer within {row.expect.within_s:g} s" if not talk.ended else "the adapter died"
                break
            found.append(answer)
    peak_mib = leaf.peak_mib()
    others = left(leaf, apart(), _LOOK_S if row.expect.statuses else _KILLED_LOOK_S)
    grows = _grows(Path(directory, "shared"))
    interference.undo()
    leaf.thaw()
    adapter.stdin.close()
    later = _leave(adapter, leaf) if not others and hung is None and row.expect.left else []
    if adapter.poll() is None:
        adapter.kill()
    adapter.wait()
    peak_mib = max(peak_mib, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
    return Seen(found, others, later, Path(directory, "mark").exists(), peak_mib, grows, hung)


def _grows(shared: Path) -> bool:
    """Whether a chain that counts in shared memory goes on; its processes are too short-lived to be seen for sure."""
    before = shared.read_bytes()
    if before == bytes(len(before)):
        return False
    time.sleep(_CHAIN_S)
    return shared.read_bytes() != before


def _leave(adapter: subprocess.Popen[bytes], leaf: Leaf) -> list[Any]:
    """End the adapter; now every process counts, programs of the peer included."""
    try:
        adapter.wait(_LEAVE_S)
    except subprocess.TimeoutExpired:
        return []  # the adapter gave its answer; whether it can also leave is not judged here
    return left(leaf, frozenset(), _LEAVE_S)


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    """The text for the results, without temporary paths."""
    return {name: answer[name] for name in ("status", "cause", "exit_code", "signal", "note")} | {
        "seconds": round(answer["seconds"], 2)
    }


def main() -> None:
    """Run the cell that the arguments name."""
    row = next(row for row in ROWS if row.name == sys.argv[1])
    peer = next(peer for peer in PEERS if peer.name == sys.argv[2])
    print(json.dumps(run_cell(row, peer)))


if __name__ == "__main__":
    main()
