"""The routes of dashboards: numbers of live runs, trees, timelines, statistics, text in logs, repairs."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from holdfast.daemon.http.routes.statistics import count, percentile
from holdfast.state import run_directory

from ....support.daemons import Daemon, UnixConnection, daemon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Orphans belong to the whole host: tests that end all orphans and tests that leave one take turns.
pytestmark = pytest.mark.xdist_group("orphans")

# It is ready when the fork of the shell has become `sleep`: before that, /proc shows a second shell.
TREE = [
    "sh",
    "-c",
    'sleep 600 & until read -r name < /proc/$!/comm && [ "$name" = sleep ]; do :; done; echo ready; wait',
]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Daemon]:
    with daemon(tmp_path / "state") as started:
        yield started


def get(running: Daemon, path: str) -> Any:
    answer = running.request("GET", path)
    assert answer.status == 200, answer
    return answer.body


def test_live_runs_in_numbers_and_their_trees(running: Daemon) -> None:
    run_id = running.submit(TREE, timeout_s=600, idle_timeout_s=300)["run_id"]
    running.until_output(run_id)
    (found,) = get(running, "/v1/processes")["runs"]
    assert (found["run_id"], found["state"], found["processes"]) == (run_id, "running", 2)
    assert found["output_bytes"] == len("ready\n")
    assert found["rss_bytes"] > 0
    report = running.report(run_id)
    assert found["deadline_at"] > found["idle_at"] > report["started_at"]
    tree = get(running, f"/v1/runs/{run_id}/processes")["processes"]
    assert [one["command"].split()[0] for one in tree] == ["sh", "sleep"]
    assert tree[0]["pid"] == report["pid"] == tree[1]["parent_pid"]
    before = found["deadline_at"]
    running.request("POST", f"/v1/runs/{run_id}/extend", {"seconds": 60})
    stream = UnixConnection(running.socket)
    stream.request("GET", "/v1/processes?every_s=0.5", headers={"Accept": "text/event-stream"})
    response = stream.getresponse()
    looks: list[dict[str, Any]] = []
    while len(looks) < 2:  # a stream of looks; the second one has rates
        line = response.readline()
        if line.startswith(b"data: "):
            looks.append(json.loads(line[6:])["runs"][0])
    stream.close()
    assert looks[1]["output_rate"] == 0
    assert looks[1]["cpu_percent"] is not None
    assert looks[1]["deadline_at"] > before
    running.cancel(run_id, now=True)
    running.wait(run_id)
    assert get(running, f"/v1/runs/{run_id}/processes")["processes"] == []


def test_what_was_asked_for_is_told_without_the_environment(running: Daemon) -> None:
    run_id = running.submit(["true"], env={"SECRET": "hunter2"}, timeout_s=5, name="x")["run_id"]
    running.wait(run_id)
    spec = get(running, f"/v1/runs/{run_id}/spec")["spec"]
    assert (spec["argv"], spec["timeout_s"], spec["name"]) == (["true"], 5.0, "x")
    assert "hunter2" not in json.dumps(spec)
    assert running.request("GET", "/v1/runs/nobody/spec").status == 404


def test_a_timeline_marks_what_decided_and_when_it_wrote(running: Daemon) -> None:
    script = "trap 'echo late; exit 0' TERM; echo ready; sleep 600 & wait"
    run_id = running.submit(["sh", "-c", script], timeout_s=1.5)["run_id"]
    running.wait(run_id)
    story = get(running, f"/v1/runs/{run_id}/timeline")
    marks = {one["fact"]: one["mark"] for one in story["moments"]}
    assert (marks["deadline"], marks["exited"], marks["started"]) == ("decided", "late", "")
    assert [one["late"] for one in story["activity"]] == [False, True]
    assert sum(one["bytes"] for one in story["activity"]) == len("ready\nlate\n")
    assert story["now_s"] is None


def test_text_is_found_in_one_log_and_in_many(running: Daemon) -> None:
    script = "seq 1000; echo 'a Needle'; printf 'in two '; echo parts >&2; echo 'needles'; seq 1000"
    first = running.submit(["sh", "-c", script], name="first")["run_id"]
    second = running.submit(["sh", "-c", "echo nothing; exit 1"], name="second")["run_id"]
    for run_id in (first, second):
        running.wait(run_id)
    found = get(running, f"/v1/search?run_id={first}&q=needle")
    assert [one["line"] for one in found["matches"]] == ["a Needle", "in two needles"]
    assert found["skip"] is None
    offset = found["matches"][0]["offset"]
    connection = UnixConnection(running.socket)
    connection.request("GET", f"/v1/runs/{first}/output?late=true&offset={offset}&limit=8")
    assert connection.getresponse().read() == b"a Needle"
    connection.close()
    assert get(running, f"/v1/search?run_id={first}&q=needle&case=true")["matches"][0]["line"] == "in two needles"
    assert get(running, f"/v1/search?run_id={first}&q={quote('.*')}")["matches"] == []
    paged = get(running, f"/v1/search?run_id={first}&q=needle&limit=1")
    assert [one["line"] for one in paged["matches"]] == ["a Needle"]
    rest = get(running, f"/v1/search?run_id={first}&q=needle&skip={paged['skip']}")
    assert [one["line"] for one in rest["matches"]] == ["in two needles"]
    many = get(running, "/v1/search?q=n")
    assert {one["run_id"] for one in many["matches"]} == {first, second}
    assert many["runs_searched"] == 2
    only = get(running, "/v1/search?q=n&status=failed")
    assert {one["run_id"] for one in only["matches"]} == {second}
    assert running.request("GET", "/v1/search?q=x&run_id=nobody").status == 404
    assert running.request("GET", "/v1/search").status == 422


def test_a_line_ends_where_output_was_taken_out(running: Daemon) -> None:
    """The head and the tail are cut within a line: their pieces are two lines, and not one that nobody wrote."""
    row = "a row {:06} end"  # 17 bytes with its newline: the head of 4,096 bytes ends right before one
    asked: dict[str, Any] = {"max_output_bytes": 8192, "on_max_output": "roll"}
    run_id = running.submit(["seq", "-f", "a row %06g end", "1", "9999"], **asked)["run_id"]
    assert running.wait(run_id)["output"]["dropped_bytes"] > 0
    last = row.format(241)
    (found,) = get(running, f"/v1/search?run_id={run_id}&q={quote(last)}")["matches"]
    assert (found["offset"], found["line"]) == (4096 - len(last), last)
    behind = get(running, f"/v1/search?run_id={run_id}&q=d&skip={4096 - len(last)}&limit=2")["matches"][1]
    assert behind["offset"] > 4096
    assert row.format(behind["offset"] // 17 + 1).endswith(behind["line"])


def test_statistics_count_what_ended(running: Daemon) -> None:
    for argv in (["true"], ["true"], ["false"]):
        running.wait(running.submit(argv)["run_id"])
    running.request("GET", "/v1/runs")  # takes ended runs into the index
    found = get(running, "/v1/statistics?slices=4")
    assert found["outcomes"] == {"succeeded": 2, "failed": 1, "timed_out": 0, "cancelled": 0, "lost": 0}
    last = found["slices"][-1]
    assert last["outcomes"]["succeeded"] == 2
    assert last["duration_p99_s"] >= last["duration_p50_s"] >= 0
    assert last["queue_p50_s"] >= 0
    assert found["slices"][0]["duration_p50_s"] is None
    query = "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z"
    assert running.request("GET", f"/v1/statistics?{query}").status == 422


def test_slices_have_all_rows_and_the_nearest_rank() -> None:
    rows = [(at, "succeeded" if at % 2 else "failed", float(at), None, None) for at in range(100)]
    found = count(rows, 0, 100, 3)
    assert sum(sum(one.outcomes.values()) for one in found.slices) == 100
    assert found.outcomes["failed"] == 50
    ordered = [float(at) for at in range(100)]
    assert (percentile(ordered, 0.5), percentile(ordered, 0.99), percentile([], 0.5)) == (50.0, 99.0, None)


def test_only_repairs_that_were_seen_are_done(running: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = running.submit(["true"])["run_id"]
    running.wait(run_id)
    left = running.state_dir / "runs" / run_id / run_directory.SOCKET
    get(running, "/v1/runs")  # it is in the index: no other reader looks at its leftovers
    monkeypatch.chdir(left.parent)  # the address of a socket is short
    left.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(left.name)  # and nobody listens
    plan = get(running, "/v1/doctor/repairs")["repairs"]
    (mine,) = [one for one in plan if one["path"] == str(left)]
    refused = running.request("POST", "/v1/doctor/repairs", {"repairs": ["made-up"]})
    assert refused.body == {"done": [], "unknown": ["made-up"]}
    assert left.exists()
    done = running.request("POST", "/v1/doctor/repairs", {"repairs": [mine["repair"]]})
    assert [one["confirmed"] for one in done.body["done"]] == [True]
    assert not left.exists()
    assert running.request("POST", "/v1/doctor/repairs", {"repairs": []}).status == 422
