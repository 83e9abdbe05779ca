"""The policy of a real daemon: the refusal names the rule, by role; limits and webhooks hold; a reload changes it."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast.access.tokens import TokenFile

from ....support.daemons import Gate, daemon
from ....support.web import Raw, fetch, port_of

if TYPE_CHECKING:
    from pathlib import Path

    from ....support.daemons import Daemon
    from ....support.hooks import Hook

pytestmark = pytest.mark.guard
NO_CHECK = """
from holdfast.daemon.http.routes import runs
async def everything(_request, submission): return submission
runs.allowed = everything
"""
SHELL = os.path.realpath("/bin/sh")
SLEEP = os.path.realpath("/bin/sleep")


def write(tmp_path: Path, text: str) -> None:
    """Write the settings of the daemon."""
    (tmp_path / "state").mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "state" / "config.toml").write_text(text)


def post(running: Daemon, secret: str, **fields: Any) -> Raw:
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    return fetch(port_of(running), "/v1/runs", method="POST", body=json.dumps(fields).encode(), headers=headers)


def test_the_refusal_names_the_rule_and_the_role_decides(tmp_path: Path) -> None:
    write(tmp_path, f"[policy.roles.submit]\ndefault = 'deny'\nprograms = ['{SHELL}']\ndirectories = ['/tmp']\n")
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as running:
        tokens = TokenFile(str(running.state_dir))
        secret = {role: tokens.create(role, role)[1] for role in ("submit", "operate")}
        assert post(running, secret["submit"], argv=["/bin/sh", "-c", "exit 0"], cwd="/tmp").status == 201
        answer = post(running, secret["submit"], argv=["sleep", "0"], cwd="/tmp")
        assert answer.status == 403
        assert answer.json["type"] == "urn:holdfast:problem:policy"
        assert answer.json["rule"] == "policy.roles.submit.programs"
        assert SLEEP in answer.json["detail"]
        told = [
            post(running, secret["submit"], argv=["/bin/sh"], **fields).json["rule"]
            for fields in ({"cwd": "/"}, {"cwd": "/tmp", "env": {"X": "y"}})
        ]
        assert told == ["policy.roles.submit.directories", "policy.roles.submit.default"]
        assert post(running, secret["operate"], argv=["sleep", "0"]).status == 201
        assert running.request("POST", "/v1/runs", {"argv": ["sleep", "0"]}).status == 201
        refusals = running.request("GET", "/v1/audit?refused=1&token=submit").body["records"]
        assert [one["about"] for one in refusals][-1] == "policy.roles.submit.programs"
        assert {one["problem"] for one in refusals} == {"policy"}


def test_a_container_runtime_of_the_client_is_not_executed(tmp_path: Path) -> None:
    fake = tmp_path / "docker"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    fake.chmod(0o755)
    write(tmp_path, "[policy]\nprograms = ['/usr/bin/true']\ncontainers = ['box']\n")
    asked = {"argv": ["x"], "in_container": "box", "container_runtime": f"{fake} -H tcp://192.0.2.1"}
    with daemon(tmp_path / "state") as running:
        answer = running.request("POST", "/v1/runs", asked)
        assert (answer.status, answer.body.get("rule")) == (403, "policy.containers")
        write(tmp_path, "")
        running.signal(signal.SIGHUP)
        running.until_line("settings changed: policy")
        run_id = running.request("POST", "/v1/runs", asked).body["run_id"]  # without a rule it is
        running.request("GET", f"/v1/runs/{run_id}/wait")
        assert (tmp_path / "executed").exists()


def test_a_link_of_the_process_does_not_lead_to_another_program(tmp_path: Path) -> None:
    depth = os.getcwd().count("/")  # the daemon's own: from there, this many steps lead to the root
    cwd = tmp_path.joinpath(*["deep"] * depth)
    cwd.mkdir(parents=True)
    name = SLEEP.lstrip("/")
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    (tmp_path / name).chmod(0o755)
    asked = {"argv": ["/proc/self/cwd" + "/.." * depth + SLEEP, "0"], "cwd": str(cwd)}
    write(tmp_path, f"[policy]\nprograms = ['{SLEEP}']\n")
    with daemon(tmp_path / "state") as running:
        answer = running.request("POST", "/v1/runs", asked)
        assert (answer.status, answer.body.get("rule")) == (403, "policy.programs")
    with daemon(tmp_path / "state", before=NO_CHECK) as running:
        run_id = running.request("POST", "/v1/runs", asked).body["run_id"]  # it is another program for the run
        running.request("GET", f"/v1/runs/{run_id}/wait")
        assert (tmp_path / "executed").exists()


def test_without_the_check_everything_runs(tmp_path: Path) -> None:
    write(tmp_path, "[policy]\ndefault = 'deny'\n")
    with daemon(tmp_path / "state", before=NO_CHECK) as running:
        assert running.request("POST", "/v1/runs", {"argv": ["true"]}).status == 201


def test_the_highest_limits_hold_for_runs_that_name_none(tmp_path: Path) -> None:
    write(tmp_path, "[policy.limits]\ntimeout = '10m'\npids = 50\n[defaults]\npids = 20\n")
    with daemon(tmp_path / "state") as running:
        run_id = running.submit(["sleep", "1000"])["run_id"]
        spec = running.request("GET", f"/v1/runs/{run_id}/spec").body["spec"]
        assert (spec["timeout_s"], spec["pids"]) == (600.0, 20)
        answer = running.request("POST", "/v1/runs", {"argv": ["true"], "timeout_s": 601})
        assert (answer.status, answer.body["rule"]) == (403, "policy.limits.timeout")
        other = running.submit(["sleep", "1000"], timeout_s=300)["run_id"]
        assert running.request("POST", f"/v1/runs/{other}/extend", {"seconds": 200}).status == 200
        answer = running.request("POST", f"/v1/runs/{other}/extend", {"seconds": 101})
        assert (answer.status, answer.body["rule"]) == (403, "policy.limits.timeout")
        assert running.request("POST", f"/v1/runs/{other}/extend", {"seconds": 100}).status == 200


def test_a_run_does_not_get_past_its_timeout_by_the_way_it_ends(tmp_path: Path) -> None:
    write(tmp_path, "[policy.limits]\ntimeout = '1m'\n")
    with daemon(tmp_path / "state") as running:
        for fields in (
            {"ladder": "WINCH:30d"},
            {"ladder": "INT:30s,TERM:31s"},
            {"ladder": "INT,TERM", "grace_s": 31},
            {"grace_s": 61},
            {"stragglers": "leave"},
        ):
            answer = running.request("POST", "/v1/runs", {"argv": ["true"], **fields})
            assert (answer.status, answer.body.get("rule")) == (403, "policy.limits.timeout"), fields
        for fields in ({"ladder": "INT:30s,TERM:30s"}, {"grace_s": 60}, {"stragglers": "wait"}, {}):
            assert running.request("POST", "/v1/runs", {"argv": ["true"], **fields}).status == 201, fields
        assert running.request("POST", "/v1/runs", {"argv": ["true"], "ladder": "NONE:1s"}).status == 422


def test_extensions_at_once_do_not_pass_the_highest_timeout(tmp_path: Path) -> None:
    write(tmp_path, "[policy.limits]\ntimeout = '20m'\n")
    with daemon(tmp_path / "state") as running:
        run_id = running.submit(["sleep", "1000"], timeout_s=300)["run_id"]
        asked = [(f"/v1/runs/{run_id}/extend", {"seconds": 900})] * 10
        with ThreadPoolExecutor(10) as pool:
            statuses = list(pool.map(lambda one: running.request("POST", *one).status, asked))
        assert sorted(statuses) == [200, *[403] * 9]
        report = running.request("GET", f"/v1/runs/{run_id}").body
        assert [fact["limit_ns"] for fact in report["evidence"] if fact["fact"] == "extended"] == [1200 * 10**9]


def test_a_changed_policy_holds_after_a_reload(tmp_path: Path) -> None:
    write(tmp_path, "[policy]\nprograms = []\n")
    with daemon(tmp_path / "state") as running:
        assert running.request("POST", "/v1/runs", {"argv": ["true"]}).status == 403
        write(tmp_path, "[policy]\nprograms = ['**']\n")
        running.signal(signal.SIGHUP)
        running.until_line("settings changed: policy")
        assert running.request("POST", "/v1/runs", {"argv": ["true"]}).status == 201


def test_a_queued_run_is_judged_again_when_it_starts(tmp_path: Path) -> None:
    """By the rules of its client's role, in the next daemon, too; a limit that came later holds for it."""
    write(tmp_path, "")
    gate, state = Gate(tmp_path / "gate"), tmp_path / "state"
    with daemon(state, "--max-runs", "1", "--listen", "127.0.0.1:0") as running:
        secret = TokenFile(str(state)).create("bot", "submit")[1]
        running.until_output(running.submit(gate.waits())["run_id"])
        mine = {"argv": ["touch", str(tmp_path / "bot")]}
        by_bot = post(running, secret, **mine).json["run_id"]
        by_owner = running.submit(["touch", str(tmp_path / "owner")])["run_id"]
        write(tmp_path, "[policy.limits]\ntimeout = '10m'\n[policy.roles.submit]\nprograms = []\n")
        running.signal(signal.SIGHUP)
        running.until_line("settings changed: policy")
        gate.open()
        refused, started = running.wait(by_bot), running.wait(by_owner)
        assert (refused["status"], refused["cause"], refused["started_at"]) == ("cancelled", "user", None)
        assert "policy.roles.submit.programs" in refused["reason"]
        assert started["status"] == "succeeded"
        assert running.request("GET", f"/v1/runs/{by_owner}/spec").body["spec"]["timeout_s"] == 600.0
        running.until_output(running.submit(gate.waits())["run_id"])
        later = running.submit(["true"])["run_id"]
        running.kill()
    write(tmp_path, "[policy]\nusers = ['nobody']\n")
    gate.open()
    with daemon(state, "--max-runs", "1") as running:
        assert "policy.users" in running.wait(later)["reason"]
    assert not (tmp_path / "bot").exists()


