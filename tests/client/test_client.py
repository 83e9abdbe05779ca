"""`holdfast.Client` and `holdfast.AsyncClient` with a real daemon; and their parts."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.client.answers import Event
from holdfast.client.endpoint import Endpoint
from holdfast.client.posting import posted
from holdfast.client.problems import error_of
from holdfast.client.sse import EventParser, missed
from holdfast.client.transport import Patience
from holdfast.daemon.queue.submission import Submission
from holdfast.values import errors
from holdfast.web import problems

from ..support.daemons import Daemon, Gate, daemon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.client.calls import ClientCall

OPTIONS = ("--max-runs", "2", "--on-shutdown", "cancel")
# httpx2 leaves a Unix socket that could not connect to the garbage collector, which closes it at once.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*<socket.socket fd=.*family=1:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket fd=.*family=1:ResourceWarning"),
]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Daemon]:
    with daemon(tmp_path / "state", *OPTIONS) as found:
        yield found


@pytest.fixture
def client(running: Daemon) -> Iterator[holdfast.Client]:
    with holdfast.Client(state_dir=str(running.state_dir)) as found:
        yield found


def test_a_run_from_beginning_to_end(client: holdfast.Client) -> None:
    report = client.submit(
        ["sh", "-c", "echo begun; x=$(cat); echo got $x; echo err >&2; exit 3"],
        stdin="pipe",
        name="one",
        session="s",
        labels={"k": "v"},
        timeout="10m",
        env={"A": "b"},
    )
    run_id = report["run_id"]
    assert report["state"] in ("queued", "starting", "running")
    follower = client.follow(run_id)
    assert next(follower) == b"begun\n"
    assert client.extend(run_id, "5s")["state"] == "running"
    assert client.wait(run_id, timeout=0.01)["status"] is None, "the time is over first"
    assert client.input(run_id, b"it\n", eof=True)["run_id"] == run_id
    assert b"".join(follower) == b"got it\n"
    assert client.wait(run_id)["status"] == "failed"
    report = client.settled(run_id)
    assert (report["state"], report["exit_code"], report["name"], report["labels"]) == ("settled", 3, "one", {"k": "v"})
    assert client.output(run_id) == b"begun\ngot it\n"
    assert client.output(run_id, offset=6) == b"got it\n"
    assert client.output(run_id, "stderr") == b"err\n"
    assert sorted(client.output(run_id, "all").splitlines()) == [b"begun", b"err", b"got it"]
    assert client.get(run_id) == report
    assert client.evidence(run_id) == report["evidence"]
    assert client.doctor()["healthy"] in (True, False)
    assert client.health()["status"] == "ok"


def test_listing(client: holdfast.Client) -> None:
    ids = [client.submit(["sh", "-c", f"exit {code}"], session="s", name=f"n{code}")["run_id"] for code in (0, 1, 0)]
    for run_id in ids:
        client.settled(run_id)
    assert [report["run_id"] for report in client.list().runs] == ids[::-1]
    assert [report["run_id"] for report in client.list_all(status="failed")] == [ids[1]]
    assert len(client.list_all(status=["failed", "succeeded"], session="s", state="settled")) == 3
    first = client.list(limit=2)
    assert first.cursor is not None
    second = client.list(limit=2, cursor=first.cursor)
    assert [report["run_id"] for page in (first, second) for report in page.runs] == ids[::-1]
    assert second.cursor is None
    with pytest.raises(holdfast.SpecError, match="cursor"):
        client.list(cursor="nonsense")


def test_sessions(client: holdfast.Client, tmp_path: Path) -> None:
    run_id = client.submit(Gate(tmp_path / "gate").waits(), session="a b/ü"[:3])["run_id"]
    next(client.follow(run_id))
    assert client.close_session("a b", now=True)["confirmed"] == [run_id]
    (session,) = client.sessions()
    assert (session["name"], session["closed"], session["ended"]) == ("a b", True, 1)
    with pytest.raises(holdfast.SessionClosedError):
        client.submit(["true"], session="a b")
    assert client.open_session("a b") == {"session": "a b", "was_closed": True}
    client.submit(["true"], session="a b")


def test_cancel_and_signal(client: holdfast.Client) -> None:
    run_id = client.submit(["sh", "-c", 'trap "echo usr" USR1; echo ready; while :; do sleep 600 & wait; done'])[
        "run_id"
    ]
    follower = client.follow(run_id)
    assert next(follower) == b"ready\n"
    client.signal(run_id, "USR1")
    assert next(follower) == b"usr\n"
    follower.close()
    client.cancel(run_id, reason="enough", now=True)
    report = client.settled(run_id)
    assert (report["status"], report["cause"]) == ("cancelled", "user")
    assert "enough" in report["reason"]
    assert client.cancel(run_id)["cause"] == "user", "one that is over stays as it is"


def test_errors_are_those_of_the_library(client: holdfast.Client) -> None:
    with pytest.raises(holdfast.RunNotFoundError):
        client.get("nosuchrun")
    with pytest.raises(holdfast.RunNotFoundError):
        next(client.follow("../../etc/passwd"))
    with pytest.raises(holdfast.SpecError, match="timeout"):
        client.submit(["true"], timeout="soon")
    with pytest.raises(holdfast.SpecError, match="detached"):
        client.submit(["true"], lifetime="owner")
    with pytest.raises(holdfast.SpecError, match="UTF-8"):
        client.submit([b"\xff"])
    with pytest.raises(holdfast.SpecError, match="queued_at cannot be given for a run of a daemon"):
        posted(["true"], {"queued_at": "2026-01-02T03:04:05Z"})  # here: nothing is sent
    with pytest.raises(holdfast.SpecError, match="priority"):
        client.submit(["true"], priority=10_000)
    run_id = client.submit(["true"], idempotency_key="k", run_id="mine")["run_id"]
    assert client.submit(["true"], idempotency_key="k", run_id="mine")["run_id"] == run_id == "mine"
    with pytest.raises(holdfast.IdempotencyConflictError) as conflict:
        client.submit(["false"], idempotency_key="k")
    assert conflict.value.run_id == run_id
    with pytest.raises(holdfast.RunExistsError):
        client.submit(["true"], run_id="mine")
    client.settled(run_id)
    with pytest.raises(holdfast.RequestError):
        client.extend(run_id, 5)


def test_events_go_on_after_a_restart(running: Daemon, client: holdfast.Client) -> None:
    events = client.events(types=["run.settled", "service.shutdown"], last_id="0")
    first = client.submit(["true"])["run_id"]
    event = next(events)
    assert (event.type, event.data["run_id"]) == ("run.settled", first)
    running.kill()
    with daemon(running.state_dir, *OPTIONS):
        second = client.submit(["true"])["run_id"]
        event = next(events)
        assert (event.type, event.data["run_id"]) == ("run.settled", second), "each once, and none is missing"
        events.close()


class Streams:
    """A server that answers each request with the next of these streams and hangs up."""

    def __init__(self, *streams: bytes) -> None:
        self.seen: list[str] = []
        self._streams = streams
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        for stream in self._streams:
            connection, _ = self._listener.accept()
            with connection:
                self.seen.append(connection.recv(65536).decode())
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + stream)

    def __enter__(self) -> Streams:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        self._listener.close()


def test_a_stream_that_broke_before_its_first_event_says_so() -> None:
    event = b'id: 5\nevent: run.settled\ndata: {"n": 1}\n\n'
    with (
        Streams(b": hello\n\n", b": hello\n\n" + event, event.replace(b"5", b"6")) as server,
        holdfast.Client(server.url) as client,
    ):
        events = client.events(types=["run.settled"])
        assert [next(events) for _ in range(3)] == [
            missed(),
            Event("5", "run.settled", {"n": 1}),
            Event("6", "run.settled", {"n": 1}),
        ]
        events.close()
    assert ["last-event-id: 5" in request.lower() for request in server.seen] == [False, False, True]
    assert server.seen[0].startswith("GET /v1/events?types=run.settled HTTP/1.1\r\n")


def test_following_goes_on_after_a_restart(running: Daemon, client: holdfast.Client, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = client.submit(gate.waits("echo after"))["run_id"]
    follower = client.follow(run_id)
    assert next(follower) == b"ready\n"
    running.kill()
    with daemon(running.state_dir, *OPTIONS):
        gate.open()
        assert b"".join(follower) == b"after\n"
        assert client.settled(run_id)["status"] == "succeeded"


class Told(holdfast.Client):
    """A client that says when it has had its first answer."""

    answered = threading.Event()

    def _ask(self, call: ClientCall) -> dict[str, Any]:
        answer = super()._ask(call)
        self.answered.set()
        return answer


def test_a_daemon_that_hands_over_ends_no_stream_and_no_wait(tmp_path: Path) -> None:
    """The old daemon's streams end as if they were complete; the client checks whether they are."""
    gate = Gate(tmp_path / "gate")
    with (
        daemon(tmp_path / "state", "--on-shutdown", "handoff") as running,
        holdfast.Client(state_dir=str(tmp_path / "state")) as client,
    ):
        run_id = client.submit(gate.waits("echo after; exit 3"))["run_id"]
        follower = client.follow(run_id)
        assert next(follower) == b"ready\n"
        waits = []
        other = Told(state_dir=str(tmp_path / "state"))
        waiting = threading.Thread(target=lambda: waits.append(other.wait(run_id)))
        waiting.start()
        assert other.answered.wait(60)
        running.signal()
        assert running.exit_code() == 0
        with daemon(tmp_path / "state", *OPTIONS):
            gate.open()
            assert b"".join(follower) == b"after\n"
            waiting.join(60)
            other.close()
            assert [report["exit_code"] for report in waits] == [3]


