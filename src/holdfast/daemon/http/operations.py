"""The table of HTTP operations, from which the routes and the OpenAPI document are made.

The event stream and the dashboard's files are routes without an operation. The operation of the document is in
`openapi.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .browser import login
from .routes import (
    audit,
    doctor,
    health,
    hosts,
    output,
    probes,
    processes,
    runs,
    search,
    sessions,
    settings,
    statistics,
    timeline,
    tokens,
)

if TYPE_CHECKING:
    from .wire.operation import Operation

_SUBJECTS = (
    runs,
    output,
    processes,
    timeline,
    search,
    sessions,
    statistics,
    health,
    settings,
    hosts,
    probes,
    doctor,
    tokens,
    audit,
    login,
)
OPERATIONS: tuple[Operation, ...] = tuple(operation for subject in _SUBJECTS for operation in subject.OPERATIONS)
PUBLIC = login.PUBLIC | probes.PUBLIC  # paths for clients that nobody knows
