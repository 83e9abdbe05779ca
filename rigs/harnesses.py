"""Agent harnesses from npm, each in a directory named by its version: `python -m rigs.harnesses [NAME]...`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import cache

_LONGEST_S = 600.0  # npm retries a download again and again


@dataclass(frozen=True, slots=True)
class Rig:
    """A package of npm in the version that the trials were written for, and its program."""

    package: str
    version: str
    program: str

    @property
    def directory(self) -> Path:
        """The installation in the cache."""
        return cache.directory() / f"{self.package.rpartition('/')[2]}-{self.version}"

    @property
    def path(self) -> Path:
        """The program. It is there after `install`."""
        return self.directory / "node_modules" / ".bin" / self.program


RIGS = {
    "claude": Rig("@anthropic-ai/claude-code", "2.1.326", "claude"),
    "codex": Rig("@openai/codex", "0.169.0", "codex"),
    "gemini": Rig("@google/gemini-cli", "0.61.0", "gemini"),
    "opencode": Rig("opencode-ai", "1.18.33", "opencode"),
}


def install(rig: Rig) -> None:
    """Install the package unless it is there. OSError or subprocess.SubprocessError if npm cannot."""
    if rig.path.exists():
        return
    print(f"rigs: npm install {rig.package}@{rig.version}", file=sys.stderr, flush=True)
    rig.directory.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=rig.directory.parent))
    try:
        npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(making)]
        subprocess.run(
            [*npm, f"{rig.package}@{rig.version}"], cwd=making, check=True, stdout=sys.stderr, timeout=_LONGEST_S
        )
        try:
            making.rename(rig.directory)  # only a whole installation gets the name
        except OSError:
            if not rig.path.exists():  # somebody else was faster
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


def main(names: list[str]) -> int:
    """Install the named harnesses, or all of them."""
    failed = 0
    for name in names or RIGS:
        try:
            install(RIGS[name])
        except (OSError, subprocess.SubprocessError) as error:
            print(f"rigs: {name} cannot be installed: {error}", file=sys.stderr)
            failed = 1
        else:
            print(RIGS[name].path)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
