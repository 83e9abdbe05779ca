"""The user of a TCP client on this host, from the kernel's table of sockets (`/proc/net/tcp`, `/proc/net/tcp6`).

Over TCP the kernel does not tell a server who its client is. But if the client is on this host, its end of the
connection is in the table, too, with the user who made the socket. Only an established connection counts: the kernel
shows a socket that its process has closed as one of root.
"""

from __future__ import annotations

import ipaddress
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Scope

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"


def peer_of(scope: Scope) -> str | None:
    """Who the TCP client of a request is: `user N` on this host, `address A` elsewhere; None: nobody knows."""
    client, server = scope.get("client"), scope.get("server")
    if client is None or server is None or server[1] is None:
        return None
    uid = find_user((client[0], client[1]), (server[0], server[1]))
    if uid is not None:
        return f"user {uid}"
    address = _plain(ipaddress.ip_address(client[0].partition("%")[0]))
    return None if address.is_loopback else f"address {address}"


def find_user(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The user of the socket with these two ends; None: it is not on this host, or not established."""
    wanted = (_end(*local), _end(*remote))
    return next((uid for ends, uid in _sockets() if ends == wanted), None)


def _sockets() -> Iterator[tuple[tuple[str, str], int]]:
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as file:
                next(file, None)  # the titles of the columns
                for line in file:
                    words = line.split()
                    if words[3] == _ESTABLISHED:
                        yield (_table_end(words[1]), _table_end(words[2])), int(words[7])
        except OSError:  # a kernel without IPv6, or a /proc that hides it
            continue


def _end(host: str, port: int) -> str:
    return f"{_plain(ipaddress.ip_address(host.partition('%')[0]))} {port}"


def _table_end(text: str) -> str:
    """An end as the kernel writes it: the address in words of 32 bits, each in the byte order of this machine."""
    address, _, port = text.partition(":")
    raw = bytes.fromhex(address)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return f"{_plain(ipaddress.ip_address(raw))} {int(port, 16)}"


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address in an IPv6 address that stands for one: the two ends may be of different families."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
