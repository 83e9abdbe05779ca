"""The rooms of `src/holdfast`, and which room may use which. `tests/test_rooms.py` holds the table.

A room is a folder, or a module that stands beside the folders. A room may use the rooms in its row and its own modules;
nothing else, and nothing lazily. So the rows read from the ground up: each room only uses rooms above it in this table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .imports import Import, Package

ROOT = "holdfast"  # the package itself: the names that people import

ROOMS: dict[str, str] = {
    # What everything speaks of.
    "values": "",
    "journal": "values",
    "outcome": "values journal",
    "projections": "values journal outcome",
    "wording": "values journal outcome",
    "streams": "",
    "service_manager": "",
    # One run: the guard beside it, what is on disk, and the library around both.
    "guard": "values journal",
    "proc": "values outcome",
    "readiness": "values journal proc",
    "state": "values journal outcome projections guard proc",
    "sqlite": "values",
    "state.index": "values projections proc state sqlite",
    "state.upkeep": "values journal guard proc state state.index",
    "runs": "values journal outcome projections guard proc readiness state state.upkeep",
    "doctor": "values guard proc state sqlite state.index state.upkeep runs",
    # Many hosts.
    "ray": "values journal outcome projections guard state runs",
    # The daemon.
    "config": "values",
    "access": "values state config",
    "web": "values",
    "daemon.process": "values",
    "daemon.store": "values sqlite state",
    "daemon.events": "values daemon.store",
    "daemon.webhooks": "values state daemon.store daemon.events",
    "daemon.engines": "values outcome proc runs",
    "daemon.ray_engine": "values journal outcome proc state ray daemon.process daemon.engines",
    "daemon.queue": "values journal projections state state.index config access daemon.process daemon.store "
    "daemon.events daemon.webhooks daemon.engines",
    "daemon.service": "values journal outcome proc state state.index doctor config daemon.process daemon.events "
    "daemon.webhooks daemon.engines daemon.queue",
    "daemon.agents": "values journal projections state config daemon.queue daemon.service",
    "daemon.http.wire": "values projections access web daemon.service",
    "daemon.http.access": "values proc config access web daemon.queue daemon.service",
    "daemon.http.routes": "values journal outcome projections wording state.index doctor access config web "
    "daemon.events daemon.queue daemon.service daemon.http.wire daemon.http.access",
    "daemon.http.browser": "values state access web daemon.http.wire",
    "daemon.http.openai": "values outcome projections access config web daemon.agents daemon.http.wire "
    "daemon.http.access",
    "daemon.http.a2a": "values projections access config web daemon.agents daemon.http.wire daemon.http.access",
    "daemon.http": "values config access web daemon.service daemon.agents daemon.http.wire daemon.http.access "
    "daemon.http.routes daemon.http.browser daemon.http.openai daemon.http.a2a",
    "daemon": "values journal service_manager sqlite state state.index state.upkeep runs access config web ray "
    "daemon.process daemon.store daemon.events daemon.webhooks daemon.engines daemon.ray_engine daemon.queue "
    "daemon.service daemon.agents daemon.http.browser daemon.http",
    # The other doors.
    "client": "values state",
    "sidecar": "values projections streams state runs",
    "sessions": "values wording state state.index",
    "mcp": "values projections state state.index sessions runs web",
    "acp": "values journal outcome projections streams runs",
    "compat": "values wording runs",
    "adapters": "values projections streams runs compat",
    "pytest_plugin": "values runs compat",
    "otel": "values journal outcome projections runs",
    "top": "values journal projections wording state state.index client",
    "harnesses": "values state",
    "foreign": "values proc",
    # The command line.
    "cli.parsing": "values state config",
    "cli.printing": "values journal outcome projections wording service_manager state cli.parsing",
    "cli.terminal": "values state runs cli.printing",
    "cli.lookup": "values projections proc state state.index runs daemon client cli.parsing cli.printing",
    "cli.following": "values journal outcome projections wording readiness state state.index runs client "
    "cli.parsing cli.printing cli.terminal cli.lookup",
    "cli.starting": "values state runs cli.parsing cli.printing",
    "cli.commands": "values journal outcome projections wording proc state state.index runs doctor access config "
    "daemon client sidecar mcp acp top harnesses foreign sessions cli.parsing cli.printing cli.terminal cli.lookup "
    "cli.following cli.starting",
    "cli": "values cli.parsing cli.printing cli.commands",
    # The package itself.
    ROOT: "values journal outcome runs client",
}


def room_of(module: str, package: Package) -> str:
    """The room a module stands in: its folder, or itself when it stands beside the folders."""
    path = module.removeprefix(f"{package.name}.")
    if module == package.name:
        return ROOT
    if module in package.packages or "." not in path:
        return path
    return path.rpartition(".")[0]


def edges(imports: list[Import], package: Package) -> dict[tuple[str, str], list[Import]]:
    """Which room uses which, each with the imports that make it so."""
    found: dict[tuple[str, str], list[Import]] = {}
    for each in imports:
        pair = (room_of(each.module, package), room_of(each.target, package))
        if pair[0] != pair[1]:
            found.setdefault(pair, []).append(each)
    return found
