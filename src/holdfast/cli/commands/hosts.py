"""`holdfast hosts`: list the hosts of the daemon, their load, and the leases of their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...client import calls
from ..lookup.daemon_request import ask
from ..parsing.command import JSON, Command, no_words, open_state, show_json
from ..printing import messages
from ..printing.table import Column, show_table

if TYPE_CHECKING:
    from ..parsing.options import CommandLine

_COLUMNS = (
    Column("HOST"),
    Column("NODE"),
    Column("STATE"),
    Column("RUNS", right=True),
    Column("CPU", right=True),
    Column("GPU", right=True),
    Column("LEASE"),
    Column("LABELS", cut=True),
)
_WITHIN_S = 90.0  # a node of Ray may have to start its actor first
_OWN_LABELS = "ray.io/"


def act(given: CommandLine) -> int:
    no_words(given, "hosts")
    found: dict[str, Any] = ask(open_state(given), calls.simple("hosts"), within_s=_WITHIN_S)
    if given.has("--json"):
        show_json(found)
        return 0
    show_table(_COLUMNS, [_row(host) for host in found["hosts"]])
    for host in found["hosts"]:
        if host["problem"] is not None:
            messages.say(f"{host['host']}: {host['problem']}")
    return 0


def _row(host: dict[str, Any]) -> list[str]:
    resources, slots = host["resources"], host["slots"]
    live = "-" if host["live"] is None else str(host["live"])
    labels = [f"{name}={value}" for name, value in host["labels"].items() if not name.startswith(_OWN_LABELS)]
    return [
        host["host"],
        (host["node_id"] or "-")[:12],
        host["state"],
        live if slots is None else f"{live}/{slots}",
        f"{resources.get('CPU', 0):g}",
        f"{resources.get('GPU', 0):g}",
        "-" if host["lease_s"] is None else f"{host['lease_left_s']:.0f} of {host['lease_s']:g} s",
        ",".join(labels) or "-",
    ]


COMMAND = Command(
    "hosts [--json]",
    "List the hosts on which the daemon starts runs: their load, their resources, and the leases of their runs.",
    (JSON,),
    act,
    "With `holdfast serve --engine ray` these are the nodes of the Ray cluster; otherwise it is this host.\n"
    "Exit codes: 0; 125 no daemon answers.\n",
)
