"""The OpenAPI document: complete, valid, the same everywhere; and a fuzzer that goes by it finds nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import jsonschema  # type: ignore[import-untyped]
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis import GenerationMode

from holdfast import outcome
from holdfast.daemon.http import openapi
from holdfast.daemon.http.routes import doctor, health, output, runs, sessions
from holdfast.journal.facts import CAUSES
from holdfast.values import report
from holdfast.web import problems

from ...support.daemons import daemon
from ...support.web import fetch, port_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT: dict[str, Any] = json.loads(openapi.document())
CONTRACT = {
    "/v1/runs": {"post", "get"},
    "/v1/runs/{run_id}": {"get"},
    "/v1/runs/{run_id}/wait": {"get"},
    "/v1/runs/{run_id}/output": {"get"},
    "/v1/runs/{run_id}/evidence": {"get"},
    "/v1/runs/{run_id}/cancel": {"post"},
    "/v1/runs/{run_id}/input": {"post"},
    "/v1/runs/{run_id}/extend": {"post"},
    "/v1/sessions": {"get"},
    "/v1/sessions/{session}": {"delete"},
    "/v1/sessions/{session}/open": {"post"},
    "/v1/events": {"get"},
    "/v1/config": {"get"},
    "/v1/doctor": {"get"},
    "/v1/hosts": {"get"},
    "/v1/health": {"get"},
    "/metrics": {"get"},
}
POSTED = """
argv cwd env stdin timeout_s idle_timeout_s idle_counts grace_s ladder drain_s stragglers memory_bytes pids
max_output_bytes session parent labels name priority queue_timeout_s concurrency_key on_verdict
cpus gpus resources node_labels host no_wait
"""
REPORTED = """
run_id state name argv session parent labels status cause reason exit_code signal pid queued_at started_at
verdict_at exited_at settled_at duration_s escalated containment tree survivors stragglers output usage evidence
"""

# Existing ids: an invented one would always get a 404.
RUNS_TO_ASK = '[parameters]\n"path.run_id" = "over"\n' + "".join(
    f'[[operations]]\ninclude-path = "/v1/runs/{{run_id}}/{what}"\nparameters = {{ "path.run_id" = "live" }}\n'
    for what in ("extend", "input", "resize", "signal")
)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_route_of_the_contract_is_in_it() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert {path: set(DOCUMENT["paths"][path]) for path in CONTRACT} == CONTRACT


def test_the_names_are_the_contracts() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert not set(POSTED.split()) - schemas["Submission"]["properties"].keys()
    assert schemas["Submission"]["required"] == ["argv"]
    assert schemas["Report"]["required"] == REPORTED.split()  # always present, null where nothing is known


def test_every_reference_leads_somewhere_and_every_schema_is_one() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert {ref.removeprefix("#/components/schemas/") for ref in references(DOCUMENT)} <= schemas.keys()
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_operation_has_a_name_of_its_own_and_says_what_may_go_wrong() -> None:
    found = [one for methods in DOCUMENT["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in found]
    assert len(set(names)) == len(names)
    for one in found:
        assert {"401", "403", "422"} <= one["responses"].keys()
        for status, response in one["responses"].items():
            kind = "application/problem+json" if status >= "4" else None
            assert kind is None or kind in response["content"]
    assert "Retry-After" in DOCUMENT["paths"]["/v1/runs"]["post"]["responses"]["503"]["headers"]


def test_parameters_that_have_to_be_there_say_so() -> None:
    needed = {
        (path, one["name"])
        for path, methods in DOCUMENT["paths"].items()
        for operation in methods.values()
        for one in operation.get("parameters", ())
        if one["in"] == "query" and one.get("required", False)
    }
    assert needed == {("/v1/search", "q")}


def test_causes_are_the_same_everywhere() -> None:
    """The causes of stops come from the journal; the sidecar's schema names all of them."""
    schema = json.loads(resources.files("holdfast.sidecar").joinpath("schema.json").read_text())
    assert set(get_args(report.Cause)) == set(schema["$defs"]["Cause"]["enum"])
    assert set(get_args(report.Cause)) == {cause for causes in outcome.STATUSES.values() for cause in causes}
    assert get_args(report.Status) == tuple(outcome.STATUSES)
    assert set(get_args(report.StopCause)) == set(CAUSES.words.values())
    parameters = DOCUMENT["paths"]["/v1/runs"]["get"]["parameters"]
    cause = next(one["schema"] for one in parameters if one["name"] == "cause")
    assert sorted(cause["items"]["enum"]) == sorted(get_args(report.Cause))


