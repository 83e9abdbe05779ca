"""What `holdfast stdio` adds to one message and its answer: `python -m bench.stdio_latency [ROUNDS]`.

The server is `cat`, so that the pipes are all there is to measure. The three ways take turns, message by message, so
that each of them meets the same load of the machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

MESSAGE = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "x": "%s"}}\n' % (b"x" * 100)
_HOLDFAST = (sys.executable, "-m", "holdfast.cli.main", "stdio")
WAYS = {
    "the server alone": ("cat",),
    "holdfast stdio": (*_HOLDFAST, "--", "cat"),
    "holdfast stdio --idle": (*_HOLDFAST, "--idle", "1h", "--", "cat"),
}


def round_trip_us(server: subprocess.Popen[bytes]) -> float:
    """Send one message and read it back."""
    assert server.stdin is not None
    assert server.stdout is not None
    begin = time.perf_counter_ns()
    os.write(server.stdin.fileno(), MESSAGE)
    left = len(MESSAGE)
    while left:
        left -= len(os.read(server.stdout.fileno(), left))
    return (time.perf_counter_ns() - begin) / 1000


def measure(rounds: int) -> dict[str, list[float]]:
    """Times of so many round trips for each way, in microseconds."""
    servers = {way: subprocess.Popen(c, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for way, c in WAYS.items()}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds + 10):
        for way, server in servers.items():
            taken = round_trip_us(server)
            if number >= 10:  # the first ones wait for the start
                times[way].append(taken)
    for server in servers.values():
        server.communicate()
    return times


def main() -> None:
    times = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
    alone = statistics.median(times["the server alone"])
    for way, taken in times.items():
        median = statistics.median(taken)
        tenth = statistics.quantiles(taken, n=10)[0]
        sys.stdout.write(
            f"{way:24} median {median:7.1f} us  fastest tenth {tenth:7.1f} us  adds {median - alone:+.1f} us\n"
        )


if __name__ == "__main__":
    main()
