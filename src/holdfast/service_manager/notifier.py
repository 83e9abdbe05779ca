"""Notifications to the service manager: the sd_notify protocol, datagrams of NAME=VALUE lines.

Without NOTIFY_SOCKET, or when the socket takes no datagram, nothing is sent: there is no service manager to tell.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Notifier:
    """Sends notifications to the socket that the environment names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_s = _watchdog_s(environ)

    def ready(self, status: str) -> None:
        """Notify that the daemon is ready to serve."""
        self._send("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """Set the status line that people see (`systemctl status`)."""
        self._send(f"STATUS={status}")

    def ended(self, status: str, exit_status: int) -> None:
        """The program is about to end with this exit status. systemd only shows the two, it decides nothing by them."""
        self._send(f"STATUS={status}", f"EXIT_STATUS={exit_status}")

    def reloading(self) -> None:
        """Notify that the daemon reads its settings again; `ready` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str, takes_s: float) -> None:
        """Notify that the shutdown has begun and may take this long; the service manager then moves its own limit."""
        self._send("STOPPING=1", f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={round(takes_s * 1e6)}")

    def watchdog(self) -> None:
        """Tell the watchdog that the daemon is alive."""
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
    """How often to notify the watchdog: half of its limit. None: there is no watchdog."""
    given, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not given.isdigit() or (pid.isdigit() and int(pid) != os.getpid()):
        return None
    return int(given) / 2e6 or None
