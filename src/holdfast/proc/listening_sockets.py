"""The listening TCP sockets of a network namespace: port, address and inode of each.

For our own namespace the kernel answers a netlink request (`sock_diag`) with the listening sockets only: about 0.2 ms.
A process in another namespace has `/proc/PID/net/tcp`. To read that file the kernel walks its table of all connections,
which takes milliseconds. It is also read where the kernel has no `sock_diag`.
"""

from __future__ import annotations

import os
import sys
from _socket import AF_INET, AF_INET6, AF_NETLINK, SOCK_CLOEXEC, SOCK_RAW, inet_ntop, socket
from struct import Struct

from ..values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FAMILIES = ((AF_INET, "tcp"), (AF_INET6, "tcp6"))
_MOST_BYTES = 4 << 20  # of one answer
_WITHIN_S = 1.0
_TCP, _LISTEN = 6, 10
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_MESSAGE = Struct("=IHHII")
_QUESTION = Struct("=BBBxI48x")  # inet_diag_req_v2: family, protocol, extensions, states, and no socket
_ANSWER = Struct("=4xH2x16s28x16xI")  # inet_diag_msg: port and address of the local end, and the inode

# Port and address by the name that a descriptor of the socket has in /proc/PID/fd.
Sockets = dict[str, tuple[int, str]]


def own_namespace() -> str:
    """The network namespace of this process, as the kernel names it."""
    return os.readlink("/proc/self/ns/net")


def listening_sockets(pid: int, namespace: str) -> Sockets:
    """The listening sockets in the network namespace of this process. OSError: the kernel does not list them."""
    if namespace == own_namespace():
        try:
            return {f"socket:[{inode}]": (port, address) for port, address, inode in _ask_kernel()}
        except OSError:
            pass  # a kernel or a sandbox without sock_diag
    return {f"socket:[{inode}]": (port, address) for port, address, inode in _read_files(pid)}


def _ask_kernel() -> Iterator[tuple[int, str, int]]:
    for family, _ in _FAMILIES:
        for message in _dump(_QUESTION.pack(family, _TCP, 0, 1 << _LISTEN)):
            port, address, inode = _ANSWER.unpack_from(message)
            size = 4 if family == AF_INET else 16
            yield int.from_bytes(port.to_bytes(2, sys.byteorder), "big"), inet_ntop(family, address[:size]), inode


def _dump(question: bytes) -> list[bytes]:
    asking = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    try:
        asking.settimeout(_WITHIN_S)
        asking.send(_MESSAGE.pack(_MESSAGE.size + len(question), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + question)
        found: list[bytes] = []
        while sum(map(len, found)) < _MOST_BYTES:
            data = asking.recv(65536)
            while data:
                length, kind, *_ = _MESSAGE.unpack_from(data)
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise OSError(-int.from_bytes(data[16:20], sys.byteorder, signed=True), "sock_diag")
                found.append(data[_MESSAGE.size : length])
                data = data[(length + 3) & ~3 :]
        return found
    finally:
        asking.close()


def _read_files(pid: int) -> Iterator[tuple[int, str, int]]:
    for family, name in _FAMILIES:
        for line in _listening_lines(f"/proc/{pid}/net/{name}"):
            fields = line.split()
            address, _, port = fields[1].partition(b":")
            yield int(port, 16), _address(family, address), int(fields[9])


def _listening_lines(path: str) -> list[bytes]:
    """The lines of the listening sockets. The kernel lists them before all others, so the rest is not read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []  # the process is gone, or the kernel has no IPv6
    try:
        data = b""
        while len(data) < _MOST_BYTES and (part := os.read(fd, 65536)):
            data += part
            lines = _whole_lines(data)
            if lines and not _is_listening(lines[-1]):
                break
    finally:
        os.close(fd)
    return [line for line in _whole_lines(data) if _is_listening(line)]


def _whole_lines(data: bytes) -> list[bytes]:
    return data[: data.rfind(b"\n") + 1].splitlines()[1:]  # the first line has the titles


def _is_listening(line: bytes) -> bool:
    fields = line.split(None, 4)
    return len(fields) > 4 and int(fields[3], 16) == _LISTEN


def _address(family: int, text: bytes) -> str:
    """An address of the file, which has it in words of four bytes of this machine's byte order."""
    data = bytes.fromhex(text.decode("ascii"))
    if sys.byteorder == "little":
        data = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return inet_ntop(family, data)
