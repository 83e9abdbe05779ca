"""The table of the daemon's settings: type, default, and the name in the file, as a flag and as a variable.

`serve --help`, `holdfast config` and docs/configuration.md are made from this table. A flag is named after the field
unless the table names another, and the variable after the flag.
"""

# No `from __future__ import annotations`: the annotations are the table.
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from ..values.disk_floor import DEFAULT_FLOOR, DiskFloor
from ..values.spec import DEFAULT_DRAIN_S, DEFAULT_GRACE_S
from .agents import AGENTS, Agent
from .kinds import (
    ADDRESSES,
    AT_LEAST_ONE,
    COUNT,
    COUNTS_BY_KEY,
    DISK_FLOOR,
    DURATION,
    FILE,
    LIST,
    SIZE,
    SWITCH,
    TEXT,
    SettingKind,
    optional,
    words,
)
from .policy import POLICY, RunPolicy


class SettingColumns(NamedTuple):
    """The columns of a setting beside its name, type and default."""

    path: str
    kind: SettingKind
    doc: str
    reloads: bool = True
    flag: str | None = None
    secret: bool = False
    only_in_file: bool = False  # it has neither flag nor variable


_OPTIONAL_DURATION, _OPTIONAL_SIZE, _OPTIONAL_COUNT = optional(DURATION), optional(SIZE), optional(AT_LEAST_ONE)
_POLICIES = words("drain", "handoff", "cancel")


