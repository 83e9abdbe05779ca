"""The time from typing a command to its end: the command line against the bare interpreter.

All Python programs here find their bytecode compiled (in a cache of the benchmark's own, whatever the environment says
about writing bytecode), as they do after an ordinary installation; the first start, which compiles, is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cost import now, per_run

if TYPE_CHECKING:
    from .cost import Sample

COMMAND = "/bin/true"
_LEAN = """\
#!{interpreter}
import sys
from holdfast.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


def bare_python(parameters: dict[str, Any]) -> Sample:
    """python3 -c pass, the interpreter this benchmark runs on."""
    return _repeat([sys.executable, "-c", "pass"], parameters)


def holdfast_run(parameters: dict[str, Any]) -> Sample:
    """holdfast run -- true, the installed command."""
    return _repeat([console_script(), "run", "--", COMMAND], parameters)


def holdfast_run_lean(parameters: dict[str, Any]) -> Sample:
    """The same with the script that uv and pip 26.3 write; the one of pip 23, of Debian 12, imports `re` first."""
    script = Path(parameters["scratch"], "holdfast")
    script.write_text(_LEAN.format(interpreter=sys.executable))
    script.chmod(0o755)
    return _repeat([str(script), "run", "--", COMMAND], parameters)


def coreutils_timeout(parameters: dict[str, Any]) -> Sample:
    """timeout 60 true, the usual way without Python."""
    return _repeat(["timeout", "60", COMMAND], parameters)


def python_subprocess(parameters: dict[str, Any]) -> Sample:
    """The shortest equivalent in Python: subprocess.run with a timeout."""
    program = f"import subprocess; subprocess.run([{COMMAND!r}], timeout=60)"
    return _repeat([sys.executable, "-c", program], parameters)


def console_script() -> str:
    """The `holdfast` script of this interpreter. FileNotFoundError if it is not installed."""
    script = Path(sys.executable).with_name("holdfast")
    if not script.exists():
        raise FileNotFoundError(f"{script} is missing: pip install the package into this environment")
    return str(script)


def _repeat(command: list[str], parameters: dict[str, Any]) -> Sample:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = os.path.join(parameters["scratch"], "bytecode")
    environment["HOLDFAST_STATE_DIR"] = os.path.join(parameters["scratch"], "state")

    def once() -> None:
        subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL, capture_output=True)

    once()
    begin = now()
    for _ in range(parameters["count"]):
        once()
    sample = per_run(begin, parameters["count"])
    return {"ms": 1e3 / float(str(sample["per_second"])), "cpu_ms": float(str(sample["children_us"])) / 1e3}
