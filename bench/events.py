"""Event streams: 1,000 subscribers and 100 events a second from one core, without loss.

    python -m bench.events [--subscribers N] [--rate N] [--seconds N]

The server is a process of its own, bound to one core: the event log on a real store, and the route of GET /v1/events
on a Unix socket, as in the daemon. The clients are in this process, on the other cores. Prints JSON: what was published
and received, how long from publishing to reading, and the server's use of its core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from holdfast.daemon.service.service import Service

_REPORT_BYTES = 1200  # about the size of the report of a small run
_PATIENCE_S = 60.0


class Plan(NamedTuple):
    """The amount of work of one measurement."""

    subscribers: int = 1000
    rate: float = 100.0
    seconds: float = 10.0

    @property
    def events(self) -> int:
        return round(self.rate * self.seconds)


def measure(plan: Plan) -> dict[str, Any]:
    """Serve events, read them, and return the numbers that say whether the stream held."""
    _allow_descriptors(plan.subscribers + 100)
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        asked = [directory, str(plan.subscribers), str(plan.rate), str(plan.events), str(cores[0])]
        command = [sys.executable, "-m", "bench.events", "--serve", *asked]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            os.sched_setaffinity(0, cores[1:] or cores)
            server.stdout.readline()  # it listens
            clients = _connect(os.path.join(directory, "sock"), plan.subscribers)
            delays = _read(clients, plan.events, server.stdin)
            served = json.loads(server.stdout.readline())
        finally:
            os.sched_setaffinity(0, cores)
            server.stdin.close()
            server.wait(_PATIENCE_S)
            server.stdout.close()
    return _result(plan, clients, delays, served)


class _Client:
    """One connection: it counts ids, and checks that each follows the last."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rest = b""
        self.last = 0
        self.received = 0
        self.wrong = 0

    def take(self, data: bytes) -> list[int]:
        """The ids in this data."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        found = [int(line[4:]) for line in lines if line.startswith(b"id: ")]
        for number in found:
            self.wrong += number != self.last + 1
            self.last = number
        self.received += len(found)
        return found


def _connect(path: str, number: int) -> list[_Client]:
    clients = []
    for _ in range(number):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
        connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        begun = b""
        while b": events" not in begun:
            begun += connection.recv(4096)
        connection.setblocking(False)
        clients.append(_Client(connection))
    return clients


def _read(clients: list[_Client], events: int, start: Any) -> list[float]:
    """Read until every client has everything, or no more comes. Returns the delays of the first client's events."""
    start.write(b"go\n")
    start.flush()
    arrived: list[float] = []
    with selectors.EpollSelector() as selector:
        for one in clients:
            selector.register(one.connection, selectors.EVENT_READ, one)
        unfinished = len(clients)
        while unfinished and (ready := selector.select(_PATIENCE_S)):
            now = time.time()
            for key, _ in ready:
                client: _Client = key.data
                data = client.connection.recv(1 << 18)
                found = client.take(data)
                if client is clients[0] or client is clients[-1]:
                    arrived += [now - at for line in data.split(b"\n") if (at := _published_at(line)) is not None]
                if (found and found[-1] == events) or not data:
                    selector.unregister(client.connection)
                    client.connection.close()
                    unfinished -= 1
    return arrived


def _published_at(line: bytes) -> float | None:
    """The time of publishing in a data line; None for other lines, and for a line that the end of a read has torn."""
    try:
        return float(json.loads(line[6:])["published"]) if line.startswith(b"data: ") else None
    except ValueError:
        return None


def _result(plan: Plan, clients: list[_Client], delays: list[float], served: dict[str, Any]) -> dict[str, Any]:
    delays = sorted(delays) or [0.0]
    received = sum(client.received for client in clients)
    lost = plan.subscribers * plan.events - received
    return {
        **plan._asdict(),
        "events": plan.events,
        "received": received,
        "lost": lost,
        "out_of_order": sum(client.wrong for client in clients),
        "dropped_clients": served["dropped"],
        "published_in_s": served["took_s"],
        "server_cpu": served["cpu"],
        "server_max_rss_bytes": served["max_rss_bytes"],
        "publish_ms": served["publish_ms"],
        "delay_ms": {
            "p50": round(1000 * delays[len(delays) // 2], 2),
            "p99": round(1000 * delays[len(delays) * 99 // 100], 2),
            "max": round(1000 * delays[-1], 2),
        },
        "holds": lost == 0 and served["dropped"] == 0 and served["took_s"] < 1.1 * plan.seconds,
    }


def _allow_descriptors(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard), hard))


# The server's process.


async def _serve(directory: str, subscribers: int, rate: float, events: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    from holdfast.daemon.events.event_log import EventLog
    from holdfast.daemon.http.routes import events as event_routes
    from holdfast.daemon.http.security import Security
    from holdfast.daemon.store.store import Store
    from holdfast.web.access_checks import AccessChecks
    from holdfast.web.connection import Connection

    _allow_descriptors(subscribers + 100)
    store = Store.open(os.path.join(directory, "daemon.sqlite"))
    log = EventLog(store)
    await log.start()
    routes = event_routes.routes(cast("Service", SimpleNamespace(subscribe=log.subscribe)))
    app = Starlette(routes=routes, middleware=[Middleware(AccessChecks, policy=Security.of(None))])
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.path.join(directory, "sock"))
    listener.listen(256)
    config = uvicorn.Config(app, http=Connection, log_config=None, access_log=False, lifespan="off", backlog=256)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    print("listening", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    _say(await _publish(log, store, rate, events))
    await asyncio.to_thread(sys.stdin.read)  # until the clients have received everything
    await log.stop()
    server.should_exit = True
    await serving
    store.close()


async def _publish(log: Any, store: Any, rate: float, events: int) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    took: list[float] = []
    begun, cpu = loop.time(), time.process_time()
    for number in range(events):
        await asyncio.sleep(begun + number / rate - loop.time())
        before = loop.time()
        report = {"run_id": f"run-{number}", "filling": "x" * _REPORT_BYTES}
        log.publish("run.queued", f"run-{number}", {"published": time.time(), "report": report})
        await store.write(lambda _: None)  # the event is stored before this
        took.append(loop.time() - before)
    passed = loop.time() - begun
    took.sort()
    return {
        "took_s": round(passed, 3),
        "cpu": round((time.process_time() - cpu) / passed, 3),
        "dropped": log.dropped,
        "max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "publish_ms": {"p50": round(1000 * took[len(took) // 2], 2), "max": round(1000 * took[-1], 2)},
    }


def _say(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, or be the server that is measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.events", description=__doc__.partition("\n")[0])
    parser.add_argument("--subscribers", type=int, default=Plan().subscribers)
    parser.add_argument("--rate", type=float, default=Plan().rate, help="events per second")
    parser.add_argument("--seconds", type=float, default=Plan().seconds)
    parser.add_argument("--serve", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        directory, subscribers, rate, events, core = options.serve
        os.sched_setaffinity(0, {int(core)})
        asyncio.run(_serve(directory, int(subscribers), float(rate), int(events)))
        return 0
    result = measure(Plan(options.subscribers, options.rate, options.seconds))
    print(json.dumps(result, indent=1))
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
