"""The manifests of docs/scale.md: they parse, their seconds add up, and their commands are ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from holdfast.guard.conversation import settle_bound_s
from holdfast.values.durations import parse_duration
from holdfast.values.spec import make_spec

_DOCS = Path(__file__).parents[2] / "docs"


def manifest(name: str) -> Any:
    return yaml.safe_load((_DOCS / "scale" / name).read_text(encoding="utf-8"))


def test_a_worker_has_time_to_end_its_runs_and_then_ray() -> None:
    (group,) = manifest("raycluster.yaml")["spec"]["workerGroupSpecs"]
    template = group["template"]
    seconds = {name.split("/")[1]: int(text) for name, text in template["metadata"]["annotations"].items()}
    ray_s = seconds.pop("ray-stop-seconds")
    spec = make_spec(["true"])  # the annotations are the defaults of a run
    assert seconds["grace-seconds"] == spec.ladder[0].wait_s
    assert (seconds["kill-wait-seconds"], seconds["drain-seconds"]) == (spec.kill_wait_s, spec.drain_s)
    assert sum(seconds.values()) >= settle_bound_s(spec)
    assert template["spec"]["terminationGracePeriodSeconds"] > sum(seconds.values()) + ray_s
    (container,) = template["spec"]["containers"]
    command = container["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert command.index("holdfast reap --session ray") < command.index("ray stop")


def test_no_run_starts_on_the_head() -> None:
    assert manifest("raycluster.yaml")["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_the_deadline_inside_comes_before_the_deadline_outside() -> None:
    job = manifest("job.yaml")["spec"]
    pod = job["template"]["spec"]
    command = pod["containers"][0]["command"]
    assert command[:2] == ["holdfast", "run"]
    words = command[2 : command.index("--")]
    given = dict(zip(words[::2], words[1::2], strict=True))
    timeout, grace, kill_wait, drain = (
        parse_duration(given[name], field=name) for name in ("--timeout", "--grace", "--kill-wait", "--drain")
    )
    bound_s = settle_bound_s(make_spec(["true"], grace=grace, kill_wait=kill_wait, drain=drain))
    assert timeout + bound_s < job["activeDeadlineSeconds"]
    assert bound_s < pod["terminationGracePeriodSeconds"]


def test_the_page_shows_the_same_numbers() -> None:
    page = (_DOCS / "scale.md").read_text(encoding="utf-8")
    worker = manifest("raycluster.yaml")["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    assert f"`terminationGracePeriodSeconds: {worker['terminationGracePeriodSeconds']}`" in page
    assert f"`activeDeadlineSeconds: {manifest('job.yaml')['spec']['activeDeadlineSeconds']}`" in page
