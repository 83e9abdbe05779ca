"""Every option of a run through every surface that can set it: it is in force, and an adopted run has it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import pytest

import holdfast
from holdfast.acp import Terminals
from holdfast.config import Config
from holdfast.daemon.queue.submission import Submission
from holdfast.runs.durable import adopt
from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord
from holdfast.values.options import ACP, HTTP, JOURNAL, MCP, OPTIONS, SIDECAR, RunOption
from holdfast.values.spec import RunSpec, make_spec, public_spec

from ..cli.console import holdfast as command
from ..mcp.serving import in_process
from ..support.daemons import daemon
from ..support.sidecars import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..support.daemons import Daemon

ARGV = ["true"]


class Sample(NamedTuple):
    """A value that is not the default: its JSON form, which Python takes as well, and the words of a command line."""

    value: Any
    words: tuple[str, ...]


# One run can have all of these together.
TOGETHER = {
    "cwd": Sample("/", ("/",)),
    "env": Sample({"COLOUR": "green"}, ("COLOUR=green",)),
    "env_keep": Sample(["CLAUDECODE"], ("CLAUDECODE",)),
    "env_drop": Sample(["SECRET_*"], ("SECRET_*",)),
    "stdin": Sample("/dev/null", ("/dev/null",)),
    "merge": Sample(True, ()),
    "timeout": Sample(60.0, ("60",)),
    "max_timeout": Sample(120.0, ("2m",)),
    "idle_timeout": Sample(50.0, ("50s",)),
    "idle_counts": Sample(["output", "cpu"], ("output,cpu",)),
    "grace": Sample(3.0, ("3",)),
    "ladder": Sample("INT:1s,TERM:3s,KILL", ("INT:1s,TERM:3s,KILL",)),
    "drain": Sample(1.0, ("1000ms",)),
    "drain_idle": Sample(0.5, ("0.5",)),
    "kill_wait": Sample(4.0, ("4",)),
    "stragglers": Sample("wait", ("wait",)),
    "warn_before": Sample(5.0, ("5",)),
    "warn_signal": Sample("SIGUSR2", ("USR2",)),
    "memory": Sample(1 << 30, ("1G",)),
    "pids": Sample(500, ("500",)),
    "max_output": Sample(1 << 20, ("1M",)),
    "on_max_output": Sample("drop", ("drop",)),
    "cpu_time": Sample(90.0, ("90",)),
    "session": Sample("walk", ("walk",)),
    "ready": Sample(["port:3000"], ("port:3000",)),
    "labels": Sample({"team": "a"}, ("team=a",)),
    "name": Sample("walker", ("walker",)),
    "run_id": Sample("walked-run", ("walked-run",)),
    "lifetime": Sample("session", ("session",)),
    "parent": Sample("outer-run", ()),
    "queued_at": Sample("2026-01-02T03:04:05.000006Z", ()),
    "priority": Sample(7, ()),
}
A_TERMINAL = {"pty": Sample(True, ())}
A_CONTAINER = {"in_container": Sample("nowhere", ("nowhere",)), "container_runtime": Sample("podman", ("podman",))}
GIVEN = {"stdout": Sample("inherit", ()), "stderr": Sample("inherit", ())}
GROUPS = {"together": TOGETHER, "terminal": A_TERMINAL, "container": A_CONTAINER, "given": GIVEN}
OF_THE_JOURNAL = {
    "foreign": Sample([1234, 5678], ()),
    "starter": Sample([1234, 5678], ()),
    "left_by": Sample("r0", ()),
    "mark": Sample("r0-0123456789abcdef", ()),
}
ALL = TOGETHER | A_TERMINAL | A_CONTAINER | GIVEN | OF_THE_JOURNAL


@pytest.fixture
def anyio_backend() -> str:
    """ACP and MCP are asyncio's."""
    return "asyncio"


@pytest.fixture(params=GROUPS)
def samples(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Sample]:
    """Options that go together. The container's runtime is a program that refuses: no test needs a container here."""
    chosen = dict(GROUPS[request.param])
    if "container_runtime" in chosen:
        podman = tmp_path / "podman"
        podman.write_text("#!/bin/sh\nexit 125\n")
        podman.chmod(0o755)
        chosen["container_runtime"] = Sample(str(podman), (str(podman),))
    return chosen


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def settable(samples: dict[str, Sample], where: Callable[[RunOption], bool]) -> dict[str, RunOption]:
    return {option.name: option for option in OPTIONS if option.name in samples and where(option)}


def on(surface: str) -> Callable[[RunOption], bool]:
    return lambda option: surface in option.surfaces


def as_json(options: dict[str, RunOption], samples: dict[str, Sample]) -> dict[str, Any]:
    return {option.json_name: samples[name].value for name, option in options.items()}


def as_words(options: dict[str, RunOption], samples: dict[str, Sample]) -> list[str]:
    words: list[str] = []
    for name, option in options.items():
        assert option.flag is not None
        words += [option.flag, *samples[name].words]
    return words


def recorded(state: Path, run_id: str) -> dict[str, Any]:
    """The spec in the run's journal."""
    with RunRecord(StateDirectory.open(str(state), create=False), run_id) as record:
        return record.read().reader.spec or {}


def check(spec: dict[str, Any], options: dict[str, RunOption], samples: dict[str, Sample]) -> None:
    """Every one of these options is in force, by the spec on record."""
    assert {name: shown(spec, option) for name, option in options.items()} == {
        name: sorted(samples[name].value) if name == "env" else samples[name].value for name in options
    }


def shown(spec: dict[str, Any], option: RunOption) -> Any:
    if option.name == "env":  # of an environment only the names are recorded
        return [name for name in spec.get("env_names", ()) if name == "COLOUR"]
    return spec.get(option.json_name)


