"""The daemon's log: one line per event on stderr, as text for people or as JSON for machines.

A line has a message, which is the same in both forms, and fields, which only JSON shows by name. Warnings that the
library gives through the logger `holdfast` become lines of this log.
"""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any

from ...values.timestamps import format_timestamp


class Log:
    """Writes each line with one write(2), so that the lines of several processes never mix."""

    def __init__(self, format_: str = "text", fd: int = 2) -> None:
        self.format = format_
        self._fd = fd

    def info(self, message: str, **fields: Any) -> None:
        """Log something that is meant to happen."""
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """Log something that went wrong, with the run's id if there is one; the daemon goes on."""
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """Log something that should never happen."""
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, Any]) -> None:
        if self.format == "json":
            stamped = {"at": format_timestamp(time.time_ns()), "level": level, "message": message, **fields}
            line = json.dumps(stamped, default=str)
        else:
            run_id = fields.get("run_id")
            named = f" (run {run_id})" if run_id is not None and str(run_id) not in message else ""
            # No timestamp: a service manager stamps lines itself, and a terminal needs none.
            line = f"holdfast: {'' if level == 'info' else level + ': '}{message}{named}"
        try:
            os.write(self._fd, (" ".join(line.splitlines()) + "\n").encode("utf-8", "backslashreplace"))
        except OSError:
            pass  # stderr has no reader, and there is no other place to report it


class LogForwarder(logging.Handler):
    """A logging handler that turns records of the library and its dependencies into lines of this log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record as a line. Never raises."""
        try:
            message = record.getMessage()
            if record.exc_info is not None and record.exc_info[1] is not None:
                message = f"{message}: {record.exc_info[1]!r}"
            if record.levelno >= logging.ERROR:
                self._log.error(message, logger=record.name)
            else:
                self._log.warning(message, logger=record.name)
        except Exception:  # noqa: BLE001 - a log line never ends the program
            self.handleError(record)
