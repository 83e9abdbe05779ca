"""`holdfast install` and `holdfast uninstall`: write Holdfast into the settings of agent harnesses, or take it out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...harnesses import installation
from ...harnesses.ledger import Ledger
from ...harnesses.managed_file import Commands, Where, own_commands
from ...harnesses.table import INSTALLABLE, choose
from ...wording.plain import plain
from ..parsing.command import Command, open_state, put
from ..parsing.options import Option, UsageError

if TYPE_CHECKING:
    from ...harnesses.installation import Plan
    from ..parsing.options import CommandLine

OPTIONS = (
    Option("--user", None, "the settings of the user (default)"),
    Option("--project", None, "the settings of the project in this directory"),
    Option("--dry-run", None, "only show the changes"),
    Option("--yes", None, "make the changes without a question"),
)
NAMES = "|".join(row.name for row in INSTALLABLE)


def act(given: CommandLine) -> int:
    return change(given, installs=True)


def change(given: CommandLine, *, installs: bool) -> int:
    """Show the planned changes of each harness; make them when the user agrees."""
    if given.has("--user") and given.has("--project"):
        raise UsageError("--user and --project were both given", remedy="leave one of them out")
    home = os.path.expanduser("~")
    state = open_state(given, create=True)
    where = Where(given.has("--project"), home, os.getcwd())
    # Without Holdfast's programs nothing can be installed, and everything can be taken out.
    commands = own_commands(state.path) if installs else Commands("holdfast", "holdfast-sh", state.path)
    ledger = Ledger(state)
    rows = choose(given.words, home)
    files = {row: row.files(where, commands) for row in rows}
    make = installation.plan_install if installs else installation.plan_uninstall
    plans = {row: make(row.title, files[row], ledger) for row in rows}
    _show(list(plans.values()), installs=installs)
    if not any(plan.changes for plan in plans.values()) or not _agreed(given):
        return 0
    carry_out = installation.install if installs else installation.uninstall
    for row, plan in plans.items():
        carry_out(plan, files[row], ledger)
        if plan.changes:
            put(f"{row.title}: {'Holdfast is installed' if installs else 'Holdfast is taken out'}\n")
        for change in plan.changes if installs else ():
            if change.before is not None:
                put(f"  {plain(change.path)}; the backup is {plain(ledger.backup(change.path))}\n")
        if installs and plan.changes and row.remark:
            put(f"  {row.remark}\n")
    return 0


def _show(plans: list[Plan], *, installs: bool) -> None:
    for plan in plans:
        if not plan.changes:
            put(f"{plan.title}: {'Holdfast is installed already' if installs else 'there is nothing of Holdfast'}\n")
        for change in plan.changes:
            if change.note:
                put(f"{plain(change.path)}: {change.note}\n")
            put("".join(f"{plain(line)}\n" for line in installation.diff(change).splitlines()))


def _agreed(given: CommandLine) -> bool:
    if given.has("--dry-run"):
        return False
    if given.has("--yes"):
        return True
    if not (os.isatty(0) and os.isatty(1)):
        put("nothing was changed: add --yes to make these changes\n")
        return False
    put("Make these changes? [y/N] ")
    with open(0, encoding="utf-8", errors="replace", closefd=False) as answers:
        return answers.readline().strip().lower() in ("y", "yes")


COMMAND = Command(
    f"install [{NAMES}]... [OPTIONS]",
    "Write Holdfast into the settings of agent harnesses. Without a name: of all that are here.",
    OPTIONS,
    act,
    "Shows the changes, and asks. Where nobody can answer, it only shows them, unless --yes is given.\n",
)
