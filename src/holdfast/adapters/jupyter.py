"""Jupyter: a kernel provisioner whose kernels end with everything that they started. Needs the extra `jupyter`.

In `kernel.json`: `"metadata": {"kernel_provisioner": {"provisioner_name": "holdfast", "config": {"memory": "4G"}}}`.

Jupyter calls a provisioner from event loops that stand still between two calls. So the supervisor of a kernel has a
thread and a loop of its own, from `launch_kernel` until the kernel is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread
from anyio.from_thread import start_blocking_portal
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Float, Unicode

from ..projections.exit_code import exit_code
from ..runs.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from anyio.from_thread import BlockingPortal

    from ..runs.run import Run
    from ..values.options import SpecOptions

_Answer = TypeVar("_Answer")


class HoldfastProvisioner(LocalProvisioner):
    """A local kernel as a run. Ports, connection file and paths are those of Jupyter's own local provisioner."""

    grace = Float(5.0, config=True, help="Seconds from SIGTERM to SIGKILL for the kernel and its children.")
    memory = Unicode(None, allow_none=True, config=True, help="Memory of the kernel and its children, as `4G`.")

    _kernel: _Kernel | None = None

    @property
    def has_process(self) -> bool:
        """Whether there is a kernel that was not waited for."""
        return self._kernel is not None

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel. HoldfastError: it cannot be started."""
        with ExitStack() as files:
            options: SpecOptions = {
                "env": _environment(kwargs.get("env")),
                "env_drop": ["*"],
                "cwd": kwargs.get("cwd") or os.getcwd(),
                "stdout": _stream(kwargs.get("stdout"), files),
                "stderr": _stream(kwargs.get("stderr"), files),
                "grace": self.grace,
                "memory": self.memory,
            }
            self._kernel = _Kernel(cmd, options)
        self.pid = self._kernel.pid
        self.cwd = kwargs.get("cwd", Path.cwd())
        return self.connection_info

    async def poll(self) -> int | None:
        """The exit code of the kernel; None while it runs."""
        return 0 if self._kernel is None else self._kernel.exit_code()

    async def wait(self) -> int | None:
        """Wait until the kernel and everything that it started is gone."""
        if self._kernel is None:
            return 0
        code = await anyio.to_thread.run_sync(self._kernel.wait, abandon_on_cancel=True)
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None
        return code

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel and its children, as to a process group; 0 asks whether the kernel lives."""
        if self._kernel is not None and signum:
            self._kernel.signal(signum)

    async def kill(self, restart: bool = False) -> None:  # noqa: ARG002 - Jupyter's interface
        """Kill the kernel and everything that it started."""
        if self._kernel is not None:
            self._kernel.cancel(now=True)

    async def terminate(self, restart: bool = False) -> None:  # noqa: ARG002
        """Ask the kernel to end, by its ladder."""
        if self._kernel is not None:
            self._kernel.cancel(now=False)

    async def cleanup(self, restart: bool = False) -> None:
        """End what is left of the kernel, and give its ports back."""
        if self._kernel is not None:
            await self.kill()
            await self.wait()
        await super().cleanup(restart=restart)


class _Kernel:
    """One kernel and the thread of its supervisor. Every method may be called from any thread."""

    def __init__(self, argv: list[str], options: SpecOptions) -> None:
        self._stack = ExitStack()
        with ExitStack() as failing:
            failing.callback(self._stack.close)
            self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
            supervisor = self._stack.enter_context(self._portal.wrap_async_context_manager(_supervisor()))
            self._run: Run = self._call(lambda: supervisor.start(argv, **options))
            self._call(self._run.started)
            failing.pop_all()

    @property
    def pid(self) -> int | None:
        return self._call(self._pid)

    def exit_code(self) -> int | None:
        """The exit code once the kernel has ended; its children may still be ending."""
        return self._call(self._exit_code)

    def wait(self) -> int:
        """Wait until the tree is gone."""
        self._call(self._run.settled)
        return self.exit_code() or 0

    def signal(self, number: int) -> None:
        if self.exit_code() is None:
            self._call(lambda: self._run.signal(number, tree=number != signal.SIGTERM))

    def cancel(self, *, now: bool) -> None:
        self._call(lambda: self._run.cancel("the kernel manager ends the kernel", now=now))

    def close(self) -> None:
        """End the supervisor and its thread."""
        self._stack.close()

    def _call(self, function: Callable[[], Coroutine[Any, Any, _Answer]]) -> _Answer:
        return self._portal.call(function)

    async def _pid(self) -> int | None:
        return self._run.pid

    async def _exit_code(self) -> int | None:
        outcome = self._run.outcome
        return None if outcome.status is None else exit_code(outcome)


@asynccontextmanager
async def _supervisor() -> AsyncIterator[Supervisor]:
    """A supervisor that is made where it is used: it belongs to the loop in which it was made."""
    async with Supervisor() as supervisor:
        yield supervisor


def _environment(given: dict[str, str] | None) -> dict[str, str]:
    """The environment of the kernel, without the number of a parent that the kernel would look for in vain.

    A guard is the parent of the kernel, and ends it when this program is gone.
    """
    environment = dict(os.environ if given is None else given)
    environment.pop("JPY_PARENT_PID", None)
    return environment


def _stream(given: Any, files: ExitStack) -> str | int:
    """Where a stream of the kernel goes: by default to ours, as with Jupyter's own provisioner."""
    if given is None:
        return "inherit"
    if given == subprocess.DEVNULL:
        return files.enter_context(open(os.devnull, "wb")).fileno()
    if given == subprocess.PIPE:
        return "capture"
    return given if isinstance(given, int) else int(given.fileno())