def test_it_is_printed_for_those_who_make_clients() -> None:
    command = [sys.executable, "-m", "holdfast.daemon.http.openapi"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert done.stderr == b""
    assert json.loads(done.stdout) == DOCUMENT


def test_the_manual_names_every_route_and_every_problem() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "http.md").read_text()
    asked = (
        *runs.OPERATIONS,
        *output.OPERATIONS,
        *sessions.OPERATIONS,
        *health.OPERATIONS,
        *doctor.OPERATIONS,
    )  # pages have their own
    routes = {one.path.replace("{run_id}", "ID").replace("{session}", "NAME") for one in asked}
    assert not [route for route in routes if route not in manual]
    kinds = [kind for kind in vars(problems).values() if isinstance(kind, problems.ProblemKind)]
    assert len(kinds) > 15
    assert not [kind for kind in kinds if f"`{kind.word}`" not in manual or str(kind.status) not in manual]


OPERATION_COUNT = sum(len(methods) for methods in DOCUMENT["paths"].values())
NEVER_ENDS = "/v1/events"  # the test of streams asks for it


@pytest.mark.guard
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fuzzer_finds_no_failure_and_no_breach_of_contract(tmp_path: Path) -> None:
    # A schema cannot describe everything (a ladder, a path, a cursor): a request that it allows may get a 422.
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", "--queue-limit", "50") as running:
        port = port_of(running)
        token = (running.state_dir / "token").read_text().strip()
        served = fetch(port, "/openapi.json", headers={"Authorization": f"Bearer {token}"})
        assert served.json == DOCUMENT
        running.wait(running.submit(["sh", "-c", "echo out; echo err >&2; exit 3"], run_id="over")["run_id"])
        running.submit(["sleep", "600"], run_id="live", stdin="pipe", timeout_s=900)
        (tmp_path / "schemathesis.toml").write_text(RUNS_TO_ASK)
        (tmp_path / "document.json").write_bytes(served.body)
        command = [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            "document.json",  # from its URL, the operation that serves it would be left out
            f"--url=http://127.0.0.1:{port}",
            f"--header=Authorization: Bearer {token}",
            "--max-examples=5",
            f"--exclude-path={NEVER_ENDS}",
            "--exclude-checks=positive_data_acceptance",
            "--suppress-health-check=all",
            "--request-timeout=30",
            "--no-color",
            "--seed=1",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert f"Tested: {OPERATION_COUNT - 1}\n" in done.stdout
        assert fetch(running, "/v1/health").json["status"] == "ok"
        assert not [line for line in running.lines if "Traceback" in line or "failed" in line]


# Operations that a fuzzer would wait for: what it sends, and what is set for all of its requests.
STREAMS: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    (NEVER_ENDS, {}, {}),
    ("/v1/processes", {"Accept": "text/event-stream"}, {}),
    ("/v1/runs/{run_id}/output", {}, {"follow": "true"}),
    ("/v1/runs/{run_id}/wait", {}, {"timeout_s": "0.05"}),
)
BROKEN = "import holdfast.daemon.http.routes.events as e; e.read_query = lambda *_: 1 / 0"


def breaches(
    operation: Any, mode: GenerationMode, base: str, *, headers: dict[str, str], query: dict[str, str]
) -> list[str]:
    """Send generated requests; returns the ones whose answer is no answer of the document, or a failure."""
    known = DOCUMENT["paths"][operation.path]["get"]["responses"]
    run = {"run_id": "live"} if "{run_id}" in operation.path else None
    found: list[str] = []

    @seed(1)
    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode, path_parameters=run))
    def ask(case: Any) -> None:
        asked = case.as_transport_kwargs(base_url=base)
        asked["headers"] = {**asked["headers"], **headers}
        asked["params"] = {**(asked.get("params") or {}), **query}
        with requests.request(**asked, stream=True, timeout=30) as answer:
            if answer.status_code >= 500 or str(answer.status_code) not in known:
                found.append(f"{answer.status_code} {answer.url}")

    ask()
    return found


@pytest.mark.guard
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("before", ["", pytest.param(BROKEN, id="control")])
def test_a_fuzzer_finds_no_failure_in_streams_and_waits(tmp_path: Path, before: str) -> None:
    """Each request is answered as the document says. The head of the answer is read, and of a stream no more."""
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", before=before) as running:
        base = f"http://127.0.0.1:{port_of(running)}"
        running.submit(["sh", "-c", "echo ready; exec sleep 600"], run_id="live", timeout_s=900)
        running.until_output("live")
        token = {"Authorization": f"Bearer {(running.state_dir / 'token').read_text().strip()}"}
        failed = [
            found
            for path, headers, query in STREAMS
            for mode in GenerationMode
            for found in breaches(schema[path]["GET"], mode, base, headers={**headers, **token}, query=query)
        ]
        assert bool(failed) is bool(before), failed[:10]
        assert fetch(running, "/v1/health").json["status"] == "ok"
        assert before or not [line for line in running.lines if "Traceback" in line or "failed" in line]
