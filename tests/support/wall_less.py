"""A runtime without containers: it accepts docker's command line and runs everything on the host.

For what a guard and its agent say to each other: without privileges, in milliseconds, and on every build of the guard.
"""

from __future__ import annotations

from pathlib import Path

_SCRIPT = """#!/bin/sh
here={directory}
case $1 in
exec)
  while shift; do case $1 in -*) ;; *) break ;; esac; done
  shift 2  # the container, and where the agent would be in it
  exec $here/agent "$@" ;;
cp)
  {copy} ;;
container)
  exec cat $here/status ;;
esac
"""
_COPY = 'cp "$2" $here/copying && mv $here/copying $here/agent'


def wall_less(directory: Path, *, copy: str = _COPY) -> str:
    """Make the runtime in this directory; returns the value of `container_runtime`."""
    runtime = directory / "docker"
    runtime.write_text(_SCRIPT.format(directory=directory, copy=copy))
    runtime.chmod(0o755)
    (directory / "status").write_text("running\n")
    return str(runtime)
