"""A run in a container: its output, its exit, its record, and the options that are refused."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holdfast

from ..cli.console import Console
from ..cli.console import holdfast as cli
from ..cli.kept_runs import Runs, one_line
from ..support.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..support.containers import Container, Containers

pytestmark = pytest.mark.root


def run(container: Container, script: str, **options: Any) -> holdfast.Result:
    """A shell script inside, to its end."""
    result: holdfast.Result = holdfast.run(
        ["/bin/sh", "-c", script], in_container=container.name, container_runtime=container.runtime, **options
    )
    return result


def fact(report: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return next(entry for entry in report["evidence"] if entry["fact"] == kind)


def test_output_exit_and_record(container: Container) -> None:
    result = run(container, "echo $$; echo problem >&2; exit 7")
    assert (result.status, result.cause, result.exit_code) == ("failed", "exit", 7)
    assert result.stderr == b"problem\n"
    report = result.report
    assert (report["containment"], report["tree"], report["stragglers"]) == ("container", "gone", 0)
    entered = fact(report, "entered")
    assert entered["pid"] == int(result.stdout)  # as the container counts
    assert entered["container"] == container.name
    kinds = [entry["fact"] for entry in report["evidence"]]
    assert kinds.index("entered") < kinds.index("started") < kinds.index("exited") < kinds.index("tree")


def test_a_signal_of_its_own_is_told_from_an_exit_code(container: Container) -> None:
    assert (run(container, "kill -9 $$").cause, run(container, "exit 137").cause) == ("signal", "exit")


def test_every_byte_arrives_and_is_on_time(container: Container) -> None:
    line = "0123456789abcdef" * 32
    result = run(container, f"i=0; while [ $i -lt 8000 ]; do echo {line}; i=$((i+1)); done; printf '\\000\\377end'")
    assert result.stdout == f"{line}\n".encode() * 8000 + b"\0\xffend"
    assert result.report["output"]["late_bytes"] == 0
    assert result.report["output"]["complete"]


def test_environment_and_directory_are_the_containers(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_HOST", "x")
    script = 'echo "[$OF_THE_HOST] [$GIVEN] $container $PWD $HOLDFAST_RUN_ID"'
    result = run(container, script, env={"GIVEN": "a b"}, cwd="/bin")
    assert result.stdout.decode() == f"[] [a b] podman /bin {result.report['run_id']}\n"


def test_nothing_of_the_command_is_in_the_command_lines_of_the_runtime(container: Container, runs: Runs) -> None:
    words = ("--env", "TOKEN=hunter2", *container.options)
    run_id = runs.start("/bin/sh", "-c", "echo ready; read x </dev/ptmx; : hunter3", options=words)
    runs.until(run_id, b"ready")
    started = fact(runs.report(run_id), "started")
    outside = descendants(started["guard_pid"]) - set(container.processes())
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in outside]
    assert any(b"attach" in line for line in lines)
    assert not any(b"hunter" in line for line in lines)
    assert b"hunter2" not in runs.journal(run_id).read_bytes()


def test_stdin_and_its_end(container: Container) -> None:
    result = run(container, 'read x; echo "got $x"; read y || echo end', stdin=Path("/etc/hostname"))
    assert result.stdout == b"got " + Path("/etc/hostname").read_bytes() + b"end\n"


def test_at_a_terminal(container: Container) -> None:
    script = "trap 'echo interrupted; exit 5' INT; test -t 0 && test -t 2 && echo ready; while :; do read x; done"
    words = ["-m", "holdfast.cli.main", "run", *container.options, "--", "/bin/sh", "-c", script]
    with Console(sys.executable, *words) as console:
        console.until(b"ready")
        console.type(b"\x03")
        console.until(b"interrupted")
        assert console.wait() == 5


def test_the_agent_is_brought_once(containers: Containers) -> None:
    with containers.container() as fresh:
        first, second = run(fresh, "echo /.holdfast-*"), run(fresh, "echo /.holdfast-*")
        assert first.stdout == second.stdout
        assert len(first.stdout.split()) == 1
        assert fact(second.report, "entered")["at_s"] < fact(first.report, "entered")["at_s"]


def test_several_first_runs_at_once(containers: Containers) -> None:
    with containers.container() as fresh, ThreadPoolExecutor(4) as together:
        results = list(together.map(lambda code: run(fresh, f"exit {code}"), range(4)))
    assert [result.exit_code for result in results] == [0, 1, 2, 3], [result.report["reason"] for result in results]


@pytest.mark.parametrize(
    ("argv", "code"), [(["/nothing"], 127), (["nothing"], 127), (["/proc/version"], 126)], ids=lambda value: str(value)
)
def test_what_cannot_be_executed_there(container: Container, argv: list[str], code: int) -> None:
    done = cli("run", *container.options, "--", *argv)
    assert done.returncode == code


def test_a_directory_that_is_not_there(container: Container) -> None:
    with pytest.raises(holdfast.HoldfastError, match="the working directory cannot be entered"):
        run(container, ":", cwd="/nowhere").check()


def test_no_such_container(container: Container) -> None:
    done = cli("run", "--in-container", "nobody", "--runtime", container.runtime, "--", "/bin/sh")
    assert "the container could not be entered: Error: no container with name or ID" in one_line(done)


def test_a_container_that_does_not_run(doomed: Container) -> None:
    doomed.owner.podman("kill", doomed.name)
    result = run(doomed, ":")
    assert (result.status, result.cause, result.report["tree"]) == ("failed", "spawn", "gone")
    assert "can only create exec sessions on running containers" in result.report["reason"]


def test_no_such_runtime(container: Container) -> None:
    done = cli("run", "--in-container", container.name, "--runtime", "/nowhere/docker", "--", "/bin/sh")
    assert "there is no program '/nowhere/docker'" in one_line(done)


def test_another_name_for_the_runtime(container: Container, tmp_path: Path) -> None:
    """Docker itself is not here; podman accepts its command line."""
    words = container.runtime.split()
    (tmp_path / "docker").write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    result = holdfast.run(
        ["/bin/sh", "-c", "exit 3"], in_container=container.name, container_runtime=str(tmp_path / "docker")
    )
    assert (result.exit_code, result.report["containment"], result.report["tree"]) == (3, "container", "gone")


def test_a_signal_on_request_goes_inside(container: Container, runs: Runs) -> None:
    script = "trap 'echo used; exit 4' USR1; echo ready; while :; do read -t 60 x; done </dev/ptmx"
    run_id = runs.start("/bin/sh", "-c", script, options=container.options)
    runs.until(run_id, b"ready")
    assert cli("signal", run_id, "USR1").returncode == 0
    assert cli("wait", run_id).returncode == 4
    assert fact(runs.report(run_id), "signalled")["signal"] == signal.SIGUSR1
