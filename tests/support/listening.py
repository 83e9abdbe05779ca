"""Commands that listen on a TCP port of loopback and say which: `ready port=N`."""

from __future__ import annotations

import socket
import sys

# argv: how, then the port (0: any). "plain" listens itself; "daemon" leaves it to a daemonised grandchild.
_LISTENS = """
import os, socket, sys, signal
how, port, host = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if how == "daemon":
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(read)
    else:
        os.wait()
        os.close(write)
        print(os.read(read, 100).decode(), end="", flush=True)
        signal.pause()
        os._exit(0)
listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((host, port))
if how != "silent":
    listener.listen(8)
line = f"ready port={listener.getsockname()[1]} pid={os.getpid()}\\n".encode()
os.write(write if how == "daemon" else 1, line)
signal.pause()
"""


def listens(how: str = "plain", port: int = 0, host: str = "127.0.0.1") -> list[str]:
    """A command that listens there until it is killed. `silent` binds the port and does not listen."""
    return [sys.executable, "-S", "-c", _LISTENS, how, str(port), host]


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
