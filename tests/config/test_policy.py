"""The policy in the settings' file: read as it is written, and mistakes are told with their line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.config import load_config
from holdfast.config.policy import PolicyRule, RunPolicy
from holdfast.values.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """
[policy]
programs = ["/usr/bin/*"]
webhooks = ["hooks.example"]
[policy.limits]
timeout = "1h"
memory = "2G"
[policy.roles.submit]
default = "deny"
env = ["CI_*"]
limits.timeout = "5m"
"""


def load(tmp_path: Path, text: str) -> RunPolicy:
    (tmp_path / "config.toml").write_text(text)
    return load_config({}, {}, str(tmp_path / "config.toml"), state_dir=str(tmp_path / "state")).config.policy


def test_a_role_replaces_what_it_names(tmp_path: Path) -> None:
    policy = load(tmp_path, WHOLE)
    assert policy.rules("admin") == {
        "programs": PolicyRule("policy.programs", ("/usr/bin/*",)),
        "webhooks": PolicyRule("policy.webhooks", ("hooks.example",)),
        "limits.timeout": PolicyRule("policy.limits.timeout", 3600.0),
        "limits.memory": PolicyRule("policy.limits.memory", 2 << 30),
    }
    submit = policy.rules("submit")
    assert submit["programs"] == PolicyRule("policy.programs", ("/usr/bin/*",))
    assert submit["env"] == PolicyRule("policy.roles.submit.env", ("CI_*",))
    assert submit["limits.timeout"] == PolicyRule("policy.roles.submit.limits.timeout", 300.0)
    assert submit["limits.memory"] == PolicyRule("policy.limits.memory", 2 << 30)
    assert submit["directories"] == submit["containers"] == PolicyRule("policy.roles.submit.default", ())
    assert policy.webhooks == PolicyRule("policy.webhooks", ("hooks.example",))


def test_without_a_policy_there_is_no_rule(tmp_path: Path) -> None:
    policy = load(tmp_path, "[limits]\nmax_runs = 3\n")
    assert policy.is_empty
    assert (policy.rules("submit"), policy.webhooks) == ({}, None)


def test_deny_by_default_holds_for_webhooks_too(tmp_path: Path) -> None:
    assert load(tmp_path, "policy.default = 'deny'").webhooks == PolicyRule("policy.default", ())
    assert load(tmp_path, "policy.default = 'allow'").webhooks is None


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("policy = 3", "1: policy is a number: it has to be a table"),
        ("[policy]\nprogram = []", "2: policy.program is unknown: did you mean programs?"),
        ("[policy]\nprograms = 'make'", "2: policy.programs is not a list of text"),
        ("[policy]\nprograms = ['make']", "2: policy.programs has 'make', which is relative: write absolute paths"),
        ("[policy]\ndefault = 'no'", "2: policy.default is unknown: use one of allow, deny"),
        ("[policy.limits]\ntimeout = '1x'", "2: policy.limits.timeout '1x' is not a duration"),
        ("[policy.limits]\npids = true", "2: policy.limits.pids is not a whole number"),
        ("[policy.limits]\ngrase = 1", "2: policy.limits.grase is unknown: these are: timeout"),
        ("[policy.roles.submitter]\nenv = []", "1: policy.roles.submitter is unknown: did you mean submit?"),
        ("[policy.roles.submit]\nwebhooks = []", "2: policy.roles.submit.webhooks is unknown"),
        ("[policy]\nroles = 3", "2: policy.roles is not a table"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, text: str, mistake: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).removeprefix(f"{tmp_path}/config.toml:").startswith(mistake)
