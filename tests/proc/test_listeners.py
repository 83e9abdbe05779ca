"""The ports on which a run listens, seen from outside, with real listeners."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from holdfast.proc import listeners, listening_sockets, run_tree
from holdfast.proc.listeners import PortListener, listeners_of, listeners_on, name_of
from holdfast.state.directory import StateDirectory
from holdfast.state.index.summary import read_summary

from ..support.durable import DurableRun
from ..support.listening import listens
from ..support.readiness import read_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.guard


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory.open(str(tmp_path / "state"))


@contextmanager
def started(state: StateDirectory, argv: list[str]) -> Iterator[tuple[DurableRun, dict[str, int]]]:
    with DurableRun(state, argv) as run:
        yield run, run.until_ready()
        run.handle.control.send(packets.stop(1, "user", "", now=True))
        run.until_ended()


def ports_of(run: DurableRun) -> list[int] | None:
    entry = read_summary(run.state, run.run_id)
    assert entry is not None
    ports: list[int] | None = entry.shown()["ports"]
    return ports


@pytest.mark.parametrize("how", ["plain", "daemon"])
def test_a_run_has_the_ports_of_its_whole_tree(state: StateDirectory, how: str) -> None:
    with started(state, listens(how)) as (run, named):
        assert ports_of(run) == [named["port"]]
        with run.record() as record:
            seen = record.tree.listening()
        assert seen is not None
        assert seen.found == (PortListener(named["port"], "127.0.0.1", named["pid"]),)
    assert ports_of(run) is None  # it is over: nobody has looked at it


def test_a_port_that_is_bound_only_and_the_port_of_a_stranger_do_not_count(state: StateDirectory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as strange, started(state, listens("silent")) as (run, _):
        assert ports_of(run) == []
        found = listeners_on(strange.getsockname()[1]).found
        assert [(one.pid, name_of(one.pid)) for one in found] == [(os.getpid(), name_of(os.getpid()))]


def test_a_kernel_without_the_lists_of_children(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(state, listens("daemon")) as (run, named):
        monkeypatch.setattr(os.path, "exists", lambda _: False)
        assert named["pid"] in run_tree.below(run.guard_pid)


def test_a_guard_whose_number_is_a_strangers_has_no_tree(state: StateDirectory) -> None:
    with socket.create_server(("127.0.0.1", 0)), started(state, listens()) as (run, _), run.record() as record:
        assert record.tree._replace(guard_pid=os.getppid()).ports() is None
        assert record.tree._replace(run_id="another").ports() is None


def test_addresses_of_both_families() -> None:
    with socket.create_server(("127.0.0.1", 0)) as four, socket.create_server(("::", 0), family=socket.AF_INET6) as six:
        found = [str(one) for one in listeners_of([os.getpid()]).found]
        assert f"127.0.0.1:{four.getsockname()[1]}" in found
        assert f"[::]:{six.getsockname()[1]}" in found


def test_a_kernel_without_sock_diag_has_the_same_sockets_in_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError

    with socket.create_server(("127.0.0.1", 0)), socket.create_server(("::1", 0), family=socket.AF_INET6):
        asked = listeners_of([os.getpid()])
        monkeypatch.setattr(listening_sockets, "_ask_kernel", refuse)
        assert len(asked.found) >= 2
        assert listeners_of([os.getpid()]) == asked


def test_the_port_of_another_network_namespace(state: StateDirectory) -> None:
    """A port is looked up in the namespace of the process: the same number elsewhere is another port."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False).returncode:
        pytest.skip("allowed: needs a network namespace of its own")
    with started(state, ["unshare", "-n", *listens(host="0.0.0.0")]) as (run, named):
        assert ports_of(run) == [named["port"]]


def test_connections_are_not_read_and_a_bound_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            assert [one.port for one in listeners_of([os.getpid()]).found if one.port == port] == [port]
        monkeypatch.setattr(listeners, "_MOST_FILES", 1)
        assert listeners_of([os.getpid()]) == ((), False)
        assert listeners_of([os.getpid()]).ports is None  # unknown, and not none


def test_a_process_that_the_kernel_hides_makes_the_answer_incomplete() -> None:
    if os.geteuid() != 0:
        pytest.skip("allowed: needs another user")
    look = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); from holdfast.proc.listeners import listeners_of\n"
        "os.setgid(65534); os.setuid(65534); print(listeners_of([int(sys.argv[1])]))"
    )
    with subprocess.Popen(listens(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        read_ready(process.stdout.fileno())
        source = str(Path(listeners.__file__).parents[2])
        done = subprocess.run(
            [sys.executable, "-c", look, str(process.pid), source],
            capture_output=True,
            text=True,
            check=False,
        )
        process.kill()
    assert done.stdout.strip() == "PortsSeen(found=(), complete=False)", done.stderr
