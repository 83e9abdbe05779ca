"""Listening sockets: the TCP ports on which processes wait for connections, from `/proc`.

The kernel lists the listening sockets of each network namespace, and the descriptors of each process. A process listens
on a port if one of its descriptors is such a socket. So a socket that two processes share is a listener of both.

A look never reads the memory of a process or a file system that a command could choose, so no command can make it wait.
It has bounds. `complete` is False when a bound was reached, or when the kernel hides a process from this user: then
there may be ports that the look has not found.
"""

from __future__ import annotations

import os

from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from .listening_sockets import listening_sockets
from .process_table import all_pids, read_proc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .listening_sockets import Sockets

MOST_PROCESSES = 1000
_MOST_FILES = 16384  # descriptors of one process


class PortListener(NamedTuple):
    """A process that listens on a TCP port. `address` is the one it is bound to, `0.0.0.0` or `::` for all."""

    port: int
    address: str
    pid: int

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


class PortsSeen(NamedTuple):
    """The result of one look: the listeners by port, and whether there can be no others."""

    found: tuple[PortListener, ...]
    complete: bool

    @property
    def ports(self) -> list[int] | None:
        """The ports, each once, in order; None when none was found and there may be some."""
        found = sorted({one.port for one in self.found})
        return found if found or self.complete else None


def listeners_of(pids: Iterable[int]) -> PortsSeen:
    """The listeners among these processes. For one process with few descriptors this takes about 0.3 ms."""
    sockets: dict[str, Sockets] = {}  # of each network namespace
    found: set[PortListener] = set()
    complete = True
    for number, pid in enumerate(pids):
        if number >= MOST_PROCESSES:
            complete = False
            break
        try:
            namespace = os.readlink(f"/proc/{pid}/ns/net")
            if namespace not in sockets:
                sockets[namespace] = listening_sockets(pid, namespace)
            if sockets[namespace]:
                files, is_all = _files(pid)
                complete = complete and is_all
                found.update(PortListener(*sockets[namespace][file], pid) for file in files & sockets[namespace].keys())
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process is gone, and its sockets with it
        except OSError:
            complete = False
    return PortsSeen(tuple(sorted(found)), complete)


def listeners_on(port: int) -> PortsSeen:
    """The listeners on this port among all processes that this process can see."""
    seen = listeners_of(all_pids())
    return PortsSeen(tuple(one for one in seen.found if one.port == port), seen.complete)


def describe_listeners(port: int) -> str:
    """The processes that listen on this port, in words; empty when none can be seen."""
    pids = sorted({one.pid for one in listeners_on(port).found})
    return " and ".join(f"process {pid} ({name_of(pid)})" for pid in pids)


def name_of(pid: int) -> str:
    """The name of a process, as the kernel keeps it; empty when it is gone. The process can choose any text."""
    # Not its command line: that is in its memory, and reading it can wait for a file system that the process chose.
    text = read_proc(f"{pid}/comm").rstrip(b"\n").decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "?" for character in text)


def _files(pid: int) -> tuple[set[str], bool]:
    """The files behind the descriptors of a process, as the kernel names them, and whether these are all."""
    found: set[str] = set()
    with os.scandir(f"/proc/{pid}/fd") as entries:
        for number, entry in enumerate(entries):
            if number >= _MOST_FILES:
                return found, False
            try:
                found.add(os.readlink(entry.path))
            except FileNotFoundError:
                continue  # closed meanwhile
    return found, True
