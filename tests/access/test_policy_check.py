"""What the policy allows: programs as the guard would find them, directories, names, containers, limits, webhooks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.access.patterns import fits_name, fits_path
from holdfast.access.policy_check import PostedRun, check_run, check_webhook, resolve_program
from holdfast.config.policy import RunPolicy, read_policy
from holdfast.values.errors import PolicyError

if TYPE_CHECKING:
    from pathlib import Path


def posted(*argv: str, **fields: Any) -> PostedRun:
    whole: dict[str, Any] = {
        "cwd": "/",
        "stdin": None,
        "env": {},
        "env_keep": (),
        "env_drop": (),
        "container": None,
        "runtime": None,
        "user": None,
        "ending_s": 10.0,
        "usual_grace_s": 10.0,
        "stragglers": None,
    }
    return PostedRun(argv=argv, **{**whole, "limits": {}, "max_timeout_s": None, **fields})


def refused(run: PostedRun, role: str = "submit", **tables: Any) -> str | None:
    """The rule that refuses the run; None: it is allowed."""
    policy: RunPolicy = read_policy(tables, "policy")
    try:
        check_run(policy.rules(role), run)
    except PolicyError as error:
        return error.rule if f"({error.rule})" in error.message else error.message
    return None


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory with a program, a link to a program elsewhere, and a file that is no program."""
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    for name in ("good/tool", "bad/tool"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "good" / "link").symlink_to(tmp_path / "bad" / "tool")
    (tmp_path / "good" / "data").write_text("x")
    return tmp_path


def test_a_program_is_judged_by_the_file_that_would_run(tools: Path) -> None:
    rule = [f"{tools}/good/*"]
    good, bad = f"{tools}/good", f"{tools}/bad"
    assert refused(posted(f"{good}/tool"), programs=rule) is None
    assert refused(posted("./tool", cwd=good), programs=rule) is None
    assert refused(posted("tool", env={"PATH": f"/nowhere:{good}:{bad}"}), programs=rule) is None
    assert refused(posted("tool", env={"PATH": f":{bad}"}, cwd=good), programs=rule) is None
    for run in (
        posted(f"{bad}/tool"),
        posted(f"{good}/link"),
        posted(f"{good}/../bad/tool"),
        posted("./tool", cwd=bad),
        posted("tool", env={"PATH": f"{bad}:{good}"}),
        posted("tool", env={"PATH": f":{good}"}, cwd=bad),
        posted(f"{good}/data"),
        posted("nothing-of-this-name"),
        posted(""),
    ):
        assert refused(run, programs=rule) == "policy.programs", run.argv


def test_the_path_is_that_of_the_run(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tools}/bad:{os.environ['PATH']}")
    assert resolve_program(posted("tool")) == f"{tools}/bad/tool"
    assert resolve_program(posted("tool", env={"PATH": f"{tools}/good"})) == f"{tools}/good/tool"
    assert resolve_program(posted("tool", env_drop=("PATH",))) is None
    assert resolve_program(posted("sh", env_drop=("PATH",))) == os.path.realpath("/bin/sh")


def test_directories_and_what_is_below(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "inside").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path / "inside")
    rule = [f"{tmp_path}/in"]
    for cwd in ("in", "in/deep", "in/deep/..", "inside/../in"):
        assert refused(posted("true", cwd=f"{tmp_path}/{cwd}"), directories=rule) is None
    for cwd in (".", "inside", "in/out", "in/.."):
        assert refused(posted("true", cwd=f"{tmp_path}/{cwd}"), directories=rule) == "policy.directories", cwd
    assert refused(posted("true", cwd=f"{tmp_path}/in", stdin="/etc/passwd"), directories=rule) == "policy.directories"
    assert refused(posted("true", cwd=f"{tmp_path}/in", stdin="pipe"), directories=rule) is None
    assert refused(posted("true", cwd=None), directories=rule) == "policy.directories"
    assert refused(posted("true", cwd="/"), directories=["/"]) is None


