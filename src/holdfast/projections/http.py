"""The outcome as `Holdfast-*` HTTP headers, in addition to the report in the body.

The outcome of a run is not the outcome of the request: a request about a failed run succeeds, so the status code does
not depend on the outcome. The headers are for scripts and proxies that do not read JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exit_code import exit_code

if TYPE_CHECKING:
    from ..outcome import Outcome

STATUS_CODE = 200


def http_headers(outcome: Outcome, run_id: str) -> dict[str, str]:
    """The `Holdfast-*` headers. Before the verdict, the headers that tell the verdict are left out."""
    headers = {"Holdfast-Run": run_id, "Holdfast-State": outcome.state}
    if outcome.status is not None:
        headers["Holdfast-Status"] = outcome.status
        headers["Holdfast-Cause"] = str(outcome.cause)
        headers["Holdfast-Exit-Code"] = str(exit_code(outcome))  # the exit code of `holdfast wait`
    return headers
