"""Builds the guard: `native/*.c` becomes one static executable, with the C compiler that pip can install.

Two users: hatchling, when it builds a wheel or an editable install, and `make guard`, which runs this file. Both end in
`build_guard`, so what is developed is what is shipped.

Failures raise `GuardBuildError` with the compiler's own output above it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Static musl needs no libc of the host, so one binary fits every distribution, and the wheel says so with a tag of both
# families, each the oldest that pip still knows. What the guard asks of the *kernel* is checked at run time.
PLATFORM_TAGS = {
    "x86_64": "manylinux2014_x86_64.musllinux_1_1_x86_64",
    "aarch64": "manylinux2014_aarch64.musllinux_1_1_aarch64",
}
ARCHITECTURE_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}

WARNING_FLAGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
]
COMPILE_FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-static",
    "-Os",
    # One guard lives per run, so every page it touches counts: no unused code, no unwind tables, no build paths.
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
    "-s",
]
INSTALLED_PATH = "holdfast/guard/holdfast-guard"


class GuardBuildError(RuntimeError):
    """The guard could not be built; the message says what to change."""


def target_architecture() -> str:
    """The architecture to build for: this machine's, or HOLDFAST_BUILD_ARCH to cross-compile.

    Raises GuardBuildError for a system or an architecture there is no guard for.
    """
    if not sys.platform.startswith("linux"):
        raise GuardBuildError(f"Holdfast supervises processes on Linux only for now; this is {sys.platform}")
    asked = os.environ.get("HOLDFAST_BUILD_ARCH") or platform.machine()
    architecture = ARCHITECTURE_NAMES.get(asked.lower(), asked.lower())
    if architecture not in PLATFORM_TAGS:
        known = ", ".join(PLATFORM_TAGS)
        raise GuardBuildError(f"no guard for architecture {asked!r}; set HOLDFAST_BUILD_ARCH to one of: {known}")
    return architecture


def build_guard(root: Path, output: Path, architecture: str) -> None:
    """Compile and link every `native/*.c` under `root` into the executable `output`, replacing it in one step.

    Raises GuardBuildError when there is nothing to compile, no compiler, or the compiler refuses.
    """
    sources = sorted(str(path) for path in (root / "native").glob("*.c"))
    if not sources:
        raise GuardBuildError(f"no C sources in {root / 'native'}; is this a complete checkout or sdist?")
    output.parent.mkdir(parents=True, exist_ok=True)
    # Linked aside, then renamed: a running guard keeps its file (no ETXTBSY), and nobody ever sees half of a new one.
    with tempfile.TemporaryDirectory(prefix=".building-", dir=output.parent) as aside:
        linked = Path(aside) / output.name
        command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{architecture}-linux-musl"]
        command += [*COMPILE_FLAGS, *WARNING_FLAGS, *sources, "-o", str(linked)]
        if subprocess.run(command, env=compiler_environment(root), check=False).returncode != 0:
            raise GuardBuildError("the compiler refused the guard's sources (or ziglang is not installed); see above")
        linked.chmod(0o755)
        linked.replace(output)


def compiler_environment(root: Path) -> dict[str, str]:
    """The environment for zig, with its caches under `build/` unless the caller has chosen a place.

    The first build compiles musl (about half a minute); later ones take it from the cache, so the cache is kept.
    """
    cache = str(root / "build" / "zig-cache")
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **os.environ}


class GuardBuildHook(BuildHookInterface[Any]):
    """Puts the guard into a wheel, or into the source tree for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the guard and declare it; `version` is hatchling's word for the kind of wheel."""
        root = Path(self.root)
        architecture = target_architecture()
        build_data["pure_python"] = False
        build_data["infer_tag"] = False
        if version == "editable":
            build_guard(root, root / "src" / INSTALLED_PATH, architecture)
            return
        built = root / "build" / f"linux-{architecture}" / "holdfast-guard"
        build_guard(root, built, architecture)
        build_data["tag"] = f"py3-none-{PLATFORM_TAGS[architecture]}"
        build_data["force_include"][str(built)] = INSTALLED_PATH


def main() -> None:
    """Build the guard into the source tree, for development."""
    root = Path(__file__).resolve().parent
    output = root / "src" / INSTALLED_PATH
    try:
        build_guard(root, output, target_architecture())
    except GuardBuildError as error:
        sys.exit(f"hatch_build: {error}")
    print(f"built {output.relative_to(root)} ({output.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
