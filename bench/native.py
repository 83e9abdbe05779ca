"""The C programs of the benchmarks, compiled on demand into a temporary directory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).resolve().parent
_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]


class Programs(NamedTuple):
    """`limit` is the physical limit and the measured commands, see limit.c; `shim` exists if zig does."""

    limit: str
    shim: str | None


def build(directory: Path, *, with_shim: bool) -> Programs:
    """Compile limit.c and, if wanted, shim.c. RuntimeError with the compiler's words if there is no gcc."""
    limit = directory / "limit"
    try:
        _compile(["gcc", "-O2", *_WARNINGS, str(_HERE / "limit.c"), "-o", str(limit)])
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"limit.c cannot be compiled: {error}; install gcc (Debian: apt-get install gcc)") from None
    return Programs(str(limit), _build_shim(directory) if with_shim else None)


def _build_shim(directory: Path) -> str | None:
    """Static musl, like the guard: a dynamic or glibc program would measure the loader. None without zig."""
    shim = directory / "shim"
    target = f"{platform.machine()}-linux-musl"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-static", "-Os", "-s", *_WARNINGS]
    try:
        _compile([*command, str(_HERE / "shim.c"), "-o", str(shim)])
    except (OSError, subprocess.CalledProcessError):
        return None
    return str(shim)


def _compile(command: list[str]) -> None:
    subprocess.run(command, check=True, stderr=subprocess.PIPE, cwd=_HERE.parent, env=_environment())


def _environment() -> dict[str, str]:
    # The cache of the guard's build, if there is one: zig compiles musl once, which takes half a minute.
    cache = str(_HERE.parent / "build" / "zig-cache")
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **os.environ}
