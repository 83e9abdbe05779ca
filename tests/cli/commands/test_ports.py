"""The ports of a run on the command line."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from ...support.listening import free_port, listens
from ...support.readiness import names_in, read_ready
from ..console import HOLDFAST, holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from ..kept_runs import Runs


def listener(runs: Runs, *options: str) -> tuple[str, int]:
    """A run that listens, and its port."""
    run_id = runs.start(*listens("daemon"), options=options)
    runs.until(run_id, b"\n")
    return run_id, names_in(holdfast("logs", run_id).stdout)["port"]


def test_ps_and_show(runs: Runs) -> None:
    run_id, port = listener(runs)
    quiet = runs.sleeper()
    assert {row["run_id"]: row["ports"] for row in as_json(holdfast("ps", "--json"))} == {run_id: [port], quiet: []}
    assert f"  {port}  " in holdfast("ps").stdout.decode()
    assert f"listens on   127.0.0.1:{port} (process " in holdfast("show", run_id).stdout.decode()
    assert b"listens on" not in holdfast("show", quiet).stdout
    assert runs.report(run_id)["ports"] == [port]
    holdfast("cancel", "--now", run_id)
    assert runs.report(run_id)["ports"] is None


class TestCancel:
    def test_the_run_on_the_port_ends_with_its_whole_tree_and_no_other(self, runs: Runs) -> None:
        run_id, port = listener(runs)
        other, other_port = listener(runs)
        done = holdfast("cancel", "--port", str(port))
        assert (done.returncode, done.stdout.decode()) == (0, f"{run_id}  gone  cancelled/user\n")
        assert (runs.report(other)["state"], runs.report(other)["ports"]) == ("running", [other_port])

    def test_a_stranger_is_named_and_not_signalled(self, runs: Runs) -> None:
        runs.sleeper()
        with subprocess.Popen(listens(), stdout=subprocess.PIPE) as stranger:
            assert stranger.stdout is not None
            port = read_ready(stranger.stdout.fileno())["port"]
            line = one_line(holdfast("cancel", "--now", "--port", str(port)))
            assert f"listens on port {port}: process {stranger.pid} (python" in line
            assert "nothing was signalled" in line
            stranger.send_signal(0)
            assert stranger.poll() is None
            stranger.kill()

    def test_a_port_without_a_listener(self, runs: Runs) -> None:
        runs.sleeper()
        assert "no process that you can see does" in one_line(holdfast("cancel", "--port", str(free_port())))

    def test_of_nested_runs_the_inner_one_ends(self, runs: Runs) -> None:
        inner = " ".join(map(shlex.quote, [*HOLDFAST, "run", "--id", "inner", "--", *listens()]))
        outer = runs.start("sh", "-c", f"{inner}; echo went on; exec sleep 600")
        runs.until(outer, b"ready")
        port = names_in(holdfast("logs", outer).stdout)["port"]
        assert runs.report(outer)["ports"] == runs.report("inner")["ports"] == [port]
        assert holdfast("cancel", "--port", str(port)).returncode == 0
        runs.until(outer, b"went on")
        assert runs.report("inner")["cause"] == "user"

    def test_two_runs_on_one_port_are_named_and_none_ends(self, runs: Runs) -> None:
        first, port = listener(runs)
        second = runs.start(*listens(port=port, host="127.0.0.2"))
        runs.until(second, b"ready")
        line = one_line(holdfast("cancel", "--port", str(port)))
        assert first in line
        assert second in line
        assert [runs.report(run_id)["state"] for run_id in (first, second)] == ["running", "running"]

    @pytest.mark.parametrize("words", [["--port", "0"], ["--port", "x"], ["--port", "80", "--session", "s"]])
    def test_bad_input(self, runs: Runs, words: list[str]) -> None:
        runs.sleeper()
        assert "--port" in one_line(holdfast("cancel", *words))