class Config(NamedTuple):
    """The settings of a daemon. Times are in seconds and sizes in bytes; None switches a setting off."""

    # Defaults of a run's options.
    default_timeout_s: Annotated[
        float | None, SettingColumns("defaults.timeout", _OPTIONAL_DURATION, "end a run after this")
    ] = None
    default_idle_timeout_s: Annotated[
        float | None,
        SettingColumns("defaults.idle_timeout", _OPTIONAL_DURATION, "end a run after this long without activity"),
    ] = None
    default_grace_s: Annotated[
        float, SettingColumns("defaults.grace", DURATION, "the time that a tree gets to end by itself before SIGKILL")
    ] = DEFAULT_GRACE_S
    default_drain_s: Annotated[
        float, SettingColumns("defaults.drain", DURATION, "wait this long for a run's output after its end")
    ] = DEFAULT_DRAIN_S
    default_memory_bytes: Annotated[
        int | None, SettingColumns("defaults.memory", _OPTIONAL_SIZE, "end a run when its tree uses more")
    ] = None
    default_pids: Annotated[
        int | None, SettingColumns("defaults.pids", _OPTIONAL_COUNT, "end a run when its tree has more processes")
    ] = None
    default_max_output_bytes: Annotated[
        int | None,
        SettingColumns("defaults.max_output", _OPTIONAL_SIZE, "end a run when it writes more; none: roll at 1G"),
    ] = None
    default_cpu_time_s: Annotated[
        float | None,
        SettingColumns("defaults.cpu_time", _OPTIONAL_DURATION, "end a run when its tree has used more CPU time"),
    ] = None

    # Admission: how many runs may run and be queued, and how long a run may stay queued.
    max_runs: Annotated[
        int, SettingColumns("limits.max_runs", AT_LEAST_ONE, "how many runs at once; the rest is queued")
    ] = 16
    queue_limit: Annotated[
        int, SettingColumns("limits.queue_limit", COUNT, "how many runs may be queued; above that, 429")
    ] = 1000
    queue_timeout_s: Annotated[
        float | None, SettingColumns("limits.queue_timeout", _OPTIONAL_DURATION, "how long a run may be queued")
    ] = None
    max_age_s: Annotated[
        float | None,
        SettingColumns("limits.max_age", _OPTIONAL_DURATION, "do not start a queued run that is older than this"),
    ] = 86_400.0
    concurrency: Annotated[
        Mapping[str, int],
        SettingColumns("limits.concurrency", COUNTS_BY_KEY, "how many runs of a concurrency key at once"),
    ] = MappingProxyType({})
    concurrency_per_key: Annotated[
        int | None,
        SettingColumns("limits.concurrency_per_key", _OPTIONAL_COUNT, "how many runs of every other key at once"),
    ] = None

    # The disk of the state directory.
    disk_floor: Annotated[
        DiskFloor | None,
        SettingColumns(
            "limits.disk_floor", optional(DISK_FLOOR), "what must stay free on the disk; of two, the smaller"
        ),
    ] = DEFAULT_FLOOR
    on_low_disk: Annotated[
        str, SettingColumns("limits.on_low_disk", words("queue", "refuse"), "below that, queue or refuse new runs")
    ] = "queue"
    free_disk: Annotated[
        bool, SettingColumns("retention.free_disk", SWITCH, "below that, remove the largest ended runs first")
    ] = False

    # Where runs start.
    engine: Annotated[
        str,
        SettingColumns(
            "engine.name", words("local", "ray"), "start runs on this host, or where Ray has room", reloads=False
        ),
    ] = "local"
    ray_address: Annotated[
        str, SettingColumns("engine.ray_address", TEXT, "the Ray cluster: HOST:PORT, or auto", reloads=False)
    ] = "auto"
    ray_state_dir: Annotated[
        str | None,
        SettingColumns(
            "engine.ray_state_dir", optional(TEXT), "where each node keeps its runs (none: in its home)", reloads=False
        ),
    ] = None
    ray_lease_s: Annotated[
        float,
        SettingColumns(
            "engine.ray_lease", DURATION, "how long a node that is cut off lets its runs go on", reloads=False
        ),
    ] = 30.0

    # Shutdown and start-up.
    drain_s: Annotated[float, SettingColumns("shutdown.drain", DURATION, "how long runs may go on after SIGTERM")] = (
        60.0
    )
    on_shutdown: Annotated[
        str, SettingColumns("shutdown.on_shutdown", _POLICIES, "wait for the runs, hand them over, or cancel them")
    ] = "drain"
    stop_limit_s: Annotated[
        float | None,
        SettingColumns(
            "shutdown.stop_limit", _OPTIONAL_DURATION, "the manager kills the daemon this long after SIGTERM"
        ),
    ] = None
    recovery_s: Annotated[
        float,
        SettingColumns("startup.recovery", DURATION, "how long the daemon may take to adopt live runs", reloads=False),
    ] = 30.0

    # The HTTP listener.
    listen: Annotated[
        tuple[str, ...], SettingColumns("http.listen", ADDRESSES, "listen on TCP, too, with a token", reloads=False)
    ] = ()
    tls_cert: Annotated[
        str | None,
        SettingColumns("http.tls_cert", optional(FILE), "speak TLS on TCP, with this certificate (PEM)", reloads=False),
    ] = None
    tls_key: Annotated[
        str | None,
        SettingColumns("http.tls_key", optional(FILE), "its key (none: in the same file)", reloads=False),
    ] = None
    tls_ca: Annotated[
        str | None,
        SettingColumns("http.tls_ca", optional(FILE), "clients need a certificate of this authority", reloads=False),
    ] = None
    insecure_plain_tcp: Annotated[
        bool,
        SettingColumns("http.insecure_plain_tcp", SWITCH, "listen beyond loopback without TLS", reloads=False),
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...],
        SettingColumns(
            "http.allowed_hosts", LIST, "further names in Host and Origin", reloads=False, flag="--allowed-host"
        ),
    ] = ()
    request_bytes: Annotated[
        int, SettingColumns("http.request_size", SIZE, "the largest request body", reloads=False, flag="--request-size")
    ] = 8 << 20
    request_timeout_s: Annotated[
        float, SettingColumns("http.request_timeout", DURATION, "how long a request may take to arrive", reloads=False)
    ] = 30.0
    max_connections: Annotated[
        int,
        SettingColumns(
            "http.max_connections",
            AT_LEAST_ONE,
            "how many connections of one listener at once; above that, 503",
            reloads=False,
        ),
    ] = 4096

    client_connections: Annotated[
        int | None,
        SettingColumns(
            "http.client_connections", _OPTIONAL_COUNT, "how many connections of one client at once; above that, 429"
        ),
    ] = 2048
    client_rate: Annotated[
        int | None,
        SettingColumns("http.client_rate", _OPTIONAL_COUNT, "requests of one client per second; above that, 429"),
    ] = 5000
    stranger_rate: Annotated[
        int | None,
        SettingColumns("http.stranger_rate", _OPTIONAL_COUNT, "the same for an address whose clients have no token"),
    ] = 200
    client_bytes: Annotated[
        int | None,
        SettingColumns(
            "http.client_bytes",
            _OPTIONAL_SIZE,
            "unanswered bytes of one client; above that, 429",
            flag="--client-bytes",
        ),
    ] = 256 << 20

    # Retention.
    retention_age_s: Annotated[
        float | None, SettingColumns("retention.age", _OPTIONAL_DURATION, "remove runs that are older than this")
    ] = 30 * 86_400.0
    retention_count: Annotated[
        int | None, SettingColumns("retention.count", _OPTIONAL_COUNT, "keep at most so many ended runs")
    ] = 100_000
    retention_bytes: Annotated[
        int | None,
        SettingColumns(
            "retention.size", _OPTIONAL_SIZE, "keep runs of at most this size in all", flag="--retention-size"
        ),
    ] = 20 << 30
    events_age_s: Annotated[
        float | None, SettingColumns("events.age", _OPTIONAL_DURATION, "how long events can be replayed")
    ] = 7 * 86_400.0
    events_count: Annotated[int, SettingColumns("events.count", AT_LEAST_ONE, "how many events can be replayed")] = (
        100_000
    )

    # The audit log.
    audit_age_s: Annotated[
        float | None, SettingColumns("audit.age", _OPTIONAL_DURATION, "remove records of the audit that are older")
    ] = 90 * 86_400.0
    audit_bytes: Annotated[
        int | None,
        SettingColumns("audit.size", _OPTIONAL_SIZE, "keep this much of the audit", flag="--audit-size"),
    ] = 1 << 30

    # Webhooks, agents and the log.
    webhook_secret: Annotated[
        str | None,
        SettingColumns(
            "webhooks.secret",
            optional(TEXT),
            "the key that signs deliveries (none: a new one)",
            reloads=False,
            secret=True,
        ),
    ] = None
    agents: Annotated[
        Mapping[str, Agent], SettingColumns("agents", AGENTS, "commands as services: see agents.md", only_in_file=True)
    ] = MappingProxyType({})
    policy: Annotated[
        RunPolicy, SettingColumns("policy", POLICY, "what may be run: see access.md", only_in_file=True)
    ] = RunPolicy()
    log_format: Annotated[str, SettingColumns("log.format", words("text", "json"), "how log lines are written")] = (
        "text"
    )

    def __repr__(self) -> str:
        # The generated repr would show the secret, and reprs end up in logs.
        return f"Config({', '.join(f'{name}={_TABLE[name].shown(value)}' for name, value in self._asdict().items())})"


class Setting(NamedTuple):
    """One setting, as every surface needs it. A secret has no flag and no variable: other users could read them."""

    name: str
    path: str
    kind: SettingKind
    default: Any
    flag: str | None
    variable: str | None
    reloads: bool
    doc: str
    secret: bool

    @property
    def default_text(self) -> str:
        """The default, as help texts and the manual show it."""
        return f"default {self.shown(self.default)}"

    def shown(self, value: Any) -> str:
        """The value for people; a secret is not shown."""
        return "(set)" if self.secret and value is not None else self.kind.write(value)


def settings() -> dict[str, Setting]:
    """The table by field name."""
    return dict(_TABLE)


def _setting(name: str, about: SettingColumns) -> Setting:
    own = "--" + name.removesuffix("_bytes").removesuffix("_s").replace("_", "-")
    flag = None if about.secret or about.only_in_file else about.flag or own
    variable = None if flag is None else "HOLDFAST_" + flag[2:].replace("-", "_").upper()
    default = Config._field_defaults[name]
    return Setting(name, about.path, about.kind, default, flag, variable, about.reloads, about.doc, about.secret)


_TABLE = {name: _setting(name, hint.__metadata__[0]) for name, hint in Config.__annotations__.items()}
