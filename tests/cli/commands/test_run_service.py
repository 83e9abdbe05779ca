"""`holdfast run` as a service: what it tells the service manager."""

from __future__ import annotations

import signal
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from ..console import HOLDFAST, holdfast, read_until, start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("state_directory")


class Manager:
    """The socket of a service manager."""

    def __init__(self, address: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(address))
        self.socket.setblocking(False)

    def told(self) -> list[dict[str, str]]:
        """What arrived so far."""
        found: list[dict[str, str]] = []
        while True:
            try:
                lines = self.socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return found
            found.append(dict(line.split("=", 1) for line in lines))


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    address = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(address))
    monkeypatch.delenv("HOLDFAST_RUN_ID", raising=False)
    made = Manager(address)
    yield made
    made.socket.close()


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["true"], "success (exited 0): exited with code 0", 0),
        (["sh", "-c", "exit 3"], "exit-code (exited 3): exited with code 3", 3),
        (["sh", "-c", "kill -9 $$"], "signal (killed KILL): ended by SIGKILL", 137),
        (["--timeout", "200ms", "sleep", "600"], "timeout (killed TERM): deadline of 200ms passed; SIGTERM", 124),
        (["--idle-timeout", "200ms", "sleep", "600"], "watchdog (killed TERM): no activity for 200ms; SIGTERM", 124),
        (["/nowhere"], "exit-code (exited 203): no such file or directory", 127),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_result_in_the_words_of_systemd(manager: Manager, words: list[str], status: str, code: int) -> None:
    assert holdfast("run", "--id", "the-run", *words).returncode == code
    first, last = manager.told()
    assert first == {"STATUS": "run the-run"}
    assert last == {"STATUS": f"{status}; run the-run", "EXIT_STATUS": str(code)}


def test_a_stop_is_a_success(manager: Manager) -> None:
    with start("run", "--", "sh", "-c", "echo ready; exec sleep 600") as running:
        assert running.stdout is not None
        read_until(running.stdout.fileno(), b"ready")
        running.send_signal(signal.SIGTERM)
        running.communicate()
    *_before, last = manager.told()
    assert last["STATUS"].startswith("success (killed TERM): cancelled by SIGTERM")
    assert last["EXIT_STATUS"] == "143"


def test_only_the_outermost_run_speaks(manager: Manager) -> None:
    assert (
        holdfast(
            "run", "--id", "outer", "--env-keep", "NOTIFY_SOCKET", *HOLDFAST, "run", "--id", "inner", "true"
        ).returncode
        == 0
    )
    assert {told["STATUS"].split()[-1] for told in manager.told()} == {"outer"}


# A command that sends what it would send as a service of its own.
_SPEAKS = (
    "import os, socket; address = os.environ.get('NOTIFY_SOCKET'); "
    "address and socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'STOPPING=1', address)"
)


@pytest.mark.parametrize(("options", "speaks"), [([], False), (["--env-keep", "NOTIFY_SOCKET"], True)])
def test_a_command_does_not_speak_for_the_service(manager: Manager, options: list[str], speaks: bool) -> None:
    assert holdfast("run", *options, sys.executable, "-c", _SPEAKS).returncode == 0
    assert ({"STOPPING": "1"} in manager.told()) is speaks  # the control: with the variable, it does speak