def test_tcp_needs_the_token(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *OPTIONS, "--listen", "127.0.0.1:0") as running:
        line = running.until_line(r"listening on .*127\.0\.0\.1:\d+")
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found is not None, running.lines
        url = f"http://127.0.0.1:{found[1]}"
        token = (tmp_path / "state" / "token").read_text().strip()
        with holdfast.Client(url, token=token) as client:
            run_id = client.submit(["sh", "-c", "exit 4"])["run_id"]
            assert client.settled(run_id)["exit_code"] == 4
        for wrong in (None, "x" * 43):
            with holdfast.Client(url, token=wrong) as client, pytest.raises(holdfast.UnauthorizedError) as caught:
                client.health()
            assert token not in str(caught.value)


def test_a_long_path(tmp_path: Path) -> None:
    """A socket's address has 108 bytes."""
    deep = tmp_path.joinpath(*["x" * 40] * 4)
    deep.mkdir(parents=True)
    with daemon(deep / "state", *OPTIONS), holdfast.Client(state_dir=str(deep / "state")) as client:
        assert client.settled(client.submit(["true"])["run_id"])["status"] == "succeeded"


def test_no_daemon(tmp_path: Path) -> None:
    with holdfast.Client(state_dir=str(tmp_path)) as client:
        with pytest.raises(holdfast.DaemonUnreachableError, match=r"no daemon answers at .*holdfast\.sock"):
            client.health()
        with pytest.raises(holdfast.DaemonUnreachableError):
            next(client.events())
    with holdfast.Client("http://127.0.0.1:1") as client, pytest.raises(holdfast.DaemonUnreachableError):
        client.get("x")
    with pytest.raises(holdfast.SpecError, match="both"):
        holdfast.Client("http://127.0.0.1:1", state_dir=str(tmp_path))
    for token in ("", "two words", "line\n", "\u00fc"):
        with pytest.raises(holdfast.SpecError, match="token") as caught:
            holdfast.Client("http://127.0.0.1:1", token=token)
        assert not token or token not in str(caught.value)
    with pytest.raises(holdfast.SpecError, match="is not a URL"):
        holdfast.Client("127.0.0.1:1")


