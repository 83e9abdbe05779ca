"""The provisioner below Jupyter's own kernel managers, with a real kernel."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_core.utils import run_sync

from holdfast.adapters.jupyter import HoldfastProvisioner

from ..support.processes import state_of
from .conftest import daemon_of, end_survivor

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.children import Children

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

KERNEL = """{"argv": ["python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Holdfast",
 "language": "python",
 "metadata": METADATA}"""
HOLDFAST = '{"kernel_provisioner": {"provisioner_name": "holdfast", "config": {"grace": 0.2}}}'
BOUND_S = 60


@pytest.fixture(autouse=True, scope="module")
def loops_of_jupyter() -> None:
    """Have Jupyter open its event loops before the first test: it keeps them for the life of the process."""

    async def nothing() -> None:
        pass

    async def within_a_loop() -> None:
        run_sync(nothing)()

    run_sync(nothing)()
    asyncio.run(within_a_loop())


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelSpecManager:
    """The kernel specs of a user who chose our provisioner, and that of one who did not."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name, metadata in (("supervised", HOLDFAST), ("plain", "{}")):
        kernel = tmp_path / "kernels" / name
        kernel.mkdir(parents=True)
        (kernel / "kernel.json").write_text(KERNEL.replace("METADATA", metadata))
    return KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")])


def code(child: Children) -> str:
    """Cell that starts a daemon, and leaves the word of it as text."""
    argv = child("daemonises", "stay")
    return f"import subprocess; print(subprocess.Popen({argv}, stdout=subprocess.PIPE, text=True).stdout.readline())"


def provisioner_of(manager: KernelManager) -> HoldfastProvisioner:
    assert isinstance(manager.provisioner, HoldfastProvisioner)
    return manager.provisioner


def pid_of(manager: KernelManager) -> int:
    pid = provisioner_of(manager).pid
    assert isinstance(pid, int)
    return pid


def outputs(messages: list[dict[str, dict[str, str]]]) -> str:
    return "".join(message["content"].get("text", "") for message in messages)


def test_the_children_of_a_kernel_end_with_it(specs: KernelSpecManager, child: Children) -> None:
    manager = KernelManager(kernel_name="supervised", kernel_spec_manager=specs)
    manager.start_kernel(stdout=-3, stderr=-3)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=BOUND_S)
        seen: list[dict[str, dict[str, str]]] = []
        client.execute_interactive(code(child), timeout=BOUND_S, output_hook=seen.append)
        daemon = daemon_of(outputs(seen))
        assert manager.is_alive()
        assert state_of(daemon) is not None
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert not manager.is_alive()
    assert state_of(daemon) is None


def test_a_kernel_that_is_restarted_at_once(specs: KernelSpecManager, child: Children) -> None:
    """The old kernel is killed with its children; the new one has the same connection, and takes an interrupt."""
    manager = KernelManager(kernel_name="supervised", kernel_spec_manager=specs)
    manager.start_kernel(stdout=-3, stderr=-3)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=BOUND_S)
        seen: list[dict[str, dict[str, str]]] = []
        client.execute_interactive(code(child), timeout=BOUND_S, output_hook=seen.append)
        old = pid_of(manager)
        manager.restart_kernel(now=True)
        assert state_of(daemon_of(outputs(seen))) is None
        assert pid_of(manager) != old
        client.wait_for_ready(timeout=BOUND_S)

        def interrupt(message: dict[str, dict[str, str]]) -> None:
            if "begun" in message["content"].get("text", ""):
                manager.interrupt_kernel()

        reply = client.execute_interactive(
            "import threading; print('begun', flush=True); threading.Event().wait()",
            timeout=BOUND_S,
            output_hook=interrupt,
        )
        assert reply["content"]["ename"] == "KeyboardInterrupt"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.anyio
async def test_a_kernel_that_dies_is_seen(specs: KernelSpecManager) -> None:
    manager = AsyncKernelManager(kernel_name="supervised", kernel_spec_manager=specs)
    await manager.start_kernel(stdout=-3, stderr=-3)
    os.kill(pid_of(manager), signal.SIGKILL)
    assert await provisioner_of(manager).wait() == 128 + signal.SIGKILL
    assert not await manager.is_alive()
    await manager.shutdown_kernel(now=True)


def test_control_with_the_provisioner_of_jupyter_the_daemon_stays(specs: KernelSpecManager, child: Children) -> None:
    manager = KernelManager(kernel_name="plain", kernel_spec_manager=specs)
    manager.start_kernel(stdout=-3, stderr=-3)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=BOUND_S)
        seen: list[dict[str, dict[str, str]]] = []
        client.execute_interactive(code(child), timeout=BOUND_S, output_hook=seen.append)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    end_survivor(daemon_of(outputs(seen)))
