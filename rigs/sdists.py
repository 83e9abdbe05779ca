"""Source distributions of installed packages, each unpacked in the cache: `python -m rigs.sdists NAME...`.

The owners' tests of a package are in its source distribution, and seldom in its wheel.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from . import cache

_LONGEST_S = 600.0


def unpacked(package: str) -> Path:
    """The unpacked source distribution of the installed version; downloaded by its name unless it is there.

    OSError, subprocess.SubprocessError or tarfile.TarError if that is impossible.
    """
    name = f"{package}-{version(package)}"
    directory = cache.directory() / "sdists" / name
    if directory.exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=directory.parent))
    try:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps"]
        words = [*pip, "--no-binary", package, "--dest", str(making), f"{package}=={version(package)}"]
        subprocess.run(words, check=True, stdout=sys.stderr, timeout=_LONGEST_S)
        with tarfile.open(making / f"{name}.tar.gz") as archive:
            archive.extractall(making, filter="data")
        try:
            (making / name).rename(directory)  # only a whole one gets the name
        except OSError:
            if not directory.exists():  # somebody else was faster
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return directory


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(unpacked(given))