def test_the_table_names_what_a_spec_has() -> None:
    names = [option.name for option in OPTIONS]
    assert names == [name for name in inspect.signature(make_spec).parameters if name != "argv"]
    assert set(names) == set(ALL)
    assert [option.json_name for option in OPTIONS] == [field for field in RunSpec._fields if field != "argv"]
    flags = [option.flag for option in OPTIONS if option.flag]
    assert len(set(flags)) == len(flags)


def test_the_control_the_samples_are_not_the_defaults() -> None:
    """Otherwise a surface that loses an option would pass."""
    default = public_spec(make_spec(ARGV))
    assert [option.name for option in OPTIONS if shown(default, option) == ALL[option.name].value] == []


def test_the_json_form_of_every_option_is_valid_input() -> None:
    for samples in GROUPS.values():
        asked: Any = {name: sample.value for name, sample in samples.items()}
        once = make_spec(ARGV, **asked)
        values = {option.name: getattr(once, option.json_name) for option in OPTIONS if option.name in samples}
        again: Any = {
            option.name: option.to_json(values[option.name]) if option.to_json else values[option.name]
            for option in OPTIONS
            if option.name in samples
        }
        assert again == asked
        assert make_spec(ARGV, **again)._replace(run_id="", mark=None) == once._replace(run_id="", mark=None)


def test_the_daemon_takes_what_the_table_says() -> None:
    about_the_queue = {"argv", "priority", "queue_timeout_s", "concurrency_key", "on_verdict"}
    about_the_start = {"after", "delay_s", "parallel"}
    about_the_host = {"cpus", "gpus", "resources", "node_labels", "host", "no_wait"}
    assert set(Submission.__struct_fields__) - about_the_queue - about_the_start - about_the_host == set(
        as_json(settable(ALL, on(HTTP)), ALL)
    )
    defaults = {name.removeprefix("default_") for name in Config._fields if name.startswith("default_")}
    assert defaults <= set(Submission.__struct_fields__)


@pytest.mark.anyio
async def test_the_library_and_a_run_that_is_adopted(state: Path, samples: dict[str, Sample]) -> None:
    asked: Any = {name: sample.value for name, sample in samples.items()}
    async with holdfast.Supervisor(state_dir=state) as supervisor:
        run = await supervisor.start(ARGV, **asked)
        await run.settled()
        run.close()
    check(recorded(state, run.run_id), settable(samples, lambda _: True), samples)
    adopted = adopt(StateDirectory.open(str(state)), run.run_id)
    adopted.close()
    check(public_spec(adopted.spec), settable(samples, on(JOURNAL)), samples)


def test_the_command_line(state: Path, samples: dict[str, Sample]) -> None:
    options = settable(samples, lambda option: option.flag is not None)
    words = as_words(options, samples)
    done = command("run", "--detach", "--state-dir", str(state), *words, "--", *ARGV)
    assert done.returncode == 0, done
    run_id = done.stdout.decode().strip()
    command("wait", run_id, "--state-dir", str(state))
    check(recorded(state, run_id), options, samples)


def wait_and_read(running: Daemon, run_id: str) -> dict[str, Any]:
    running.wait(run_id)
    return recorded(running.state_dir, run_id)


@pytest.fixture
def running(state: Path) -> Iterator[Daemon]:
    with daemon(state) as running:
        yield running


def test_http(running: Daemon, samples: dict[str, Sample]) -> None:
    options = settable(samples, on(HTTP))
    run_id = running.submit(ARGV, **as_json(options, samples))["run_id"]
    check(wait_and_read(running, run_id), options, samples)


def test_the_client(running: Daemon, samples: dict[str, Sample]) -> None:
    options = settable(samples, on(HTTP))
    asked: Any = {name: samples[name].value for name in options}
    with holdfast.Client(state_dir=str(running.state_dir)) as client:
        run_id = client.submit(ARGV, **asked)["run_id"]
    check(wait_and_read(running, run_id), options, samples)


def test_the_command_line_of_the_queue(running: Daemon, samples: dict[str, Sample]) -> None:
    options = settable(samples, lambda option: option.flag is not None and HTTP in option.surfaces)
    words = as_words(options, samples)
    done = command("submit", "--state-dir", str(running.state_dir), *words, "--", *ARGV)
    assert done.returncode == 0, done
    check(wait_and_read(running, done.stdout.decode().strip()), options, samples)


def test_the_sidecar(state: Path, samples: dict[str, Sample]) -> None:
    options = settable(samples, on(SIDECAR))
    with Host("--state-dir", str(state)) as host:
        run_id = host.call("start", argv=ARGV, keep=True, output="discard", **as_json(options, samples))["run_id"]
        host.call("settled", run_id=run_id)
        check(recorded(state, run_id), options, samples)


@pytest.mark.anyio
async def test_mcp(state: Path, samples: dict[str, Sample]) -> None:
    options = settable(samples, on(MCP))
    async with in_process(state, session="tools") as call:
        answer = await call("exec", argv=ARGV, wait_s=30, **as_json(options, samples))
        check(recorded(state, answer["run_id"]), options, samples)


@pytest.mark.anyio
async def test_acp(state: Path, samples: dict[str, Sample]) -> None:
    options = settable(samples, on(ACP))
    async with Terminals(state_dir=state) as terminals:
        created = await terminals.create_terminal("editor", ARGV[0], holdfast=as_json(options, samples))
        with anyio.fail_after(30):
            await terminals.wait_for_terminal_exit("editor", created.terminal_id)
        check(recorded(state, created.terminal_id), options, samples)
