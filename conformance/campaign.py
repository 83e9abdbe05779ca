"""Run all cells, four at a time, each in a process of its own, some alone; skip rows that a peer has no notion of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.support.freezer import why_no_freezer
from tests.support.silent_filesystem import why_no_fuse

from holdfast.guard import containment

from .adapters import sandbox
from .peers import REASONS, environment
from .places import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.progress import Progress

    from .peers import Peer
    from .row import Row

_AT_ONCE = 4
_TOO_LONG_S = 120
Cells = dict[str, dict[str, dict[str, Any]]]  # by row, by peer


def carry_out(rows: Sequence[Row], peers: Sequence[Peer], progress: Progress) -> Cells:
    """Run every cell and return its results."""
    lock = threading.Lock()

    def one(row: Row, peer: Peer) -> dict[str, Any]:
        with lock:
            progress.step(row.name, peer.name)
        return _cell(row, peer)

    absent = {peer.name: why for peer in peers if (why := _why_absent(peer))}
    missing = _missing_here()
    cells: Cells = {row.name: {peer.name: {} for peer in peers} for row in rows}
    waiting = []
    for row in rows:
        for peer in peers:
            if peer.name in absent:
                cells[row.name][peer.name] = {"verdict": "absent", "reason": absent[peer.name]}
            elif lacking := [need for need in row.needs if need in peer.lacks | missing.keys()]:
                reason = missing.get(lacking[0], REASONS[lacking[0]])
                cells[row.name][peer.name] = {"verdict": "not applicable", "reason": reason}
            else:
                waiting.append((row, peer))
    for at_once, is_alone in ((_AT_ONCE, False), (1, True)):
        _together(at_once, [cell for cell in waiting if cell[0].alone is is_alone], one, cells)
    return cells


def _together(
    at_once: int, waiting: list[tuple[Row, Peer]], run: Callable[[Row, Peer], dict[str, Any]], cells: Cells
) -> None:
    with ThreadPoolExecutor(at_once) as pool:
        running = [(row, peer, pool.submit(run, row, peer)) for row, peer in waiting]
        try:
            for row, peer, cell in running:
                cells[row.name][peer.name] = cell.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)  # cells that run end, and clean up after themselves
            raise


def count(rows: Sequence[Row], peers: Sequence[Peer]) -> int:
    """How many cells will run."""
    missing = _missing_here()
    there = [peer for peer in peers if not _why_absent(peer)]
    return sum(not set(row.needs) & (peer.lacks | missing.keys()) for row in rows for peer in there)


def versions(peers: Sequence[Peer]) -> dict[str, str | None]:
    """The version of each peer; None for an absent one."""
    return {peer.name: None if _why_absent(peer) else peer.find() for peer in peers}


def _cell(row: Row, peer: Peer) -> dict[str, Any]:
    command = [sys.executable, "-m", "conformance.cell", row.name, peer.name]
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=_TOO_LONG_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"verdict": "broken", "reason": f"no result within {_TOO_LONG_S} s"}
    if done.returncode:
        # The pack itself failed: this says nothing about the peer, and the page shows it.
        lines = done.stderr.strip().splitlines()
        return {"verdict": "broken", "reason": lines[-1] if lines else f"exit code {done.returncode}"}
    cell: dict[str, Any] = json.loads(done.stdout)
    return cell | {"took_s": round(time.monotonic() - began, 1)}


def _why_absent(peer: Peer) -> str | None:
    try:
        peer.find()
    except LookupError as reason:
        return str(reason.args[0])
    return None


def _missing_here() -> dict[str, str]:
    """The needs of rows that this machine does not meet."""
    found = {}
    if why_not := why_no_freezer():
        found["freezer"] = why_not
    place = containment.probe()
    if place.memory_base is None and not place.controls:
        found["memory"] = "no memory controller on this machine"
    if place.cgroup_base is None:
        found["leaf"] = REASONS["leaf"]
    if why_not := sandbox.why_none():
        found["sandbox"] = why_not
    if os.geteuid() != 0:
        found["root"] = REASONS["root"]
    if os.geteuid() != 0 or why_no_fuse():
        found["fuse"] = REASONS["fuse"]
    return found
