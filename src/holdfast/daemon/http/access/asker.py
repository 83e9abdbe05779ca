"""The process that asks: whether it belongs to the run whose limits it wants to change.

A guard refuses a later deadline when its own tree asks, unless the run has a ceiling (`max_timeout`). The guard takes
the daemon for an owner, so the daemon has to refuse the tree's requests itself.

- Unix socket. The kernel names the process that connected. Its ancestors lead to the guard of its run, because a guard
  adopts what its tree leaves behind. A process that has exited counts as inside, as it does for the guard: an honest
  client waits for its answer. SO_PEERPIDFD says so even if the number was given to another process meanwhile.
- TCP on this host. `/proc/net/tcp` names the inode of the client's socket, and `/proc/PID/fd` the processes that have
  it open. A request is from outside only if every such process is outside. If no process has the socket open, the
  request counts as inside: the client has closed it, has sent it through another socket, or hides its descriptors.

A run that gets a process outside of its tree to ask (cron, a run of its own without `parent`) is not seen here: it has
all rights of the daemon's user.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from typing import TYPE_CHECKING

from ....proc.process_table import all_pids, with_ancestors
from ....values.errors import RequestError
from ....web.request_connection import PEER_PID, PEER_SOCKET

if TYPE_CHECKING:
    from starlette.types import Scope

_SO_PEERPIDFD = 77
_INSIDE = "a command may not move its own deadline"
_REMEDY = "extend it from outside, or start it with max_timeout: then it may use the time up to there"


async def check_outside(scope: Scope, guards: frozenset[int], run_id: str) -> None:
    """Refuse a request that comes from below one of these guards. RequestError."""
    is_inside = await asyncio.to_thread(_asks_from_inside, scope, guards) if guards else False
    if is_inside:
        raise RequestError(_INSIDE, run_id=run_id, remedy=_REMEDY)


def _asks_from_inside(scope: Scope, guards: frozenset[int]) -> bool:
    state = scope["state"]
    pid, connected = state.get(PEER_PID), state.get(PEER_SOCKET)
    if pid is not None:  # 0: a process outside of our PID namespace, in which the whole tree is
        # The look at the process comes after its ancestors were read: they are those of a process that still lived.
        return pid > 0 and (_is_below(pid, guards) or _has_exited(pid, connected))
    return connected is not None and _asks_over_tcp(connected, guards)


def _is_below(pid: int, guards: frozenset[int]) -> bool:
    """Whether the process is one of a tree. A parent that exits while we climb hides the rest: then it counts, too."""
    climbed = with_ancestors(pid)
    return not guards.isdisjoint(climbed) or not os.path.exists(f"/proc/{climbed[-1]}")


def _has_exited(pid: int, connected: socket.socket | None) -> bool:
    try:
        assert connected is not None
        pidfd = connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:  # a kernel before 6.5: the number alone; or the process is gone
        return not os.path.exists(f"/proc/{pid}")
    try:
        return bool(select.select([pidfd], [], [], 0)[0])
    finally:
        os.close(pidfd)


def _asks_over_tcp(connected: socket.socket, guards: frozenset[int]) -> bool:
    try:
        ours, theirs = connected.getsockname()[:2], connected.getpeername()[:2]
    except OSError:
        return True  # the client has left
    row = _row_of_peer(ours, theirs)
    if row is None:
        return _is_of_this_host(theirs[0])
    inode, uid = row
    if inode == 0:
        return True  # the client has closed its socket
    if uid != os.geteuid() and os.geteuid() != 0:
        return False  # a tree has our user; we may not look at the descriptors of another user
    wanted = f"socket:[{inode}]"
    holders = [pid for pid in all_pids() if _has_open(pid, wanted)]
    return not holders or any(_is_below(pid, guards) for pid in holders)


def _is_of_this_host(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _row_of_peer(ours: tuple[str, int], theirs: tuple[str, int]) -> tuple[int, int] | None:
    """The inode and the user of the client's socket, if the client is on this host and in our network namespace."""
    wanted = [_hex(*theirs), _hex(*ours)]
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", "rb") as rows:
                for row in rows:
                    fields = row.split()
                    if [_tail(field) for field in fields[1:3]] == wanted:
                        return int(fields[9]), int(fields[7])
        except OSError:
            continue
    return None


def _hex(host: str, port: int) -> bytes:
    """The end of an address as /proc/net/tcp has it: the last 32 bits of the host in the order of the CPU, the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last = socket.inet_pton(family, host.partition("%")[0])[-4:]
    return b"%08X:%04X" % (int.from_bytes(last, "little"), port)


def _tail(field: bytes) -> bytes:
    return field[-13:]


def _has_open(pid: int, wanted: str) -> bool:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False  # it is gone, or we may not look
    return any(_link(pid, name) == wanted for name in names)


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{name}")
    except OSError:
        return ""