def test_a_path_through_a_link_of_a_process_is_refused(tools: Path) -> None:
    up = "/proc/self/cwd" + "/.." * os.getcwd().count("/")
    (tools / "good" / "mine").symlink_to(f"{up}{tools}/good")
    for through in (
        up,
        f"/proc/{os.getpid()}/root",
        "/dev/fd/../root",
        "/proc/1/../thread-self/root",
        "/.//proc/self/root",
    ):
        for run in (
            posted(f"{through}{tools}/good/tool"),
            posted("./tool", cwd=f"{through}{tools}/good"),
            posted("tool", env={"PATH": f"{through}{tools}/good:{tools}/good"}),
            posted("tool", env={"PATH": f"{through}/nowhere:{tools}/good"}),  # it may be there for the run
        ):
            assert refused(run, programs=["**"]) == "policy.programs", run
        assert refused(posted("true", cwd=f"{through}{tools}"), directories=["/"]) == "policy.directories"
        within = posted("true", stdin=f"{through}{tools}/good/data")
        assert refused(within, directories=["/"]) == "policy.directories"
    assert refused(posted(f"{tools}/good/mine/tool"), programs=["**"]) == "policy.programs"
    assert refused(posted(f"{tools}/good/link"), programs=["**"]) is None
    assert refused(posted("true", cwd="/proc"), directories=["/"]) is None


def test_names_of_variables() -> None:
    assert refused(posted("true", env={"CI_JOB": "1", "LANG": "C"}), env=["CI_*", "LANG"]) is None
    assert refused(posted("true", env={"LD_PRELOAD": "x"}), env=["CI_*", "LANG"]) == "policy.env"
    assert refused(posted("true", env_keep=("CLAUDECODE",)), env=["CI_*"]) == "policy.env"
    assert refused(posted("true", env={"XCI_": "x"}), env=["CI_*"]) == "policy.env"


def test_containers() -> None:
    inside = posted("anything", container="build-7")
    assert refused(inside, containers=["build-*"]) is None
    assert refused(inside, containers=[]) == "policy.containers"
    assert refused(inside, containers=["test-*"]) == "policy.containers"
    assert refused(posted("true"), containers=[]) is None
    # Nobody sees the programs in a container: a rule for programs alone lets nobody in there.
    assert refused(inside, programs=["**"]) == "policy.programs"
    assert refused(inside, programs=["/usr/bin/make"], containers=["build-*"]) is None


def test_the_runtime_of_a_container_is_a_bare_name_where_a_rule_holds() -> None:
    for runtime in (None, "docker", "podman"):
        inside = posted("anything", container="box", runtime=runtime)
        assert refused(inside, containers=["box"], programs=["/usr/bin/true"]) is None
    for runtime in ("/tmp/evil/docker", "./docker", "docker -H tcp://evil", "docker ", "'docker'"):
        inside = posted("anything", container="box", runtime=runtime)
        assert refused(inside, containers=["box"]) == "policy.containers", runtime
        assert refused(inside, env=["X"]) is None  # no rule about programs or containers


def test_users_of_the_socket() -> None:
    assert refused(posted("true", user=0), users=["root"]) is None
    assert refused(posted("true", user=65533), users=["65533"]) is None
    assert refused(posted("true", user=0), users=["somebody"]) == "policy.users"
    assert refused(posted("true", user=None), users=["somebody"]) is None  # over TCP there is no user


