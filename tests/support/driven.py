"""A run driven step by step: its recorded facts, single packets to its guard, and stopping the guard itself."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.guard import packets
from holdfast.guard.processes import guard_of
from holdfast.journal.reader import JournalReader
from holdfast.runs.durable import start_durable
from holdfast.runs.ephemeral import start_ephemeral
from holdfast.values.spec import make_spec

from .evidence import all_of
from .processes import stop_both, wait_exited
from .readiness import is_ready, names_in

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast import Fact, Result
    from holdfast.state.directory import StateDirectory

BOUND_S = 60.0  # generous: only a failing test reaches it


_REQUESTS_AT_ONCE = 64  # as in native/requests.c


class Driven:
    """One run and its guard. On leaving, both are gone, and so is everything below them."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        state: StateDirectory | None = None,
        wake_output: bool = False,
        windowed: bool = False,
        **options: Any,
    ) -> None:
        spec = make_spec(argv, **options)
        if state is None:
            self.live = start_ephemeral(spec, wake_output=wake_output, windowed=windowed)
        else:
            self.live = start_durable(state, spec, wake_output=wake_output)
        self._tickets = iter(range(1_000_000, 2_000_000))

    # The record.

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts up to now."""
        self.live.refresh()
        return self.live.facts

    def until(self, kind: str) -> Fact:
        """Wait for a fact of that kind. AssertionError if the guard exits without one."""
        self.wait_for(lambda: bool(all_of(self.facts, kind)), kind)
        return all_of(self.facts, kind)[0]

    def until_ready(self) -> dict[str, int]:
        """Wait for the command's ready line."""
        reader, seen = JournalReader(self.live.journal), [b""]

        def look() -> bool:
            seen[0] += b"".join(chunk.data for chunk in reader.read())
            return is_ready(seen[0])

        self.wait_for(look, "ready line")
        return names_in(seen[0])

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Look until it holds: most facts come without a wake, so there is no event to wait for."""
        end = time.monotonic() + BOUND_S
        while not condition():
            gone = wait_exited(self.live.sentinel_pid, 0)
            assert not gone or condition(), f"the guard exited without: {what}"
            assert time.monotonic() < end, f"not within {BOUND_S} s: {what}"
            os.sched_yield()

    @property
    def command_pid(self) -> int:
        """The command's process, once it has started."""
        pid: int = self.until("started").detail["pid"]
        return pid

    # Requests to the guard.

    def ask(self, make_packet: Callable[[int], bytes], *, within_s: float = BOUND_S) -> int:
        """Send one request, made for a ticket, and return the errno of its answer."""
        return ask(self.live.control, make_packet, next(self._tickets), within_s=within_s)

    def take_turns(self) -> None:
        """Return after the guard has looked at everything it watches, at least once from now on.

        A turn answers an owner's requests as long as there are more, up to a bound, before it looks at the rest; and
        the first turn may have begun before now. So it takes two bounds and one more.
        """
        for _ in range(2 * _REQUESTS_AT_ONCE + 1):
            assert self.ask(packets.heartbeat) == 0

    def stop_guard(self) -> None:
        """SIGSTOP the guard, and its sentinel, which would continue it; returns when both stand still."""
        stop_both(self.live.sentinel_pid, self.live.guard_pid)

    def continue_guard(self) -> None:
        """Let both go on: the sentinel continues the guard."""
        signal.pidfd_send_signal(self.live.pidfd, signal.SIGCONT)

    def exit_unseen(self, there: Gate, gate: Gate) -> None:
        """The command comes to `there` and waits at `gate`: let it go on to its exit while the guard stands still."""
        there.wait()
        pid = self.command_pid
        self.stop_guard()
        gate.open()
        assert wait_exited(pid)
        self.continue_guard()

    # The end.

    def until_exited(self, within_s: float = BOUND_S) -> bool:
        """Wait until the guard has exited; False if it has not."""
        return wait_exited(self.live.sentinel_pid, within_s)

    def settle(self) -> Result:
        """Wait for the guard's exit and return the result. AssertionError if it does not exit or has lost the run."""
        assert self.until_exited(), f"the run does not end: {[fact.kind for fact in self.facts]}"
        assert "end" in [fact.kind for fact in self.facts], f"lost: {[fact.kind for fact in self.facts]}"
        return self.live.result()

    def guard_cpu_s(self) -> float:
        """CPU time of the sentinel and its guard so far, with everything they have reaped; also after their exit."""
        pids = {self.live.sentinel_pid, guard_of(self.live.sentinel_pid)} - {0}
        return sum(_cpu_ticks(pid) for pid in pids) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        live = self.live
        live.kill_guard()
        live.reap(wait=True)
        try:
            live.refresh()
            if not live.ended:
                live.clean_up()
        finally:
            live.close()


def _cpu_ticks(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return sum(int(field) for field in stat[stat.rindex(")") + 2 :].split()[11:15])


def ask(connection: socket, make_packet: Callable[[int], bytes], ticket: int = 1, *, within_s: float = BOUND_S) -> int:
    """Send one request on a connection to a guard and return the errno of its answer, skipping wakes."""
    connection.send(make_packet(ticket))
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    end = time.monotonic() + within_s
    while True:
        assert poll.poll(max(0.0, end - time.monotonic()) * 1000), f"no answer within {within_s} s"
        packet = connection.recv(packets.PACKET_MAX)
        assert packet, "the guard is gone"
        news = packets.decode(packet)
        if isinstance(news, packets.Answer) and news.ticket == ticket:
            return news.error


class Gate:
    """A FIFO at which a command waits (`read -r _ <PATH`) until it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def open(self) -> None:
        """Let the process go on that waits there, or will come."""
        fd = os.open(self.path, os.O_WRONLY)
        os.write(fd, b"\n")
        os.close(fd)

    def wait(self) -> None:
        """The other way round: wait until a process writes to it."""
        fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        written = poll.poll(BOUND_S * 1000)
        os.close(fd)
        assert written, f"nobody wrote to {self.path}"