def test_a_draining_daemon_refuses(running: Daemon, client: holdfast.Client, tmp_path: Path) -> None:
    stubborn = ["sh", "-c", 'trap "" TERM; echo ready; read -r _ < "$0"', str(tmp_path / "gate")]
    Gate(tmp_path / "gate")
    run_id = client.submit(stubborn, grace=600)["run_id"]
    next(client.follow(run_id))
    running.signal(signal.SIGTERM)
    running.until_line("draining")
    with pytest.raises(holdfast.DrainingError) as refused:
        client.submit(["true"])
    assert refused.value.retry_after_s >= 1
    client.cancel(run_id, now=True)
    assert running.exit_code() == 0


# The same for the other client: it differs in how it waits, so both event loops try each way of waiting.


# When a stream is given up, httpx2 leaves its innermost generator to the garbage collector, and trio warns.
@pytest.mark.filterwarnings("ignore:.*PoolByteStream:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.anyio
async def test_the_other_client(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    async with holdfast.AsyncClient(state_dir=str(running.state_dir)) as client:
        run_id = (await client.submit(gate.waits("echo after; exit 3"), name="one"))["run_id"]
        follower = client.follow(run_id)
        assert await anext(follower) == b"ready\n"
        with anyio.move_on_after(0.01) as scope:
            await client.wait(run_id)
        assert scope.cancelled_caught, "waiting can be given up"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, gate.open)
            assert [data async for data in follower] == [b"after\n"]
        assert (await client.settled(run_id))["exit_code"] == 3
        assert (await client.list(name="one")).runs[0]["run_id"] == run_id
        assert [report["run_id"] for report in await client.list_all()] == [run_id]
        assert await client.output(run_id) == b"ready\nafter\n"
        events = client.events(last_id="0", run_id=run_id)
        types = [(await anext(events)).type for _ in range(4)]
        await events.aclose()
        assert types == ["run.queued", "run.started", "run.verdict", "run.settled"]
        with pytest.raises(holdfast.RunNotFoundError):
            await client.cancel("nosuchrun")
        assert (await client.health())["status"] == "ok"


def test_both_clients_can_do_the_same() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        found = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
        return {name: list(signature(value).parameters) for name, value in found.items()}

    assert methods(holdfast.Client) == methods(holdfast.AsyncClient)


def test_the_manuals_example(running: Daemon, client: holdfast.Client) -> None:
    text = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    environ = {**os.environ, "HOLDFAST_STATE_DIR": str(running.state_dir)}
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, env=environ, check=True)
    assert done.stdout == "failed 3\nb'hello\\n'\n"
    follows = second.replace('types=["run.verdict"]', 'types=["run.verdict"], last_id="0"') + "        break\n"
    done = subprocess.run([sys.executable, "-c", follows], capture_output=True, text=True, env=environ, check=True)
    assert done.stdout.split()[1:] == [client.list().runs[0]["run_id"], "failed"]


