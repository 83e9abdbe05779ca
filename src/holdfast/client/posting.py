"""The JSON of a posted run, made from the options of `holdfast.run`.

`make_spec` checks them here as well, so a mistake is found before anything is sent. Only the given options are posted:
for the others the daemon's defaults hold.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..values.durations import parse_duration
from ..values.errors import SpecError
from ..values.fields import STDIN_WORDS
from ..values.options import JOURNAL, OPTIONS
from ..values.spec import make_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..values.fields import Duration, Text
    from ..values.options import SpecOptions

    class SubmitOptions(SpecOptions, total=False):
        """The options of a posted run: the options of `holdfast.run`, of the queue, and of the host it needs."""

        queue_timeout: Duration | None
        delay: Duration | None
        after: str | Sequence[str] | None
        concurrency_key: str | None
        parallel: int | None
        on_verdict: str | None
        cpus: float | None
        gpus: float | None
        resources: Mapping[str, float] | None
        node_labels: Mapping[str, str] | None
        host: str | None
        no_wait: bool


_PLACEMENT = ("cpus", "gpus", "resources", "node_labels", "host", "no_wait")
_DURATIONS = ("queue_timeout", "delay")
_QUEUE = ("priority", *_DURATIONS, "after", "concurrency_key", "parallel", "on_verdict", *_PLACEMENT)


def posted(argv: Sequence[Text], options: SubmitOptions) -> dict[str, Any]:
    """The JSON of a run. SpecError names the wrong option; bytes that are not UTF-8 cannot be posted."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if given.pop("lifetime", "detached") != "detached":
        remedy = "leave lifetime out: runs of a daemon end with their session, or by themselves"
        raise SpecError("a run of a daemon is always detached", field="lifetime", remedy=remedy)
    queue = {name: given.pop(name) for name in _QUEUE if name in given}
    if internal := given.keys() & {option.name for option in OPTIONS if option.surfaces == (JOURNAL,)}:
        field = min(internal)
        raise SpecError(f"{field} cannot be given for a run of a daemon", field=field, remedy="leave it out")
    spec = make_spec(argv, **given)
    body: dict[str, Any] = {"argv": list(spec.argv)}
    for option in OPTIONS:
        if option.name in given:
            value = getattr(spec, option.json_name)
            body[option.json_name] = value if option.to_json is None else option.to_json(value)
    # The daemon's working directory is not ours; in a container, a relative directory is inside the container.
    if "cwd" in body and "in_container" not in body:
        body["cwd"] = os.path.abspath(body["cwd"])
    if body.get("stdin", "null") not in STDIN_WORDS:
        body["stdin"] = os.path.abspath(body["stdin"])
    for name in _DURATIONS:
        if name in queue:
            queue[f"{name}_s"] = parse_duration(queue.pop(name), field=name)
    if "after" in queue:
        queue["after"] = [queue["after"]] if isinstance(queue["after"], str) else list(queue["after"])
    if "on_verdict" in queue:
        queue["on_verdict"] = {"url": queue["on_verdict"]}
    _check_text(body)
    return {**body, **queue}


def _check_text(value: Any, field: str = "argv") -> None:
    """Refuse bytes that are not UTF-8: JSON is text, and a name that changes on the way is another file."""
    match value:
        case dict():
            for key, below in value.items():
                _check_text(key, field)
                _check_text(below, key if field == "argv" else field)
        case list():
            for below in value:
                _check_text(below, field)
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                remedy = "only text can be posted: use holdfast.run, or rename it"
                raise SpecError(f"{field} is not UTF-8", field=field, remedy=remedy) from None
