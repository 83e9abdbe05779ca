"""The table of a run's options: the name, the JSON form and the surfaces of each.

An option has two names. The Python name has no unit (`timeout`, in seconds); the JSON name has one (`timeout_s`). The
JSON name is also the field of `RunSpec`, so a spec, a posted run and a journal use the same words. The JSON form of a
value is always valid input of `make_spec`, so there is one way back from JSON, and it checks everything again.
"""

from __future__ import annotations

from .fast_imports import TYPE_CHECKING, Iterable, Mapping, NamedTuple, Sequence
from .fields import IDLE_COUNTS, printable
from .ladder import format_ladder
from .signals import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypedDict

    from .fields import Duration, Text
    from .ladder import Ladder

    class SpecOptions(TypedDict, total=False):
        """The keywords of `make_spec`, typed for functions that pass them on (`**options: Unpack[SpecOptions]`)."""

        cwd: Text | None
        env: Mapping[str, str] | None
        env_keep: str | Iterable[str]
        env_drop: str | Iterable[str]
        stdin: Text | int | None
        stdout: str | int
        stderr: str | int
        pty: bool
        merge: bool
        timeout: Duration | None
        max_timeout: Duration | None
        idle_timeout: Duration | None
        idle_counts: str | Iterable[str]
        grace: Duration
        ladder: Ladder | None
        drain: Duration
        drain_idle: Duration
        kill_wait: Duration
        stragglers: str
        warn_before: Duration | None
        warn_signal: str | int
        memory: str | int | None
        pids: str | int | None
        max_output: str | int | None
        on_max_output: str | None
        cpu_time: Duration | None
        session: str | None
        labels: Mapping[str, str] | None
        name: str | None
        run_id: str | None
        mark: str | None
        lifetime: str
        parent: str | None
        queued_at: str | None
        priority: int | None
        in_container: str | None
        container_runtime: str | None
        foreign: Sequence[int] | None
        starter: Sequence[int] | None
        left_by: str | None
        ready: str | Iterable[str]


# Surfaces that set options by their JSON names. JOURNAL: an owner that adopts a run reads the option back.
HTTP, SIDECAR, MCP, ACP, JOURNAL = "http", "sidecar", "mcp", "acp", "journal"


class RunOption(NamedTuple):
    """One option of a run. The library takes all of them; the other columns say who else does."""

    name: str  # the keyword of `make_spec`, `holdfast.run` and `Supervisor.start`
    json_name: str  # with the unit; also the field of RunSpec
    flag: str | None  # of `holdfast run`; None when the command line cannot set it
    surfaces: tuple[str, ...]
    to_json: Callable[[Any], Any] | None = None  # None: the value in a spec is JSON already


def options_from_json(values: Mapping[str, Any], surface: str) -> SpecOptions:
    """The keywords of `make_spec` for the JSON names that this surface can set; null and absent ones are left out."""
    return {  # type: ignore[return-value]
        option.name: values[option.json_name]
        for option in OPTIONS
        if surface in option.surfaces and values.get(option.json_name) is not None
    }


def _kinds_in_order(kinds: Iterable[str]) -> list[str]:
    return [kind for kind in IDLE_COUNTS if kind in kinds]


def _stream_word(source: str | int) -> str:
    """Where a stream comes from or goes to. A number means nothing to a reader: it is a descriptor of the caller."""
    return "inherit" if isinstance(source, int) else printable(source)


def _pair(process: Sequence[int] | None) -> list[int] | None:
    return None if process is None else list(process)


_JSON = (HTTP, SIDECAR, JOURNAL)

OPTIONS = (
    RunOption("cwd", "cwd", "--cwd", (*_JSON, MCP)),
    RunOption("env", "env", "--env", (HTTP, SIDECAR, MCP), dict),  # a journal has the names, never the values
    RunOption("env_keep", "env_keep", "--env-keep", _JSON, list),
    RunOption("env_drop", "env_drop", "--env-drop", _JSON, list),
    RunOption("stdin", "stdin", "--stdin", _JSON, _stream_word),
    RunOption("stdout", "stdout", None, (JOURNAL,), _stream_word),  # a descriptor cannot travel as JSON
    RunOption("stderr", "stderr", None, (JOURNAL,), _stream_word),
    RunOption("pty", "pty", "--pty", (*_JSON, MCP)),
    RunOption("merge", "merge", "--merge", _JSON),
    RunOption("timeout", "timeout_s", "--timeout", (*_JSON, MCP, ACP)),
    RunOption("max_timeout", "max_timeout_s", "--max-timeout", _JSON),
    RunOption("idle_timeout", "idle_timeout_s", "--idle-timeout", (*_JSON, MCP, ACP)),
    RunOption("idle_counts", "idle_counts", "--idle-counts", _JSON, _kinds_in_order),
    RunOption("grace", "grace_s", "--grace", _JSON),
    RunOption("ladder", "ladder", "--ladder", _JSON, format_ladder),
    RunOption("drain", "drain_s", "--drain", _JSON),
    RunOption("drain_idle", "drain_idle_s", "--drain-idle", _JSON),
    RunOption("kill_wait", "kill_wait_s", "--kill-wait", _JSON),
    RunOption("stragglers", "stragglers", "--stragglers", _JSON),
    RunOption("warn_before", "warn_before_s", "--warn-before", _JSON),
    RunOption("warn_signal", "warn_signal", "--warn-signal", _JSON, signal_name),
    RunOption("memory", "memory_bytes", "--memory", _JSON),
    RunOption("pids", "pids", "--pids", _JSON),
    RunOption("max_output", "max_output_bytes", "--max-output", _JSON),
    RunOption("on_max_output", "on_max_output", "--on-max-output", _JSON),
    RunOption("cpu_time", "cpu_time_s", "--cpu-time", _JSON),
    RunOption("session", "session", "--session", _JSON),
    RunOption("labels", "labels", "--label", _JSON, dict),
    RunOption("name", "name", "--name", (*_JSON, MCP)),
    RunOption("run_id", "run_id", "--id", _JSON),
    RunOption("mark", "mark", None, (JOURNAL,)),  # `make_spec` makes it; a successor has that of the first run
    RunOption("lifetime", "lifetime", "--lifetime", (SIDECAR, JOURNAL)),  # the daemon's runs are always detached
    RunOption("parent", "parent", None, _JSON),  # `holdfast run` finds it in its own environment
    RunOption("queued_at", "queued_at", None, (JOURNAL,)),  # the daemon sets it
    RunOption("priority", "priority", None, (JOURNAL,)),  # the daemon's queue has it; here it is only on record
    RunOption("in_container", "in_container", "--in-container", _JSON),
    RunOption("container_runtime", "container_runtime", "--runtime", _JSON),
    RunOption("foreign", "foreign", None, (JOURNAL,), _pair),  # `register` sets it
    RunOption("starter", "starter", None, (JOURNAL,), _pair),  # `--with-parent` sets it
    RunOption("left_by", "left_by", None, (JOURNAL,)),  # the owner of a run with `stragglers="session"` sets it
    RunOption("ready", "ready", "--ready", _JSON, list),
)
