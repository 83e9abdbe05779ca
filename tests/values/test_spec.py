"""The run spec: accepted values, refusals with their field, and the shown parts."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from holdfast.values import options as options_module
from holdfast.values import spec as spec_module
from holdfast.values.errors import SpecError
from holdfast.values.fields import LONGEST_STRING, MOST_LABELS, MOST_PIDS
from holdfast.values.ladder import MOST_RUNGS, Rung
from holdfast.values.spec import LARGEST_EXEC, RunSpec, make_spec, public_spec, shared_fields, spec_on_record

TERM, INT, KILL = int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGKILL)


def make(**keywords: Any) -> RunSpec:
    return make_spec(["true"], **keywords)


def test_the_defaults_are_those_of_the_contract() -> None:
    spec = make_spec(["true"])
    assert spec._replace(run_id="r") == RunSpec(
        argv=("true",),
        cwd=None,
        env=None,
        env_keep=(),
        env_drop=(),
        stdin="null",
        stdout="capture",
        stderr="capture",
        pty=False,
        merge=False,
        timeout_s=None,
        max_timeout_s=None,
        idle_timeout_s=None,
        idle_counts=frozenset({"output"}),
        grace_s=10.0,
        ladder=(Rung(TERM, 10.0), Rung(KILL, 0.0)),
        drain_s=2.0,
        drain_idle_s=0.25,
        kill_wait_s=5.0,
        stragglers="kill",
        warn_before_s=None,
        warn_signal=int(signal.SIGUSR1),
        memory_bytes=None,
        pids=None,
        max_output_bytes=None,
        on_max_output=None,
        cpu_time_s=None,
        session=None,
        labels=(),
        name=None,
        run_id="r",
        mark=None,
        lifetime="owner",
        parent=None,
        queued_at=None,
        priority=None,
        in_container=None,
        container_runtime=None,
        foreign=None,
        starter=None,
        left_by=None,
        ready=(),
    )


def test_reads_every_option() -> None:
    spec = make_spec(
        ("sh", b"-c", Path("x y")),
        cwd=Path("/tmp"),
        env={"A": "1", "B": ""},
        env_keep=["CLAUDE_*"],
        env_drop="SECRET_*, TOKEN",
        stdin=b"/dev/zero",
        merge=True,
        timeout="10m",
        max_timeout=1200,
        idle_timeout="90s",
        idle_counts="cpu,heartbeat",
        grace="3s",
        drain=1,
        drain_idle="100ms",
        kill_wait="1s",
        stragglers="wait",
        warn_before="30s",
        warn_signal="HUP",
        memory="2G",
        pids="64",
        max_output="10M",
        on_max_output="drop",
        session="user:42",
        labels={"task": "build", "empty": ""},
        name="a name",
        run_id="my-run_1",
        lifetime="detached",
        parent="outer",
    )
    assert spec.argv == ("sh", "-c", "x y")
    assert (spec.cwd, spec.stdin, spec.merge) == ("/tmp", "/dev/zero", True)
    assert spec.env == {"A": "1", "B": ""}
    assert (spec.env_keep, spec.env_drop) == (("CLAUDE_*",), ("SECRET_*", "TOKEN"))
    assert (spec.timeout_s, spec.max_timeout_s, spec.idle_timeout_s) == (600.0, 1200.0, 90.0)
    assert spec.idle_counts == {"cpu", "heartbeat"}
    assert spec.ladder == (Rung(TERM, 3.0), Rung(KILL, 0.0))
    assert (spec.drain_s, spec.drain_idle_s, spec.kill_wait_s, spec.grace_s) == (1.0, 0.1, 1.0, 3.0)
    assert (spec.stragglers, spec.warn_before_s, spec.warn_signal) == ("wait", 30.0, signal.SIGHUP)
    assert (spec.memory_bytes, spec.pids, spec.max_output_bytes) == (2 << 30, 64, 10 << 20)
    assert (spec.on_max_output, spec.session, spec.name) == ("drop", "user:42", "a name")
    assert spec.labels == (("task", "build"), ("empty", ""))
    assert (spec.run_id, spec.lifetime, spec.parent) == ("my-run_1", "detached", "outer")


BAD: list[tuple[str, Any, str]] = [
    ("argv", [], "empty"),
    ("argv", "ls -l", "pass a list"),
    ("argv", b"ls", "pass a list"),
    ("argv", Path("ls"), "pass a list"),
    ("argv", 5, "pass a list"),
    ("argv", None, "pass a list"),
    ("argv", [""], "name is empty"),
    ("argv", ["ls", 5], "argument 1 is of type int"),
    ("argv", ["ls", None], "argument 1 is of type NoneType"),
    ("argv", ["ls", "a\0b"], "argument 1 contains a NUL byte"),
    ("argv", ["ls", b"\0"], "argument 1 contains a NUL byte"),
    ("argv", ["ls", "\ud800"], "argument 1 cannot be encoded"),
    ("argv", ["ls", "x" * LONGEST_STRING], "argument 1 is [0-9]+ bytes long"),
    ("argv", ["ls", *["x" * 1000] * 7000], "more than any kernel limit"),
    ("env", {f"V{n}": "x" * 1000 for n in range(7000)}, "more than any kernel limit"),
    ("env", {"V": "x" * LONGEST_STRING}, "value of 'V' is [0-9]+ bytes long"),
    ("env", ["A=1"], "must be a mapping, not list"),
    ("env", "A=1", "must be a mapping, not str"),
    ("env", {"": "x"}, "variable named ''"),
    ("env", {"A=B": "x"}, "variable named 'A=B'"),
    ("env", {"A\0": "x"}, "contains a NUL"),
    ("env", {"A": "x\0"}, "value of 'A' contains a NUL"),
    ("env", {"A": None}, "env_drop"),
    ("env", {"A": 1}, "value of 'A' is of type int"),
    ("env", {1: "a"}, "is of type int"),
    ("cwd", "", "empty"),
    ("cwd", "/tmp\0", "NUL"),
    ("cwd", 5, "type int"),
    ("stdin", "", "empty"),
    ("stdin", "a\0", "NUL"),
    ("stdin", -1, "no descriptor"),
    ("stdin", True, "no descriptor"),
    ("stdout", -1, "no descriptor"),
    ("stdout", False, "no descriptor"),
    ("stderr", "", "capture"),
    ("stderr", "/dev/null", "capture"),
    ("stderr", None, "capture"),
    ("env_keep", [""], "pattern ''"),
    ("env_keep", ["A=*"], "pattern 'A="),
    ("env_keep", ["A?"], "nothing else"),
    ("env_keep", 5, "type int"),
    ("env_drop", ["[A]"], "nothing else"),
    ("env_drop", [5], "type int"),
    ("pty", 1, "True or False"),
    ("merge", "yes", "True or False"),
    ("timeout", 0, "use None for no limit"),
    ("timeout", "0s", "use None for no limit"),
    ("timeout", 1e-12, "use None for no limit"),
    ("timeout", -1, "negative"),
    ("timeout", float("nan"), "not a number"),
    ("timeout", float("inf"), "ten years"),
    ("timeout", "soon", "not a duration"),
    ("timeout", True, "not bool"),
    ("idle_timeout", 0, "use None for no limit"),
    ("idle_timeout", -1, "negative"),
    ("idle_counts", [], "nothing would count"),
    ("idle_counts", "", "nothing would count"),
    ("idle_counts", ["sound"], "use one of output, cpu, heartbeat"),
    ("idle_counts", 5, "type int"),
    ("grace", -1, "negative"),
    ("grace", None, "NoneType"),
    ("drain", "11y", "not a duration"),
    ("drain_idle", -1, "negative"),
    ("kill_wait", 1e12, "ten years"),
    ("ladder", "", "no rungs"),
    ("ladder", [], "no rungs"),
    ("ladder", "TERM:1s," * MOST_RUNGS + "KILL", "more than 16 rungs"),
    ("ladder", [("TERM", 1)] * MOST_RUNGS, "more than 16 rungs"),
    ("ladder", "TERM:1s,,KILL", "no signal"),
    ("ladder", "FOO:1s", "no signal"),
    ("ladder", "TERM:", "not a duration"),
    ("ladder", "TERM:-1s", "negative"),
    ("ladder", "KILL,TERM:1s", "goes on after KILL"),
    ("ladder", "KILL,KILL", "goes on after KILL"),
    ("ladder", "TERM:1s,KILL:1s", "kill_wait"),
    ("ladder", [("TERM", 1, 2)], "not a pair"),
    ("ladder", ["TERM"], "not a pair"),
    ("ladder", 5, "type int"),
    ("stragglers", "spare", "use one of kill, wait, leave"),
    ("stragglers", None, "use one of"),
    ("warn_signal", "FOO", "no signal"),
    ("memory", 0, "at least 1"),
    ("memory", -1, "negative"),
    ("memory", "lots", "not a size"),
    ("pids", 0, "at least 1"),
    ("pids", MOST_PIDS + 1, "a kernel can have"),
    ("pids", 1.5, "not float"),
    ("max_output", 0, "at least 1"),
    ("on_max_output", "ignore", "use one of stop, drop, roll"),
    ("session", "", "printable"),
    ("session", "a/b", "looks like a path"),
    ("session", "..", "looks like a path"),
    ("session", "x" * 129, "printable"),
    ("session", 5, "must be text"),
    ("labels", ["a"], "must be a mapping"),
    ("labels", {"": "x"}, "printable"),
    ("labels", {"a=b": "x"}, "contains '='"),
    ("labels", {"a": "two\nlines"}, "printable"),
    ("labels", {"a": 5}, "must be text"),
    ("labels", {"a": "\udc80"}, "printable"),
    ("labels", {str(n): "x" for n in range(MOST_LABELS + 1)}, "more than 64"),
    ("name", "", "printable"),
    ("name", "a\x1b[31m", "printable"),
    ("name", 5, "must be text"),
    ("run_id", "", "is not a run id"),
    ("run_id", "../x", "is not a run id"),
    ("run_id", "a/b", "is not a run id"),
    ("run_id", ".", "is not a run id"),
    ("run_id", "-rf", "is not a run id"),
    ("run_id", "_x", "is not a run id"),
    ("run_id", "UPPER", "is not a run id"),
    ("run_id", "a\n", "is not a run id"),
    ("run_id", "a\0", "is not a run id"),
    ("run_id", "\u00e9", "is not a run id"),
    ("run_id", "x" * 65, "is not a run id"),
    ("run_id", 5, "is not a run id"),
    ("parent", "../x", "parent '../x' is not a run id"),
    ("lifetime", "forever", "use one of owner, session, detached"),
    ("in_container", "", "printable"),
    ("in_container", "--privileged", "no container's name"),
    ("container_runtime", "podman", "without a container"),
]


@pytest.mark.parametrize(("field", "value", "why"), BAD, ids=lambda value: str(value)[:20].replace("\0", "NUL"))
def test_refuses_bad_input_by_field_with_a_remedy(field: str, value: Any, why: str) -> None:
    keywords = {"argv": ["true"], field: value}
    with pytest.raises(SpecError) as caught:
        make_spec(**keywords)
    assert caught.value.field == field
    assert re.search(why, str(caught.value)), str(caught.value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("keywords", "field"),
    [
        ({"max_timeout": 5}, "max_timeout"),
        ({"stdout": 1, "pty": True}, "stdout"),
        ({"stderr": 2, "in_container": "box"}, "stderr"),
        ({"stderr": 2, "merge": True}, "stderr"),
        ({"stdout": 1, "max_output": 100}, "max_output"),
        ({"stderr": "inherit", "idle_timeout": 5}, "idle_timeout"),
        ({"stdout": 1, "idle_timeout": 5, "idle_counts": "output,cpu"}, "idle_timeout"),
        ({"stdout": 1, "foreign": (1234, 5678)}, "stdout"),
        ({"in_container": "box", "container_runtime": "chroot"}, "container_runtime"),
        ({"in_container": "box", "container_runtime": "podman 'x"}, "container_runtime"),
        ({"in_container": "box", "memory": "1G"}, "memory"),
        ({"in_container": "box", "pids": 5}, "pids"),
        ({"in_container": "box", "idle_counts": "cpu"}, "idle_counts"),
        ({"in_container": "box", "stragglers": "leave"}, "stragglers"),
        ({"max_timeout": 5, "timeout": 6}, "max_timeout"),
        ({"warn_before": 5}, "warn_before"),
        ({"warn_before": 5, "timeout": 5}, "warn_before"),
        ({"lifetime": "session"}, "session"),
        ({"pty": True, "stdin": "null"}, "stdin"),
        ({"pty": True, "stdin": "/dev/null"}, "stdin"),
        ({"pty": True, "stdin": "inherit"}, "stdin"),
    ],
)
def test_refuses_options_that_do_not_go_together(keywords: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        make(**keywords)
    assert caught.value.field == field
    assert caught.value.remedy


def test_accepts_options_that_just_go_together() -> None:
    assert make(timeout=5, max_timeout=5).max_timeout_s == 5.0
    assert make(timeout=5, warn_before=4.999).warn_before_s == 4.999
    assert make(lifetime="session", session="s").lifetime == "session"
    assert make(stdout=1, idle_timeout=5, idle_counts="cpu").stdout == 1
    assert make(stdout=1, merge=True, stdin=0).stdin == 0


def test_a_terminal_is_written_to_and_has_one_output() -> None:
    spec = make(pty=True)
    assert (spec.pty, spec.merge, spec.stdin) == (True, True, "pipe")
    assert make(pty=True, stdin="pipe").stdin == "pipe"


@pytest.mark.parametrize(
    ("given_stdin", "kept"),
    [
        (None, "null"),
        ("null", "null"),
        ("inherit", "inherit"),
        ("pipe", "pipe"),
        ("data", "data"),
        (Path("null"), "./null"),
        (b"pipe", "./pipe"),
    ],
)
def test_only_plain_words_are_kinds_of_stdin(given_stdin: Any, kept: str) -> None:
    assert make(stdin=given_stdin).stdin == kept


def test_kernel_text_keeps_its_bytes() -> None:
    raw = b"\xff\xfe caf\xc3\xa9"
    spec = make_spec(
        [b"/bin/" + raw, raw.decode("utf-8", "surrogateescape")], cwd=b"/" + raw, env={"V": os.fsdecode(raw)}
    )
    assert [os.fsencode(argument) for argument in spec.argv] == [b"/bin/" + raw, raw]
    assert spec.cwd is not None
    assert os.fsencode(spec.cwd) == b"/" + raw
    assert spec.env is not None
    assert os.fsencode(spec.env["V"]) == raw


def test_the_callers_mappings_can_change_afterwards() -> None:
    env, labels = {"A": "1"}, {"a": "1"}
    spec = make(env=env, labels=labels)
    env["A"] = labels["a"] = "2"
    assert spec.env == {"A": "1"}
    assert spec.labels == (("a", "1"),)


def test_any_mapping_will_do() -> None:
    assert make(env=os.environ).env == dict(os.environ)
    assert make(labels=OrderedDict(b="1", a="2")).labels == (("b", "1"), ("a", "2"))


def test_the_longest_string_is_the_kernels() -> None:
    """The real limit: one byte less runs, and exec refuses what we refuse (the negative control)."""
    command = [sys.executable, "-c", "", "x" * (LONGEST_STRING - 1)]
    assert make_spec(command).argv == tuple(command)
    assert subprocess.run(command, check=False).returncode == 0
    with pytest.raises(OSError, match="too long"):
        subprocess.run([*command[:-1], "x" * LONGEST_STRING], check=False)


def test_the_longest_variable_counts_its_name() -> None:
    fits = "x" * (LONGEST_STRING - 1 - len("NAME="))
    assert make(env={"NAME": fits}).env == {"NAME": fits}
    assert subprocess.run([sys.executable, "-c", ""], env={"NAME": fits}, check=False).returncode == 0
    with pytest.raises(SpecError):
        make(env={"NAME": fits + "x"})
    with pytest.raises(OSError, match="too long"):
        subprocess.run([sys.executable, "-c", ""], env={"NAME": fits + "x"}, check=False)


def test_what_is_refused_in_all_exec_refuses_too() -> None:
    argv = [sys.executable, "-c", "", *["x" * 1000] * (LARGEST_EXEC // 1009 + 1)]
    with pytest.raises(SpecError, match="kernel limit"):
        make_spec(argv)
    with pytest.raises(OSError, match="too long"):
        subprocess.run(argv, check=False)


@pytest.mark.parametrize(
    "bad",
    [
        {"env": {"TOKEN": "hunter2" + "x" * LONGEST_STRING}},
        {"env": {"TOKEN": "hunter2\0"}},
        {"argv": ["curl", "hunter2\0"]},
    ],
    ids=["long value", "NUL in a value", "NUL in an argument"],
)
def test_errors_do_not_repeat_secrets(bad: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        make_spec(**{"argv": ["true"], **bad})
    assert "hunter2" not in str(caught.value) + repr(caught.value)


def test_nothing_public_holds_environment_values() -> None:
    spec = make(env={"TOKEN": "hunter2", "A": "hunter2"})
    assert public_spec(spec)["env_names"] == ["A", "TOKEN"]
    assert "hunter2" not in json.dumps(public_spec(spec))
    assert "hunter2" not in f"{spec!r} {spec!s} {spec}"
    assert spec.env is not None
    assert "hunter2" in repr(spec.env)  # the negative control: it is in there


def test_the_public_form_is_json_with_the_contracts_names() -> None:
    spec = make_spec(
        [b"\xff", "caf\u00e9"], cwd=b"/\xfe", timeout=5, ladder="INT:2s,TERM", labels={"k": "v"}, run_id="r", mark="m"
    )
    public = json.loads(json.dumps(public_spec(spec), ensure_ascii=False).encode("utf-8"))
    assert public == {
        "argv": ["\\xff", "caf\u00e9"],
        "cwd": "/\\xfe",
        "env_names": [],
        "env_keep": [],
        "env_drop": [],
        "stdin": "null",
        "stdout": "capture",
        "stderr": "capture",
        "pty": False,
        "merge": False,
        "timeout_s": 5.0,
        "max_timeout_s": None,
        "idle_timeout_s": None,
        "idle_counts": ["output"],
        "grace_s": 10.0,
        "ladder": "INT:2s,TERM:10s,KILL",
        "drain_s": 2.0,
        "drain_idle_s": 0.25,
        "kill_wait_s": 5.0,
        "stragglers": "kill",
        "warn_before_s": None,
        "warn_signal": "SIGUSR1",
        "memory_bytes": None,
        "pids": None,
        "max_output_bytes": None,
        "on_max_output": None,
        "cpu_time_s": None,
        "session": None,
        "labels": {"k": "v"},
        "name": None,
        "run_id": "r",
        "mark": "m",
        "lifetime": "owner",
        "parent": None,
        "queued_at": None,
        "priority": None,
        "in_container": None,
        "container_runtime": None,
        "foreign": None,
        "starter": None,
        "left_by": None,
        "ready": [],
    }


def test_a_chosen_id_gets_a_mark_that_no_other_run_has() -> None:
    first, second = make(run_id="build"), make(run_id="build")
    assert first.mark is not None
    assert first.mark.startswith("build-")
    assert first.mark != second.mark
    assert shared_fields(first) == shared_fields(second)
    assert make(run_id="x" * 64).mark is not None
    assert make().mark is None, "an id that Holdfast made is unique by itself"


def test_the_mark_on_record_is_the_mark() -> None:
    first = make(run_id="build")
    assert spec_on_record("build", public_spec(first)).mark == first.mark
    assert spec_on_record("build", {}).mark is None, "of a run that was started before there were marks"


def test_the_typed_keywords_are_those_of_make_spec() -> None:
    """SpecOptions exists for type checkers only, so it is read from the source and compared with the signature."""
    source = inspect.getsource(options_module)
    body = source.split("class SpecOptions(TypedDict, total=False):")[1].split("\n\n\n")[0]
    lines = re.findall(r"^        (\w+): (.+)$", body, re.MULTILINE)
    typed = {name: eval(annotation, vars(spec_module)) for name, annotation in lines}
    keywords = {
        name: parameter.annotation
        for name, parameter in inspect.signature(make_spec, eval_str=True).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert typed == keywords


def test_the_public_spec_leaves_out_no_field() -> None:
    assert set(public_spec(make())) == {*RunSpec._fields, "env_names"} - {"env"}
