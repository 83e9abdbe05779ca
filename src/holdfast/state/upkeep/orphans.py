"""Orphans: processes of runs without a guard, found by token or cgroup, and killed by identity.

Which processes belong to a run. A process belongs to a run if its environment at its start carried HOLDFAST_RUN_ID, or
if it is in a cgroup `holdfast-RUN_ID` where Holdfast makes cgroups. The cgroup counts only for runs of this state
directory, and for ids of the form that Holdfast makes: a cgroup of any other name may belong to another program.

Which runs have a guard. A guard is found by its command line (`holdfast-guard RUN_ID`), wherever its journal is: a run
of the library may have no state directory. For runs of this state directory the lock on the journal counts as well. We
list the candidates first and the guards after that, and then check each candidate once more. A guard that ends in
between ends its processes before itself, so a process that is still there was left behind.

Which processes are never a target, besides PID 0, init and ourselves:
- our own run and our ancestors;
- a process whose topmost visible ancestor carries the same token: its guard is outside of this PID namespace, and may
  be alive;
- the stragglers that a run left on purpose (`stragglers=leave`);
- processes of other users, which are only reported.

Killing one. We open a pidfd, compare the identity (PID, start time, boot) and the mark once more, and send SIGKILL
through the pidfd. So the signal reaches the process that was found, or no process.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from ...guard.leaves import runs_by_member
from ...proc.process_table import all_pids, uid_of, with_ancestors
from ...values.identity import ProcessIdentity, is_alive, is_safe_target, is_same, read_identity
from ...values.process_memory import command_line
from ...values.run_id import ALPHABET
from .guard_census import GuardCensus, live_guards, token_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..directory import StateDirectory

_OWN_ID_LENGTH = 20


class Orphan(NamedTuple):
    """A live process whose run has no guard. `known`: the run is in this state directory."""

    identity: ProcessIdentity
    run_id: str
    command: str
    evidence: str  # "environment", "cgroup", or "record": the run's journal has its identity
    known: bool
    uid: int

    @property
    def pid(self) -> int:
        """The PID of the process."""
        return self.identity.pid

    @property
    def why_not(self) -> str | None:
        """Why we may not kill it; None when we may."""
        return None if self.uid == os.geteuid() else f"it belongs to user {self.uid}"


class ReapedOrphan(NamedTuple):
    """The result for one orphan: `gone` (confirmed), `survivor`, or `refused` with the reason."""

    orphan: Orphan
    how: str
    why: str | None = None


class _MarkedProcess(NamedTuple):
    """A process with marks of runs: its token, and its cgroups, the outermost first."""

    identity: ProcessIdentity
    token: str | None
    leaves: tuple[str, ...]


def find(state: StateDirectory | None) -> list[Orphan]:
    """All visible orphans, by PID. A process in no cgroup of ours that hides its environment is not found."""
    leaves = runs_by_member()
    candidates = [seen for pid in all_pids() if (seen := _look(pid, leaves.get(pid, ()))) is not None]
    census = GuardCensus(state)  # after the candidates: see the module's docstring
    ours = _own_family()
    found = []
    for seen in candidates:
        run_id = next((run_id for run_id in _ids(seen) if census.is_orphaned(run_id)), None)
        if run_id is None or seen.identity.pid in ours or not is_safe_target(seen.identity.pid):
            continue
        if _counts(seen, run_id, census) and not _is_rooted_in(seen, run_id) and is_alive(seen.identity) is True:
            found.append(_orphan(seen, run_id, known=census.of(run_id) != "unknown"))
    return found


def reap(orphans: Iterable[Orphan], *, within_s: float = 5.0) -> list[ReapedOrphan]:
    """Kill these processes; blocks until they are gone, or `within_s` is over. A failure is in the result."""
    deadline = time.monotonic() + within_s
    guards, ours = live_guards(), _own_family()
    results: list[ReapedOrphan] = []
    pinned: list[tuple[Orphan, int]] = []
    for orphan in orphans:
        why = _refusal(orphan, guards, ours)
        answer = _kill(orphan) if why is None else ReapedOrphan(orphan, "refused", why)
        if isinstance(answer, int):
            pinned.append((orphan, answer))
        else:
            results.append(answer)
    return results + [_wait_gone(orphan, pidfd, deadline) for orphan, pidfd in pinned]


def _look(pid: int, leaves: tuple[str, ...]) -> _MarkedProcess | None:
    token = token_of(pid)
    if token is None and not leaves:
        return None
    identity = read_identity(pid)
    # The same token before and after reading the identity: so both belong to one process.
    return None if identity is None or token_of(pid) != token else _MarkedProcess(identity, token, leaves)


def _orphan(seen: _MarkedProcess, run_id: str, *, known: bool) -> Orphan:
    pid = seen.identity.pid
    words = command_line(pid).rstrip(b"\0").replace(b"\0", b" ")
    command = words[:200].decode("utf-8", "backslashreplace")
    evidence = "environment" if seen.token == run_id else "cgroup"
    return Orphan(seen.identity, run_id, command, evidence, known, uid_of(pid))


def _ids(seen: _MarkedProcess) -> Iterator[str]:
    """The runs of a process, the outermost first: a nested run in the cgroup of an orphaned run is orphaned, too."""
    yield from seen.leaves
    if seen.token is not None and seen.token not in seen.leaves:
        yield seen.token


def _counts(seen: _MarkedProcess, run_id: str, census: GuardCensus) -> bool:
    if seen.token == run_id or census.of(run_id) != "unknown":
        return True
    return len(run_id) == _OWN_ID_LENGTH and set(run_id) <= set(ALPHABET)


def _is_rooted_in(seen: _MarkedProcess, run_id: str) -> bool:
    return token_of(with_ancestors(seen.identity.pid)[-1]) == run_id


def _own_family() -> frozenset[int]:
    return frozenset(with_ancestors(os.getpid()))


def _refusal(orphan: Orphan, guards: frozenset[str], ours: frozenset[int]) -> str | None:
    if not is_safe_target(orphan.pid) or orphan.pid in ours:
        return "it must not be killed: it is init, this process, or one of its ancestors"
    return "a guard looks after its run now" if orphan.run_id in guards else orphan.why_not


def _kill(orphan: Orphan) -> int | ReapedOrphan:
    """Send SIGKILL if it is the same process and still marked; returns a pidfd to wait for its end, or the result."""
    try:
        pidfd = os.pidfd_open(orphan.pid)
    except ProcessLookupError:
        return ReapedOrphan(orphan, "gone")
    except OSError as error:
        return ReapedOrphan(orphan, "refused", os.strerror(error.errno or 0))
    try:
        # The pidfd pins a process. If the PID is that of the orphan now, so is the pidfd.
        now = read_identity(orphan.pid)
        if now is None or is_same(now, orphan.identity) is False:
            answer = ReapedOrphan(orphan, "gone")  # another process may have its PID now, and is left alone
        elif is_same(now, orphan.identity) is None or not _is_marked(orphan):
            answer = ReapedOrphan(orphan, "refused", "it does not carry the mark of its run any more")
        else:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            return pidfd
    except ProcessLookupError:
        answer = ReapedOrphan(orphan, "gone")
    except OSError as error:
        answer = ReapedOrphan(orphan, "refused", os.strerror(error.errno or 0))
    os.close(pidfd)
    return answer


def _is_marked(orphan: Orphan) -> bool:
    if orphan.evidence == "record":
        return True  # the guard recorded its identity, which has just been compared
    if orphan.evidence == "environment":
        return token_of(orphan.pid) == orphan.run_id
    return orphan.run_id in runs_by_member().get(orphan.pid, ())


def _wait_gone(orphan: Orphan, pidfd: int, deadline: float) -> ReapedOrphan:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    gone = bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
    os.close(pidfd)
    return ReapedOrphan(orphan, "gone") if gone else ReapedOrphan(orphan, "survivor", "SIGKILL did not end it")
