"""Output over HTTP: ranges that fit together, late bytes that stay behind, following to the end, frames."""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.journal.codec import encode, encode_fact, journal_preamble
from holdfast.journal.facts import OUTPUT

from ....support.daemons import BOUND_S, Gate, daemon
from ....support.durable import USAGE
from ....support.web import connect, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ....support.children import Children
    from ....support.daemons import Daemon

pytestmark = pytest.mark.guard
FRAMES = {"Accept": "application/x-ndjson"}
BOTH = "echo one; echo ONE >&2; echo two; echo TWO >&2"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests here."""
    with daemon(tmp_path_factory.mktemp("output") / "state") as started:
        yield started


def settled(running: Daemon, argv: list[str], **fields: Any) -> str:
    """Run it to its end; returns its id."""
    run_id: str = running.submit(argv, **fields)["run_id"]
    running.wait(run_id)
    return run_id


def frames(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines()]


def test_a_stream_is_its_bytes_and_the_head_says_where_to_go_on(running: Daemon) -> None:
    run_id = settled(running, ["sh", "-c", BOTH])
    path = f"/v1/runs/{run_id}/output"
    stdout = fetch(running, f"{path}?stream=stdout")
    assert (stdout.status, stdout.body) == (200, b"one\ntwo\n")
    assert stdout.headers["content-type"] == "application/octet-stream"
    told = [stdout.headers[f"holdfast-{name}"] for name in ("offset", "next-offset", "complete")]
    assert told == ["0", "8", "true"]
    assert fetch(running, f"{path}?stream=stderr").body == b"ONE\nTWO\n"
    assert sorted(fetch(running, path).body.splitlines()) == [b"ONE", b"TWO", b"one", b"two"]


@pytest.mark.parametrize(
    ("query", "body", "after", "complete"),
    [
        ("offset=4", b"two\n", 8, "true"),
        ("offset=4&limit=2", b"tw", 6, "false"),
        ("offset=0&limit=0", b"", 0, "false"),
        ("offset=8", b"", 8, "true"),
        ("offset=-3", b"wo\n", 8, "true"),
        ("offset=-100", b"one\ntwo\n", 8, "true"),
        ("offset=-3&limit=1", b"w", 6, "false"),
        ("limit=100", b"one\ntwo\n", 8, "true"),
    ],
)
def test_ranges(running: Daemon, two: str, query: str, body: bytes, after: int, complete: str) -> None:
    raw = fetch(running, f"/v1/runs/{two}/output?stream=stdout&{query}")
    assert (raw.status, raw.body, int(raw.headers["holdfast-next-offset"])) == (200, body, after)
    assert raw.headers["holdfast-complete"] == complete
    followed = fetch(running, f"/v1/runs/{two}/output?stream=stdout&follow=true&{query}")
    assert followed.body == body


@pytest.fixture(scope="module")
def two(running: Daemon) -> str:
    """A run that wrote two lines to each stream."""
    return settled(running, ["sh", "-c", BOTH])


def test_beyond_the_end_there_is_nothing(running: Daemon, two: str) -> None:
    raw = fetch(running, f"/v1/runs/{two}/output?stream=stdout&offset=9")
    assert (raw.status, raw.json["field"], raw.headers["holdfast-next-offset"]) == (416, "offset", "8")


@pytest.mark.parametrize("query", ["stream=stdin", "offset=x", "limit=-1", "follow=perhaps", "o=1"])
def test_what_makes_no_sense_is_refused(running: Daemon, two: str, query: str) -> None:
    assert fetch(running, f"/v1/runs/{two}/output?{query}").status == 422


def test_frames_keep_streams_apart_and_in_order(running: Daemon, tmp_path: Path) -> None:
    # Two gates: at one, the command could come back before we have closed it, and pass through it at once.
    first, second = Gate(tmp_path / "first"), Gate(tmp_path / "second")
    script = f"echo a; read -r _ <{first.path}; echo B >&2; read -r _ <{second.path}; echo c"
    run_id = running.submit(["sh", "-c", script])["run_id"]
    for text, stream, gate in ((b"a", "stdout", first), (b"B", "stderr", second)):
        running.until_output(run_id, text, stream)  # it is recorded before the next is written
        gate.open()
    running.wait(run_id)
    raw = fetch(running, f"/v1/runs/{run_id}/output", headers=FRAMES)
    assert raw.headers["content-type"] == "application/x-ndjson"
    found = frames(raw.body)
    assert [(one["stream"], one["offset"], base64.b64decode(one["data"]), one["late"]) for one in found] == [
        ("stdout", 0, b"a\n", False),
        ("stderr", 2, b"B\n", False),
        ("stdout", 4, b"c\n", False),
    ]
    report = running.report(run_id)
    assert report["started_at"] <= found[0]["at"] <= found[-1]["at"] <= report["settled_at"]
    tail = frames(fetch(running, f"/v1/runs/{run_id}/output?offset=3", headers=FRAMES).body)
    assert [(one["offset"], base64.b64decode(one["data"])) for one in tail] == [(3, b"\n"), (4, b"c\n")]


def test_late_output_is_given_to_those_who_ask_for_it(running: Daemon) -> None:
    late = "trap 'echo late; exit 0' TERM; echo ready; while :; do sleep 600 & wait; done"
    run_id = running.submit(["bash", "-c", late], timeout_s=1.5)["run_id"]
    report = running.wait(run_id)
    assert (report["status"], report["output"]["late_bytes"]) == ("timed_out", 5)
    path = f"/v1/runs/{run_id}/output?stream=stdout"
    assert fetch(running, path).body == b"ready\n"
    assert fetch(running, f"{path}&follow=true").body == b"ready\n"
    assert fetch(running, f"{path}&late=true").body == b"ready\nlate\n"
    assert fetch(running, f"{path}&late=true&offset=6").body == b"late\n"
    assert [one["late"] for one in frames(fetch(running, f"{path}&late=true", headers=FRAMES).body)] == [False, True]


def test_a_follower_of_what_is_on_time_does_not_wait_for_the_child(running: Daemon) -> None:
    stays = "trap 'echo late' TERM; echo ready; while :; do sleep 600 & wait; done"
    run_id = running.submit(["bash", "-c", stays], timeout_s=1.5, grace_s=600)["run_id"]
    # This waits for the end: no output on time can follow late bytes of the same stream.
    assert fetch(running, f"/v1/runs/{run_id}/output?stream=stdout&follow=true").body == b"ready\n"
    assert running.report(run_id)["state"] == "stopping"
    running.cancel(run_id, now=True)
    running.wait(run_id)


def test_polling_with_the_next_offset_misses_nothing(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = running.submit(gate.waits("echo and more"))["run_id"]
    running.until_output(run_id)
    path = f"/v1/runs/{run_id}/output?stream=stdout"
    first = fetch(running, path)
    assert (first.body, first.headers["holdfast-complete"]) == (b"ready\n", "false")
    after = first.headers["holdfast-next-offset"]
    assert fetch(running, f"{path}&offset={after}").body == b""
    gate.open()
    running.wait(run_id)
    rest = fetch(running, f"{path}&offset={after}")
    assert (rest.body, rest.headers["holdfast-complete"]) == (b"and more\n", "true")


def test_a_follower_gets_it_as_it_comes_and_then_the_end(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = running.submit(gate.waits("echo and more"))["run_id"]
    connection = connect(running)
    connection.request("GET", f"/v1/runs/{run_id}/output?follow=true")
    response = connection.getresponse()
    assert response.getheader("holdfast-next-offset") is None
    assert response.read(6) == b"ready\n"  # while it waits
    gate.open()
    assert response.read() == b"and more\n"
    connection.close()
    running.wait(run_id)


def test_a_queued_run_is_followed_from_the_queue(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state", "--max-runs", "1") as running:
        first = running.submit(gate.waits())["run_id"]
        queued = [running.submit(["echo", f"run {number}"])["run_id"] for number in range(2)]
        running.until_output(first)
        empty = fetch(running, f"/v1/runs/{queued[0]}/output")
        assert (empty.status, empty.body, empty.headers["holdfast-complete"]) == (200, b"", "false")
        connections = []
        for run_id in queued:
            connections.append(connect(running))
            connections[-1].request("GET", f"/v1/runs/{run_id}/output?follow=true")
        running.cancel(queued[1])  # ends in the queue: nothing to read, and an end
        assert connections[1].getresponse().read() == b""
        gate.open()
        assert connections[0].getresponse().read() == b"run 0\n"
        for connection in connections:
            connection.close()
        for run_id in (first, *queued):
            running.wait(run_id)


def test_every_byte_of_a_large_run_arrives_whole_and_in_parts(running: Daemon, child: Children) -> None:
    size = 48 << 20
    run_id = settled(running, child("writes_bytes", size))
    path = f"/v1/runs/{run_id}/output?stream=stdout"
    whole = fetch(running, path).body
    block = bytes(ord("a") + i % 26 for i in range(1 << 20))
    assert len(whole) == size
    assert all(whole[at : at + len(block)] == block for at in range(0, size, len(block)))
    for offset in (0, 1, (1 << 20) - 1, size // 2 + 7, size - 10):
        part = fetch(running, f"{path}&offset={offset}&limit=1000").body
        assert part == whole[offset : offset + 1000]


def test_a_client_that_reads_nothing_stops_nobody(running: Daemon, child: Children) -> None:
    run_id = running.submit(child("writes_bytes", 32 << 20))["run_id"]
    stalled = [connect(running) for _ in range(3)]
    for connection in stalled:
        connection.request("GET", f"/v1/runs/{run_id}/output?follow=true")
    assert running.wait(run_id)["status"] == "succeeded"
    assert running.request("GET", "/v1/health").status == 200
    for connection in stalled:
        connection.close()


def test_nobody_keeps_a_descriptor_of_a_journal(running: Daemon, two: str) -> None:
    for path in (f"/v1/runs/{two}/output", f"/v1/runs/{two}/output?offset=99", f"/v1/runs/{two}/output?follow=true"):
        for method in ("GET", "HEAD"):
            fetch(running, path, method=method)
    # An answer is complete before its reader is closed, and the history also opens journals: neither stays open.
    end = time.monotonic() + BOUND_S
    while held_of(running, two) and time.monotonic() < end:
        assert running.request("GET", "/v1/health").status == 200
    assert not held_of(running, two)


def held_of(running: Daemon, run_id: str) -> list[str]:
    """The files of this run that the daemon has open."""
    descriptors, held = f"/proc/{running.process.pid}/fd", []
    for name in os.listdir(descriptors):
        try:
            held.append(os.readlink(f"{descriptors}/{name}"))
        except FileNotFoundError:
            continue  # closed meanwhile
    return [path for path in held if run_id in path]


@pytest.mark.slow
def test_a_late_range_of_a_gigabyte_opens_fast(running: Daemon) -> None:
    size, frame = 1 << 30, 64 << 10
    directory = running.state_dir / "runs" / ".new-giant"  # under this name no reader looks at it
    directory.mkdir(mode=0o700)
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    one = encode(OUTPUT, b"x" * frame, at_ns=at_ns, stream=1)
    with (directory / "journal").open("wb") as file:
        file.write(journal_preamble("giant", "boot", time.time_ns(), at_ns, b'{"argv": ["x"]}'))
        for _ in range(size // frame // 64):
            file.write(one * 64)
        file.write(encode(OUTPUT, b"the end", at_ns=at_ns, stream=1))
        file.write(encode_fact("exited", {"wait_status": 0, **USAGE}, at_ns=at_ns))
        file.write(encode_fact("end", USAGE, at_ns=at_ns))
    directory = directory.rename(running.state_dir / "runs" / "giant")
    try:
        took = []
        for _ in range(2):
            began = time.monotonic()
            raw = fetch(running, f"/v1/runs/giant/output?offset={size}")
            took.append(time.monotonic() - began)
            assert (raw.status, raw.body) == (200, b"the end")
        assert took[0] < 20  # measured: 0.1 s, all frames stepped over
        assert took[1] < 5  # measured: 0.005 s, from the map
    finally:
        shutil.rmtree(directory)


def test_output_that_rolled_says_where_bytes_are_missing(running: Daemon) -> None:
    run_id = settled(running, ["seq", "1", "9999"], max_output_bytes=8192, on_max_output="roll")
    path = f"/v1/runs/{run_id}/output?stream=stdout"
    raw = fetch(running, path)
    assert (raw.body[:4], raw.body[-5:], raw.headers["holdfast-complete"]) == (b"1\n2\n", b"9999\n", "true")
    found = frames(fetch(running, path, headers=FRAMES).body)
    (behind,) = [frame for frame in found if "missing_bytes" in frame]
    written = len(b"".join(b"%d\n" % number for number in range(1, 10000)))
    missing = written - len(raw.body)
    assert (behind["offset"], behind["missing_bytes"]) == (4096 + missing, missing)
    assert raw.headers["holdfast-next-offset"] == str(written)
    assert fetch(running, f"{path}&offset=5000&limit={missing - 904 + 9}").body == raw.body[4096:4105], "behind the gap"
    assert fetch(running, f"{path}&offset={written - 5}").body == b"9999\n"
    assert behind["missing_bytes"] == running.report(run_id)["output"]["dropped_bytes"]
    assert b"".join(base64.b64decode(frame["data"]) for frame in found) == raw.body


def test_control_output_within_its_limit_misses_nothing(running: Daemon) -> None:
    run_id = settled(running, ["seq", "1", "100"], max_output_bytes=8192, on_max_output="roll")
    assert b"missing_bytes" not in fetch(running, f"/v1/runs/{run_id}/output", headers=FRAMES).body