def test_limits_are_given_to_runs_that_name_none_and_refused_above() -> None:
    limits = {"timeout": "1h", "memory": "1G", "pids": 10, "max_output": "1M", "cpu_time": "10m", "priority": 5}
    rules = read_policy({"limits": limits}, "policy").rules("submit")
    assert check_run(rules, posted("true", limits={"timeout_s": 60.0, "priority": 0})) == {
        "memory_bytes": 1 << 30,
        "pids": 10,
        "max_output_bytes": 1 << 20,
        "cpu_time_s": 600.0,
    }
    for field, value, word in (
        ("timeout_s", 3601.0, "timeout"),
        ("memory_bytes", (1 << 30) + 1, "memory"),
        ("pids", 11, "pids"),
        ("max_output_bytes", 1 << 21, "max_output"),
        ("cpu_time_s", 601.0, "cpu_time"),
        ("priority", 6, "priority"),
    ):
        assert refused(posted("true", limits={field: value}), limits=limits) == f"policy.limits.{word}"
    ceiling = posted("true", limits={"timeout_s": 60.0}, max_timeout_s=7200.0)
    assert refused(ceiling, limits=limits) == "policy.limits.timeout"


def test_the_end_of_a_run_is_bounded_where_its_timeout_is() -> None:
    limits = {"timeout": "1h"}
    assert refused(posted("true", ending_s=3600.0, stragglers="wait"), limits=limits) is None
    assert refused(posted("true", ending_s=3601.0), limits=limits) == "policy.limits.timeout"
    assert refused(posted("true", stragglers="leave"), limits=limits) == "policy.limits.timeout"
    # The grace of the settings is the operator's: a short limit refuses no run that has it.
    assert refused(posted("true"), limits={"timeout": "1s"}) is None
    assert refused(posted("true", ending_s=11.0), limits={"timeout": "1s"}) == "policy.limits.timeout"
    assert refused(posted("true", ending_s=9e9, stragglers="leave"), limits={"pids": 5}) is None


def test_deny_by_default_refuses_what_is_not_listed() -> None:
    submit: dict[str, Any] = {"roles": {"submit": {"default": "deny"}}}
    assert refused(posted("true"), **submit) == "policy.roles.submit.default"
    assert refused(posted("true"), "admin", **submit) is None
    submit["roles"]["submit"] |= {"programs": ["**"]}
    assert refused(posted("true"), **submit) == "policy.roles.submit.default"  # its directory
    submit["roles"]["submit"] |= {"directories": ["/"]}
    assert refused(posted("true"), **submit) is None
    assert refused(posted("true", env={"A": "b"}), **submit) == "policy.roles.submit.default"
    assert refused(posted("true", container="x"), **submit) == "policy.roles.submit.default"


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://hooks.example/x", True),
        ("http://hooks.example:9/x", True),
        ("https://HOOKS.example./x", True),
        ("https://a.corp:8443/", True),
        ("https://a.b.corp:8443/", True),
        ("https://a.corp/", False),
        ("https://corp:8443/", False),
        ("https://hooks.example.attacker.example/", False),
        ("https://hooks.example@attacker.example/", False),
        ("https://only.tls/", True),
        ("http://only.tls/", False),
        ("http://127.0.0.1/", False),
        ("http://[::1]:80/", True),
    ],
)
def test_targets_of_webhooks(url: str, is_allowed: bool) -> None:
    rule = read_policy(
        {"webhooks": ["hooks.example", "*.corp:8443", "https://only.tls", "[::1]:80"]}, "policy"
    ).webhooks
    if is_allowed:
        check_webhook(rule, url)
    else:
        with pytest.raises(PolicyError):
            check_webhook(rule, url)


def test_a_star_of_a_path_stays_in_its_directory() -> None:
    assert fits_path("/usr/bin/make", ["/usr/bin/*"])
    assert not fits_path("/usr/bin/sub/make", ["/usr/bin/*"])
    assert fits_path("/usr/bin/sub/make", ["/usr/**"])
    assert fits_path("/anything", ["**"])
    assert not fits_path("/usr/bin/make\n", ["/usr/bin/make"])
    assert not fits_path("/usrXbin/make", ["/usr.bin/make"])
    assert fits_name("a/b", ["a*"])
