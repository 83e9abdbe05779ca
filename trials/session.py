"""A session: one harness, one scene, with or without Holdfast, from an empty HOME to the last process.

The harness is started in a session of its own and writes to files, so that no pipe of ours keeps it. Whatever it left
is counted after a while (`SETTLE_S`) and ended, also when the trial itself is stopped.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import bytes_kept, installation, leftovers
from .finding import Finding
from .harnesses.harness import Place
from .model import Model
from .scenes import SETTLE_S, TOOL_LIMIT_S
from .wires.wire import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .harnesses.harness import Harness
    from .scenes import Scene
    from .wires.wire import Turn

_START_S = 120.0  # until the harness asks its model; a busy machine takes its time
_LONGEST_S = 90.0  # from then on; the longest own limit of a scene is far below
_SHOWN = 600  # characters of a text that are kept
_SERVER = Path(__file__).with_name("mcp_server.py")
_FETCH = """import sys, time, urllib.error, urllib.request
end = time.monotonic() + 5
while True:
    try:
        print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/page.txt").read().decode())
        break
    except urllib.error.URLError as error:
        if time.monotonic() > end:
            sys.exit(f"the server does not answer: {error.reason}")
        time.sleep(0.05)
"""


class Session:
    """One trial. `run` gives its finding; nothing of it is left afterwards."""

    def __init__(self, harness: Harness, scene: Scene, *, holdfast: bool) -> None:
        self._harness = harness
        self._scene = scene
        self._holdfast = holdfast
        self._token = secrets.token_hex(6)
        self._seen: list[str] = []  # everything that the model was told, once for each session

    def run(self) -> Finding:
        """Play the scene. The finding says so if the harness cannot play it."""
        root = Path(tempfile.mkdtemp(prefix="trial-", dir="/var/tmp"))  # Codex refuses one in /tmp
        try:
            with Model(self._harness.wire) as self._model:
                self._place = Place(root, self._model.url)
                self._place.make()
                return self._play()
        finally:
            leftovers.end()
            shutil.rmtree(root, ignore_errors=True)

    def _play(self) -> Finding:
        scene = self._scene
        self._prepare()
        if self._holdfast:
            try:
                installation.install(self._harness.key, self._environment, self._place.work)
            except installation.InstallError as error:
                return Finding(failure=f"holdfast install: {error}")
        with self._fifo() as ready:
            in_time, left_s = self._converse(ready)
        if self._model.unknown:
            return Finding(failure=f"the harness offers no such tool: {self._model.unknown[0]}")
        if not self._model.requests:
            return Finding(failure=f"the harness asked its model for nothing: {self._last_words()}")
        if scene.killed and not in_time:
            return Finding(failure=f"the command of the scene did not start: {self._last_words()}")
        hung_s = None if scene.killed else self._hung(left_s)
        told = self._told()
        if scene.resumed:
            in_time, left_s = self._again()
            if not self._model.requests:
                return Finding(failure=f"the harness cannot resume its session: {self._last_words()}")
            told, hung_s = self._told_again(), left_s - self._model.requests[-1].at_s
        return self._measure(told, hung_s, ended_by_trial=not in_time)

    def _prepare(self) -> None:
        """Write the settings and the project, and make the environment."""
        scene, place = self._scene, self._place
        server = ("sh", "-c", f"{sys.executable} {_SERVER} {self._token}; exit 1") if scene.server else ()
        variables = self._harness.settle(place, server, limited=scene.limited)
        (place.work / "fetch.py").write_text(_FETCH, encoding="utf-8")
        (place.work / "page.txt").write_text(f"page-{self._token}", encoding="utf-8")
        programs = (str(self._harness.rig.path.parent), os.path.dirname(sys.executable), os.environ.get("PATH", ""))
        nowhere = "http://127.0.0.1:9"  # what is not on loopback cannot be reached
        self._environment = {
            "PATH": ":".join(programs),
            "HOME": str(place.home),
            "TMPDIR": str(place.root / "tmp"),
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "npm_config_offline": "true",
            **variables,
        }

    def _turns(self) -> list[Turn]:
        limit_s = TOOL_LIMIT_S if self._scene.limited else None
        known = {"token": self._token, "port": _free_port(), "fifo": self._place.root / "ready"}
        turns: list[Turn] = [Call("echo", {"text": self._token})] if self._scene.server else []
        return turns + [self._harness.shell(text.format(**known), limit_s) for text in self._scene.commands]

    def _converse(self, ready: int) -> tuple[bool, float]:
        """Play the script. Whether it came to its end in time, and when the harness was gone."""
        self._model.play(self._turns())
        with self._started(resumed=False) as harness:
            if not self._scene.killed:
                return self._exited(harness), time.monotonic()
            began = self._asks(harness) and _readable(ready, harness.pid)
            leftovers.kill(leftovers.of_program(self._harness.rig.directory))
            harness.wait(_LONGEST_S)
            return began, time.monotonic()

    def _again(self) -> tuple[bool, float]:
        """Resume the session: the model only says its last word."""
        self._model.play(())
        with self._started(resumed=True) as harness:
            return self._exited(harness), time.monotonic()

    def _asks(self, harness: subprocess.Popen[bytes]) -> bool:
        """Whether the harness asks its model for a turn, before it exits or takes too long."""
        end = time.monotonic() + _START_S
        while not self._model.asked.wait(0.2):
            if harness.poll() is not None or time.monotonic() > end:
                return self._model.asked.is_set()
        return True

    def _exited(self, harness: subprocess.Popen[bytes]) -> bool:
        """Whether the harness exits within the longest time of a session."""
        self._asks(harness)
        try:
            harness.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    @contextlib.contextmanager
    def _started(self, *, resumed: bool) -> Iterator[subprocess.Popen[bytes]]:
        """The harness; at the end it is over, by SIGKILL if it has to be."""
        with open(self._place.root / "said", "wb") as said:
            harness = subprocess.Popen(
                self._harness.command(resumed=resumed),
                env=self._environment,
                cwd=self._place.work,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the trial, which then ends the harness
            )
            try:
                yield harness
            finally:
                if harness.poll() is None:
                    leftovers.kill({harness.pid, *leftovers.of_program(self._harness.rig.directory)})
                    harness.wait()

    @contextlib.contextmanager
    def _fifo(self) -> Iterator[int]:
        """The pipe on which a command says that it runs; held open, so that its writer never waits."""
        path = self._place.root / "ready"
        os.mkfifo(path)
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        try:
            yield fd
        finally:
            os.close(fd)

    def _hung(self, left_s: float) -> float:
        """The seconds from the model's first call to the end, without its turns, beyond the scene's own need."""
        return max(0.0, left_s - self._model.requests[0].at_s - self._scene.needs_s)

    def _told(self) -> list[str]:
        """The results of the tools, as the last request of the session has them."""
        return self._model.requests[-1].results

    def _told_again(self) -> list[str]:
        """What a resumed session tells the model about the command: results, and texts with its output or our name."""
        known = (*bytes_kept.words(self._scene, self._token), "holdfast")
        rigs = str(self._harness.rig.directory)  # a harness may tell its model where it is installed
        whole = [text.replace(rigs, "") for text in _texts(self._model.requests[0].body)]
        texts = [text for text in whole if any(word in text.lower() for word in known)]
        results = self._told()
        return results + [text for text in texts if text not in results]

    def _measure(self, told: list[str], hung_s: float | None, *, ended_by_trial: bool) -> Finding:
        left = leftovers.wait(SETTLE_S)
        scene, token, place = self._scene, self._token, self._place
        heard = bytes_kept.recognise(scene, token, "\n".join(told).encode())
        ours = place.home / ".local" / "state" / "holdfast"
        kept = heard | bytes_kept.in_files(scene, token, place.root, (ours, place.root / "said", place.work))
        records = installation.runs(self._environment, place.work) if self._holdfast else []
        for record in records:
            data = installation.output(str(record["run_id"]), self._environment, place.work)
            kept |= bytes_kept.recognise(scene, token, data)
        return Finding(
            left=len(left.commands),
            left_commands=[self._public(command) for command in left.commands],
            left_memory_bytes=left.memory_bytes,
            hung_s=None if hung_s is None else round(hung_s, 1),
            ended_by_trial=ended_by_trial,
            printed_bytes=bytes_kept.printed(scene, token),
            told_bytes=bytes_kept.size(heard),
            kept_bytes=bytes_kept.size(kept),
            told=[self._public(text) for text in told],
            recorded=[f"{record['status']}/{record['cause']}" for record in records],
        )

    def _public(self, text: str) -> str:
        """A text without the names of this day, and cut to what a reader wants."""
        plain = text.replace(str(self._place.root), "ROOT").replace(self._token, "TOKEN")
        return plain if len(plain) <= _SHOWN else f"{plain[: _SHOWN // 2]} [...] {plain[-_SHOWN // 2 :]}"

    def _last_words(self) -> str:
        """The end of what the harness printed, for a failure."""
        said = (self._place.root / "said").read_text(encoding="utf-8", errors="replace")
        return self._public(" ".join(said.split()))[-300:]


def _readable(fd: int, pid: int) -> bool:
    """Whether something arrives within the longest time of a session, and before the process exits."""
    pidfd = os.pidfd_open(pid)  # a child of ours that nobody has reaped
    try:
        poll = select.poll()
        for one in (fd, pidfd):
            poll.register(one, select.POLLIN)
        return fd in dict(poll.poll(_LONGEST_S * 1000))
    finally:
        os.close(pidfd)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _texts(value: object) -> Iterator[str]:
    """Every string in a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