def test_without_the_extra() -> None:
    """The clients say what is missing; the command line does not need it."""
    program = (
        "import sys; sys.modules['httpx2'] = None; import holdfast.cli.commands.submit; "
        "import holdfast.cli.lookup.queued_runs; holdfast.Client"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "holdfast.Client needs the package httpx2: pip install 'holdfast[client]'" in done.stderr.splitlines()[-1]


# The parts of the clients.


@pytest.mark.parametrize(
    "error",
    [
        errors.SpecError("it broke", field="argv", remedy="mend it"),
        errors.RunNotFoundError("it broke", run_id="r1", remedy="mend it"),
        errors.RunExistsError("it broke", run_id="r1"),
        errors.SessionClosedError("it broke"),
        errors.IdempotencyConflictError("it broke", run_id="r1"),
        errors.QueueFullError("it broke"),
        errors.DrainingError("it broke", retry_after_s=7),
        errors.RequestError("it broke", run_id="r1"),
        errors.RequestError("it broke", errno=errno.ETIMEDOUT),
        errors.JournalError("it broke", run_id="r1"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_as_it_was(error: errors.HoldfastError) -> None:
    problem = problems.problem_of(error)
    headers = {name.lower(): value for name, value in problem.headers.items()}
    copy = error_of(problem.problem.status, msgspec.json.encode(problem.problem), headers)
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_every_kind_of_problem_is_an_error_of_ours() -> None:
    for kind in (value for value in vars(problems).values() if isinstance(value, problems.ProblemKind)):
        problem = problems.ProblemError(kind).problem
        error = error_of(kind.status, msgspec.json.encode(problem))
        assert isinstance(error, errors.HoldfastError)
        assert kind.title in str(error)


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'{"type": 5}', b'{"detail": {}}', b"[" * 100_000])
def test_an_answer_of_somebody_else(body: bytes) -> None:
    error = error_of(502, body)
    assert isinstance(error, errors.DaemonError)
    assert error.status == 502
    assert "HTTP 502 without a reason" in str(error)


def test_what_is_posted_is_what_the_daemon_takes() -> None:
    options: Any = {
        "cwd": "sub",
        "env": {"A": "b"},
        "env_keep": "X,Y",
        "env_drop": ["Z"],
        "stdin": "file",
        "merge": True,
        "timeout": "1m",
        "max_timeout": 120,
        "idle_timeout": 5,
        "idle_counts": "cpu,output",
        "grace": 1,
        "ladder": [("INT", 2)],
        "drain": 0.5,
        "drain_idle": "10ms",
        "kill_wait": 3,
        "stragglers": "wait",
        "warn_before": 1,
        "warn_signal": signal.SIGHUP,
        "memory": "1M",
        "cpu_time": 9,
        "pids": 5,
        "max_output": "2K",
        "on_max_output": "drop",
        "session": "s",
        "labels": {"k": "v"},
        "name": "n",
        "run_id": "r1",
        "parent": "p1",
        "priority": 3,
        "queue_timeout": "2s",
        "delay": "1s",
        "after": "r0",
        "concurrency_key": "k",
        "parallel": 2,
        "on_verdict": "http://x/",
        "cpus": 1,
        "gpus": 0.5,
        "resources": {"thing": 1},
        "node_labels": {"zone": "b"},
        "host": "far",
        "no_wait": True,
        "ready": ["port:3000"],
    }
    taken = msgspec.convert(posted(["a", "b"], options), Submission)
    given = {name for name in Submission.__struct_fields__ if getattr(taken, name) not in (None, [], {})}
    not_together = {"pty", "in_container", "container_runtime"}  # pty excludes stdin, a container excludes budgets
    assert given == set(Submission.__struct_fields__) - not_together
    assert (taken.cwd, taken.stdin) == (os.path.abspath("sub"), os.path.abspath("file"))
    assert (taken.timeout_s, taken.memory_bytes, taken.ladder, taken.warn_signal) == (
        60,
        1 << 20,
        "INT:2s,KILL",
        "SIGHUP",
    )
    assert taken.spec("r1").timeout_s == 60
    assert posted(["a"], {"pty": True})["pty"] is True
    assert posted(["a"], {}) == {"argv": ["a"]}, "for the rest the daemon's defaults count"


STREAM = (
    b'retry: 1500\n: hello\n\nid: 7\nevent: run.queued\ndata: {"a": 1}\n\n'
    b'event: run.output\r\ndata: {"b":\r\ndata: 2}\r\n\r\n: beat\n\n'
    b"id: 8\rdata: {}\r\rid: 9\ndata: no json\n\nid: 10\ndata: {"
)
EVENTS = [Event("7", "run.queued", {"a": 1}), Event(None, "run.output", {"b": 2}), Event("8", "message", {})]


@given(st.lists(st.integers(1, 30), max_size=60))
def test_events_in_pieces_of_any_size(sizes: list[int]) -> None:
    parser, at, found = EventParser(), 0, []
    for size in [*sizes, len(STREAM)]:
        found += parser.feed(STREAM[at : at + size])
        at += size
    assert found == EVENTS
    assert (parser.last_id, parser.retry_s) == ("9", 1.5), "what is not complete does not count"


@given(st.binary(max_size=200))
def test_a_stream_of_anything(data: bytes) -> None:
    for event in EventParser().feed(data):
        assert isinstance(event.data, dict)


def test_patience_grows_and_ends() -> None:
    error = errors.DaemonUnreachableError("gone")
    with pytest.raises(errors.DaemonUnreachableError):
        Patience(60.0).pause(error)  # a daemon that never answered is not tried again
    patience = Patience(60.0)
    patience.worked()
    pauses = [patience.pause(error) for _ in range(9)]
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == 2.5
    patience.worked()
    assert patience.pause(error) == 0.1
    impatient = Patience(0.0)
    impatient.worked()
    with pytest.raises(errors.DaemonUnreachableError):
        impatient.pause(error)


def test_an_endpoint_never_shows_its_token() -> None:
    assert "hush" not in Endpoint.of("http://h:1", "hush", None).shown
    assert "hush" not in repr(Endpoint.of("http://h:1", "hush", None))
