"""Processes of runs that nobody looks after any more: found by their token or their cgroup, ended by identity.

Who belongs to a run. A process whose environment at its start carried HOLDFAST_RUN_ID, or that is in a cgroup
`holdfast-RUN_ID` in one of the places where we would make them. The second kind counts for a run of this state
directory, or when the id is one that we make ourselves; a cgroup of any other name may be anybody's.

Who is looked after. A guard is found by its command line (`holdfast-guard RUN_ID`), wherever its journal is: runs of
other programs are in no state directory. For runs of this one the lock on the journal counts as well. Candidates are
collected first, guards after that, and then the candidates are looked at once more: a guard that ends in between ends
its processes before itself, so what is still there was left.

Who is never a target, besides PID 0, init and ourselves: our own run and our ancestors; what carries the token of the
process at the top of its own family (the guard is then outside of this PID namespace, and alive for all we know); what
a run left on purpose (`stragglers=leave`); and processes of other users, which are reported only.

Ending one. It is pinned by a pidfd, then its identity (PID, start time, boot) and its mark are compared once more, then
SIGKILL goes to the pidfd: to the process that was found, or to nobody.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from ...guard.leaves import runs_by_member
from ...proc.process_table import all_pids, read_proc, uid_of, with_ancestors
from ...values.identity import ProcessIdentity, is_alive, is_safe_target, is_same, read_identity
from ...values.run_id import ALPHABET
from .guard_census import GuardCensus, live_guards, token_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..directory import StateDirectory

_OWN_ID_LENGTH = 20


class Orphan(NamedTuple):
    """A live process without a guard. `known`: its run is of this state directory."""

    identity: ProcessIdentity
    run_id: str
    command: str
    evidence: str  # "environment" or "cgroup"; "record" when its run's journal has its identity
    known: bool
    uid: int

    @property
    def pid(self) -> int:
        """Its PID, for people."""
        return self.identity.pid

    @property
    def why_not(self) -> str | None:
        """Why it is not ours to end; None when it is."""
        return None if self.uid == os.geteuid() else f"it belongs to user {self.uid}"


class ReapedOrphan(NamedTuple):
    """What became of an orphan: `gone` (confirmed), `survivor`, or `refused` with the reason."""

    orphan: Orphan
    how: str
    why: str | None = None


class _MarkedProcess(NamedTuple):
    """A process with marks of runs: its token, and its cgroups from the outside to the inside."""

    identity: ProcessIdentity
    token: str | None
    leaves: tuple[str, ...]


def find(state: StateDirectory | None) -> list[Orphan]:
    """Every orphan that can be seen, by PID. What hides its environment and is in no cgroup of ours is not found."""
    leaves = runs_by_member()
    candidates = [seen for pid in all_pids() if (seen := _look(pid, leaves.get(pid, ()))) is not None]
    accounts = GuardCensus(state)  # after the candidates: see above
    ours = _own_family()
    found = []
    for seen in candidates:
        run_id = next((run_id for run_id in _ids(seen) if accounts.is_orphaned(run_id)), None)
        if run_id is None or seen.identity.pid in ours or not is_safe_target(seen.identity.pid):
            continue
        if _counts(seen, run_id, accounts) and not _is_rooted_in(seen, run_id) and is_alive(seen.identity) is True:
            found.append(_orphan(seen, run_id, known=accounts.of(run_id) != "unknown"))
    return found


def reap(orphans: Iterable[Orphan], *, within_s: float = 5.0) -> list[ReapedOrphan]:
    """End these processes; blocks until they are gone or `within_s` is over. What goes wrong is in the answer."""
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
    # The mark before and after the identity: so they belong to one process.
    return None if identity is None or token_of(pid) != token else _MarkedProcess(identity, token, leaves)


def _orphan(seen: _MarkedProcess, run_id: str, *, known: bool) -> Orphan:
    pid = seen.identity.pid
    words = read_proc(f"{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ")
    command = words[:200].decode("utf-8", "backslashreplace")
    evidence = "environment" if seen.token == run_id else "cgroup"
    return Orphan(seen.identity, run_id, command, evidence, known, uid_of(pid))


def _ids(seen: _MarkedProcess) -> Iterator[str]:
    """From the outside to the inside: what is in the cgroup of an orphaned run is its orphan, whatever it is itself."""
    yield from seen.leaves
    if seen.token is not None and seen.token not in seen.leaves:
        yield seen.token


def _counts(seen: _MarkedProcess, run_id: str, accounts: GuardCensus) -> bool:
    if seen.token == run_id or accounts.of(run_id) != "unknown":
        return True
    return len(run_id) == _OWN_ID_LENGTH and set(run_id) <= set(ALPHABET)


def _is_rooted_in(seen: _MarkedProcess, run_id: str) -> bool:
    return token_of(with_ancestors(seen.identity.pid)[-1]) == run_id


def _own_family() -> frozenset[int]:
    return frozenset(with_ancestors(os.getpid()))


def _refusal(orphan: Orphan, guards: frozenset[str], ours: frozenset[int]) -> str | None:
    if not is_safe_target(orphan.pid) or orphan.pid in ours:
        return "it is no target"
    return "a guard looks after its run now" if orphan.run_id in guards else orphan.why_not


def _kill(orphan: Orphan) -> int | ReapedOrphan:
    """SIGKILL, if it is still the same and still marked; the pidfd, to wait for its end."""
    try:
        pidfd = os.pidfd_open(orphan.pid)
    except ProcessLookupError:
        return ReapedOrphan(orphan, "gone")
    except OSError as error:
        return ReapedOrphan(orphan, "refused", os.strerror(error.errno or 0))
    try:
        # Pinned. If this number is that process now, then so is what the pidfd means.
        now = read_identity(orphan.pid)
        if now is None or is_same(now, orphan.identity) is False:
            answer = ReapedOrphan(orphan, "gone")  # its number may be a stranger's, who is left alone
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
        return True  # its guard wrote down who it is, and that has just been compared
    if orphan.evidence == "environment":
        return token_of(orphan.pid) == orphan.run_id
    return orphan.run_id in runs_by_member().get(orphan.pid, ())


def _wait_gone(orphan: Orphan, pidfd: int, deadline: float) -> ReapedOrphan:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    gone = bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
    os.close(pidfd)
    return ReapedOrphan(orphan, "gone") if gone else ReapedOrphan(orphan, "survivor", "SIGKILL did not end it")
