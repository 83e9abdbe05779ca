"""Telling the service manager how we are: sd_notify's protocol, a datagram of NAME=VALUE lines.

Without NOTIFY_SOCKET, or when nobody takes it, nothing happens: a service manager that is not there needs no news.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Notifier:
    """Sends to the socket that the environment names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_s = _watchdog_s(environ)

    def ready(self, status: str) -> None:
        """The daemon serves."""
        self._send("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """One line for people (`systemctl status`)."""
        self._send(f"STATUS={status}")

    def reloading(self) -> None:
        """The settings are read again; `ready` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str, takes_s: float) -> None:
        """The daemon is on its way out, and may take this long from now: whatever limit there is moves."""
        self._send("STOPPING=1", f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={round(takes_s * 1e6)}")

    def watchdog(self) -> None:
        """Still alive."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        name = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        text = "\n".join(" ".join(line.splitlines()) for line in lines)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(), name)
        except OSError:
            pass


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """How often to say that we are alive: half of what we are given; None: nobody wants to know."""
    given, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not given.isdigit() or (pid.isdigit() and int(pid) != os.getpid()):
        return None
    return int(given) / 2e6 or None
