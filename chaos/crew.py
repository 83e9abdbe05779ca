"""The crew: owner and reader processes that use the state directory. Any of them may be killed and replaced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any


class Member:
    """One process of the crew, with lines in both directions."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self.output, False)
        self.rest = b""
        self.ready = False
        self.killed = False
        self.gone = False
        self.stopped_until: float | None = None

    @property
    def pid(self) -> int:
        """Its PID, which stays valid until the process is reaped."""
        return self.process.pid

    def tell(self, text: str) -> bool:
        """Send one line; False if the process is gone."""
        try:
            os.write(self.input, text.encode() + b"\n")
        except BrokenPipeError:
            return False
        return True

    def order(self, argv: list[str], options: dict[str, Any]) -> bool:
        """Tell an owner to start a run."""
        return self.tell(json.dumps({"argv": argv, "options": options}))

    def hear(self) -> list[list[str]]:
        """The lines since the last call; `gone` after the last one."""
        try:
            while data := os.read(self.output, 1 << 16):
                self.rest += data
            self.gone = True
        except BlockingIOError:
            pass
        *lines, self.rest = self.rest.split(b"\n")
        return [line.decode(errors="replace").split(" ") for line in lines]

    def kill(self) -> None:
        """Send SIGKILL. The process is our child and not reaped, so the number is valid."""
        self.killed = True
        self.process.kill()

    def stop(self, until: float) -> None:
        """Send SIGSTOP; `go_on` continues it once this moment has come."""
        self.stopped_until = until
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self, now: float) -> None:
        """Continue it, if it was stopped and its time has come."""
        if self.stopped_until is not None and now >= self.stopped_until:
            self.stopped_until = None
            self.process.send_signal(signal.SIGCONT)

    def dismiss(self) -> None:
        """Send no more orders: the process ends when its runs have ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def bury(self) -> int:
        """Wait for its end and close everything; returns its exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(timeout=30)