def test_a_key_finds_its_run_after_the_limits_have_changed(tmp_path: Path) -> None:
    write(tmp_path, "[policy.limits]\ntimeout = '10m'\n")
    with daemon(tmp_path / "state") as running:

        def posted(*argv: str) -> tuple[int, str | None]:
            answer = running.request("POST", "/v1/runs", {"argv": argv}, {"Idempotency-Key": "k"})
            return answer.status, answer.body.get("run_id")

        status, run_id = posted("true")
        assert status == 201
        write(tmp_path, "[policy.limits]\ntimeout = '20m'\n")
        running.signal(signal.SIGHUP)
        running.until_line("settings changed: policy")
        assert posted("true") == (200, run_id)
        assert posted("false")[0] == 409


def test_webhooks_go_only_to_allowed_targets(tmp_path: Path, hook: Hook) -> None:
    write(tmp_path, "[policy]\nwebhooks = ['hooks.example']\n")
    with daemon(tmp_path / "state") as running:
        asked = {"argv": ["true"], "on_verdict": {"url": hook.url}}
        answer = running.request("POST", "/v1/runs", asked)
        assert (answer.status, answer.body["rule"]) == (403, "policy.webhooks")
        write(tmp_path, "[policy]\nwebhooks = ['127.0.0.1']\n")
        running.signal(signal.SIGHUP)
        running.until_line("settings changed: policy")
        run_id = running.request("POST", "/v1/runs", asked).body["run_id"]
        assert run_id in json.dumps(hook.next())


def test_a_target_is_checked_again_when_it_is_posted_to(tmp_path: Path, hook: Hook) -> None:
    with daemon(tmp_path / "state") as running:
        run_id = running.submit(["sleep", "1000"], on_verdict={"url": hook.url})["run_id"]
        write(tmp_path, "[policy]\nwebhooks = []\n")
        running.signal(signal.SIGHUP)
        running.until_line("settings changed: policy")
        running.cancel(run_id)
        found = running.request("GET", f"/v1/runs/{run_id}/deliveries").body["deliveries"][0]
        while not found["tries"]:
            found = running.request("GET", f"/v1/runs/{run_id}/deliveries").body["deliveries"][0]
        assert "policy.webhooks" in found["last_error"]


def test_the_client_raises_an_error_that_names_the_rule(tmp_path: Path) -> None:
    write(tmp_path, "[policy]\nprograms = []\n")
    with daemon(tmp_path / "state"), holdfast.Client(state_dir=str(tmp_path / "state")) as client:
        with pytest.raises(holdfast.PolicyError) as refused:
            client.submit(["true"])
        assert refused.value.rule == "policy.programs"
