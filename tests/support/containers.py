"""Real containers for tests, in a storage of their own, and their processes as the host's kernel sees them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .processes import describe, state_of, wait_exited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .children import Children

NEEDS = {"podman": "podman", "runc": "runc", "busybox": "busybox-static"}
_BOUND_S = 60
_RUN = ("--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")


def missing() -> list[str]:
    """The missing Debian packages for containers."""
    return [package for program, package in NEEDS.items() if shutil.which(program) is None]


class Containers:
    """A storage with one image: /bin/sh, and the named programs of tests/children, all static."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # vfs and runc, because overlays and crun do not work in every machine that tests run in.
        self.runtime = (
            f"podman --root {directory}/root --runroot {directory}/run --storage-driver=vfs --runtime runc"
            " --cgroup-manager=cgroupfs"
        )

    def podman(self, *arguments: str) -> str:
        """Run podman and return its output. AssertionError with its words if it fails."""
        command = [*self.runtime.split(), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BOUND_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def script(self) -> str:
        """A program that is podman with this storage, and with the limits that containers need here."""
        program, _, options = self.runtime.partition(" ")
        run = f'run) shift; exec {shutil.which(program)} {options} run {" ".join(_RUN)} "$@" ;;'
        return f'#!/bin/sh\ncase $1 in {run} esac\nexec {shutil.which(program)} {options} "$@"\n'

    def make_image(self, child: Children, programs: tuple[str, ...]) -> None:
        """Import the image: no tool but a shell, not even the usual directories."""
        from .children import CHILDREN, compile_c

        archive = self.directory / "image.tar"
        with tarfile.open(archive, "w") as image:
            image.add(str(shutil.which("busybox")), "bin/sh")
            for name in programs:
                static = compile_c([CHILDREN / f"{name}.c"], child.directory / f"static-{name}", "-static")
                image.add(static, name)
        self.podman("import", str(archive), "localhost/holdfast-test")
        archive.unlink()

    @contextmanager
    def container(self, *options: str) -> Iterator[Container]:
        """A running container, whose first process only waits; removed at the end."""
        name = f"hf-{os.urandom(4).hex()}"
        # A shell without tools can wait on a terminal of its own.
        self.podman("run", "-d", "-t", *_RUN, *options, "--name", name, "localhost/holdfast-test", "/bin/sh")
        try:
            yield Container(self, name, int(self.podman("container", "inspect", "-f", "{{.State.Pid}}", name)))
        finally:
            subprocess.run(
                [*self.runtime.split(), "rm", "-f", "-t", "0", name], capture_output=True, timeout=_BOUND_S, check=False
            )


class Container(NamedTuple):
    """One running container; `first` is its first process, by the host's number."""

    owner: Containers
    name: str
    first: int

    @property
    def runtime(self) -> str:
        """The value of `container_runtime`."""
        return self.owner.runtime

    @property
    def options(self) -> tuple[str, ...]:
        """The options for a command line."""
        return ("--in-container", self.name, "--runtime", self.runtime)

    def processes(self) -> list[int]:
        """Its processes besides the first one, by the host's numbers: from the kernel, not from a runtime."""
        namespace = _namespace(self.first)
        assert namespace is not None, "the container is gone"
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        # Without the dead: the container's first process must reap an orphan, and a shell does not.
        inside = [pid for pid in pids if pid != self.first and _namespace(pid) == namespace]
        return [pid for pid in inside if state_of(pid) not in (None, "Z", "X")]

    def is_empty(self) -> bool:
        """Whether no process runs in it, after ending processes have ended."""
        for pid in self.processes():
            assert wait_exited(pid), f"still in the container: {describe(pid)}"
        return not self.processes()


def _namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:  # it is gone
        return None


@contextmanager
def storage() -> Iterator[Containers]:
    """A storage of its own: the user's containers are not touched."""
    directory = Path(tempfile.mkdtemp(prefix="hfc-", dir="/tmp"))  # short: socket paths are made below it
    made = Containers(directory)
    try:
        yield made
    finally:
        subprocess.run([*made.runtime.split(), "rm", "-f", "-a", "-t", "0"], capture_output=True, check=False)
        subprocess.run([*made.runtime.split(), "rmi", "-f", "-a"], capture_output=True, check=False)
        shutil.rmtree(directory)
