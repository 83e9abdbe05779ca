"""What `holdfast run` tells the service manager that started it: the result of the run in systemd's own words.

systemd sees only our exit code, so for it a timeout is `exit-code`. The status line, which `systemctl status` shows,
has the result that systemd would give a command of its own: `timeout (killed TERM): deadline of 5s passed; run ID`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...projections.systemd import systemd
from ...service_manager.notifier import Notifier

if TYPE_CHECKING:
    from ...outcome import Outcome


def tell_started(run_id: str) -> None:
    """The run has begun."""
    Notifier(os.environ).status(f"run {run_id}")


def tell_ended(outcome: Outcome, run_id: str, code: int) -> None:
    """The run is settled, and `code` is our exit code."""
    Notifier(os.environ).ended(status_text(outcome, run_id), code)


def status_text(outcome: Outcome, run_id: str) -> str:
    """The outcome as one line: systemd's result, the end of the command, the reason, and the run."""
    result, how, which = systemd(outcome)
    end = "" if how is None else f" ({how} {which})"
    return f"{result or outcome.status}{end}: {outcome.reason}; run {run_id}"
