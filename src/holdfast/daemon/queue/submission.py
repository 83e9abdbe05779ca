"""A posted run: the public names and types of its fields, and the spec they make.

Fields are checked twice on purpose: msgspec checks their types here, and `make_spec` checks their meaning. So the
daemon refuses a posted run for the same reasons for which `holdfast run` refuses it.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from ...values.errors import SpecError
from ...values.options import HTTP, options_from_json
from ...values.spec import KEPT_OUTPUT_BYTES, make_spec
from ..engines.engine import Needs
from .admission import keys_of
from .queue_terms import QueueTerms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...values.options import SpecOptions
    from ...values.spec import RunSpec
    from .admission import ConcurrencyKeys

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Priority = Annotated[int, msgspec.Meta(ge=-1000, le=1000)]
_PROGRAM = {"type": "string", "minLength": 1}
Amount = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Delay = Annotated[float, msgspec.Meta(ge=0, le=31_622_400)]  # a year
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class OnVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The webhook that gets the verdict."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The fields of a posted run. None: the daemon's default, else the library's."""

    argv: Annotated[list[str], msgspec.Meta(min_length=1, extra_json_schema={"prefixItems": [_PROGRAM]})]
    cwd: str | None = None
    env: dict[str, str] | None = None
    env_keep: list[str] | None = None
    env_drop: list[str] | None = None
    stdin: str | None = None
    pty: bool | None = None
    merge: bool | None = None
    timeout_s: Seconds | None = None
    max_timeout_s: Seconds | None = None
    idle_timeout_s: Seconds | None = None
    idle_counts: list[Literal["output", "cpu", "heartbeat"]] | None = None
    grace_s: Seconds | None = None
    ladder: str | None = None
    drain_s: Seconds | None = None
    drain_idle_s: Seconds | None = None
    kill_wait_s: Seconds | None = None
    stragglers: Literal["kill", "wait", "leave"] | None = None
    warn_before_s: Seconds | None = None
    warn_signal: str | None = None
    memory_bytes: Count | None = None
    pids: Count | None = None
    max_output_bytes: Count | None = None
    on_max_output: Literal["stop", "drop", "roll"] | None = None
    cpu_time_s: Seconds | None = None
    session: str | None = None
    parent: str | None = None
    labels: dict[str, str] | None = None
    name: str | None = None
    run_id: str | None = None
    in_container: str | None = None
    container_runtime: str | None = None
    ready: list[Annotated[str, msgspec.Meta(min_length=5, max_length=1000)]] | None = None
    priority: Priority = 0
    queue_timeout_s: Seconds | None = None
    delay_s: Delay | None = None
    after: Annotated[list[Key], msgspec.Meta(max_length=100)] | None = None
    concurrency_key: Key | None = None
    parallel: Count | None = None
    on_verdict: OnVerdict | None = None
    cpus: Amount | None = None
    gpus: Amount | None = None
    resources: dict[str, Amount] | None = None
    node_labels: dict[str, str] | None = None
    host: Key | None = None
    no_wait: bool = False

    def with_defaults(self, defaults: Mapping[str, Any]) -> Submission:
        """This submission with the daemon's defaults (by posted names) in the fields that are None."""
        missing = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        if self.max_output_bytes is None and self.on_max_output is None and "max_output_bytes" not in defaults:
            missing |= {"max_output_bytes": KEPT_OUTPUT_BYTES, "on_max_output": "roll"}
        return msgspec.structs.replace(self, **missing) if missing else self

    def spec_options(self) -> SpecOptions:
        """The options of `make_spec` for the fields that are set."""
        options = options_from_json(msgspec.structs.asdict(self), HTTP)
        options["lifetime"] = "detached"  # it outlives a daemon that is killed; the drain decides what a shutdown does
        return options

    def spec(self, run_id: str, queued_at: str | None = None) -> RunSpec:
        """The checked spec of a run with this id. SpecError names the wrong field."""
        if self.stdin == "inherit":
            message = "a run of the daemon cannot inherit its stdin"
            raise SpecError(message, field="stdin", remedy="use null, pipe or a path")
        for field in ("cwd", "stdin"):
            value = getattr(self, field)
            if value is not None and not (field == "stdin" and value in ("null", "pipe")) and not os.path.isabs(value):
                message = f"{field} is relative, and the daemon cannot know to which directory"
                raise SpecError(message, field=field, remedy="give an absolute path")
        if self.parallel is not None and self.concurrency_key is None and self.session is None:
            message = "parallel counts the runs of one concurrency key or session, and this run has neither"
            raise SpecError(message, field="parallel", remedy="give a concurrency key or a session, too")
        options = self.spec_options()
        options["run_id"] = run_id
        options["queued_at"] = queued_at
        options["priority"] = None if queued_at is None else self.priority
        return make_spec(self.argv, **options)

    def keys(self, spec: RunSpec) -> ConcurrencyKeys:
        """The keys under which the run with this spec of it is counted."""
        return keys_of(self.concurrency_key, spec.session, dict(spec.labels), self.parallel)

    @property
    def needs(self) -> Needs:
        """What the run needs of its host."""
        return Needs(
            self.cpus or 0.0,
            self.gpus or 0.0,
            self.resources or {},
            self.node_labels or {},
            self.host,
            self.no_wait,
        )

    def terms(self, queued_ns: int, age_s: float = 0.0) -> QueueTerms:
        """The terms of a run that was posted at this time, so long ago."""
        delay_s, limit_s = self.delay_s or 0.0, self.queue_timeout_s
        due_ns = queued_ns + round(delay_s * 1e9)
        expires_in_s = None if limit_s is None else delay_s + limit_s - age_s
        return QueueTerms(
            self.priority, due_ns, max(0.0, delay_s - age_s), limit_s or 0.0, expires_in_s, tuple(self.after or ())
        )

    def digest(self) -> str:
        """A digest that is equal for equal submissions, in whatever order their fields came."""
        return sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()
