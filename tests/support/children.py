"""The misbehaving programs of tests/children, ready to run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

CHILDREN = Path(__file__).resolve().parent.parent / "children"
_C_FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]


class Children:
    """The argv of a child by name; C programs are compiled at their first use, into one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, name: str, *arguments: object) -> list[str]:
        """The argv of `name`: a script by its file name, a C program without its suffix."""
        script = CHILDREN / name
        path = script if script.suffix else self.program(name)
        return [str(path), *map(str, arguments)]

    def program(self, name: str) -> Path:
        """The compiled program. RuntimeError with the compiler's words if it does not compile."""
        program = self.directory / name
        if not program.exists():
            compile_c([CHILDREN / f"{name}.c"], program)
        return program


def compile_c(sources: list[Path], target: Path, *flags: str) -> Path:
    """Compile C sources to a program; with the system's compiler, or with the one that builds the guard."""
    compiler = [shutil.which("cc")] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
    command = [*compiler, *_C_FLAGS, *flags, *sources, "-o", target]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{target.name} does not compile:\n{done.stderr}")
    target.chmod(0o755)  # with any umask: other users run it too
    return target
