"""supervisord with `stopasgroup` and `killasgroup`, driven over its socket. It has no deadlines: the caller stops."""

from __future__ import annotations

import http.client
import math
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import xmlrpc.client
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.adapters.serving import say, serve
from conformance.task import Answer, decode, ended, stopped

if TYPE_CHECKING:
    from conformance.task import Task

_LOOK_S = 0.01
_START_S = 20.0
_DAEMON = """[supervisord]
nodaemon=true
logfile={directory}/supervisord.log
pidfile={directory}/supervisord.pid
childlogdir={directory}
[unix_http_server]
file={directory}/supervisord.sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""
_PROGRAM = """[program:p{number}]
command={command}
directory={cwd}
autostart=false
autorestart=false
startsecs=0
startretries=0
stopwaitsecs={grace}
stopasgroup=true
killasgroup=true
stdout_logfile={directory}/{number}.stdout
stderr_logfile={directory}/{number}.stderr
stdout_logfile_maxbytes=0
stderr_logfile_maxbytes=0
"""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class _Transport(xmlrpc.client.Transport):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:  # noqa: ARG002 - the socket is the host
        return _Connection(self.path)


class Daemon:
    """One supervisord for the task, with a program for each command."""

    def __init__(self, task: Task) -> None:
        self.task = task
        directory = task.directory
        config = Path(directory, "supervisord.conf")
        config.write_text(_DAEMON.format(directory=directory) + "".join(map(self._program, range(len(task.runs)))))
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(config)]
        silent = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent, close_fds=False)
        transport = _Transport(f"{directory}/supervisord.sock")
        self.calls: Any = xmlrpc.client.ServerProxy("http://localhost", transport=transport).supervisor
        end = time.monotonic() + _START_S
        while not self._is_up() and time.monotonic() < end:
            time.sleep(_LOOK_S)
        say({"supervisor": self.process.pid})

    def _program(self, number: int) -> str:
        task = self.task
        return _PROGRAM.format(
            number=number, command=shlex.join(task.runs[number]).replace("%", "%%"), cwd=task.cwd or os.getcwd(),
            grace=math.ceil(task.grace_s), directory=task.directory,
        )  # fmt: skip

    def _is_up(self) -> bool:
        try:
            return bool(self.calls.getState()["statename"] == "RUNNING")
        except (OSError, http.client.HTTPException):
            return False

    def run(self, task: Task, argv: list[str], place: str) -> Answer:  # noqa: ARG002
        """Start a program, wait, and stop it when its time is up."""
        name = f"p{os.path.basename(place)}"
        try:
            self.calls.startProcess(name, False)
        except xmlrpc.client.Fault as fault:
            # supervisord says "could not be started" if a program fails before the call returns.
            if not self._has_run(name):
                return Answer("failed", "spawn", note=fault.faultString)
        end = time.monotonic() + task.timeout_s
        while (info := self.calls.getProcessInfo(name))["statename"] in ("STARTING", "RUNNING"):
            if time.monotonic() >= end and self._stop(name):
                return stopped("timed_out", None, **_counted(task, place))
            time.sleep(_LOOK_S)
        if info["spawnerr"] and not self._has_run(name):
            return Answer("failed", "spawn", note=info["spawnerr"])
        more = _counted(task, place)
        return Answer("failed", "signal", **more) if info["exitstatus"] < 0 else ended(info["exitstatus"], **more)

    def _has_run(self, name: str) -> bool:
        return bool(self.calls.getProcessInfo(name)["spawnerr"].startswith("Bad exit code"))

    def _stop(self, name: str) -> bool:
        """Stop the program; False if it has ended by itself meanwhile."""
        try:
            self.calls.stopProcess(name, True)
        except xmlrpc.client.Fault:
            return False
        return True

    def close(self) -> None:
        """Stop the daemon and everything that it still runs."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def _counted(task: Task, place: str) -> dict[str, Any]:
    if not task.stream:
        return {}
    count = os.path.getsize(f"{place}.stdout")
    os.truncate(f"{place}.stdout", 0)
    return {"stdout_bytes": count}


if __name__ == "__main__":
    daemon = Daemon(decode(sys.argv[1]))
    serve(daemon.run, supervises=False)
    daemon.close()
