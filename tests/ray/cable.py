"""The cable between a head and one node of a test cluster, which a test pulls and plugs in.

While it is pulled, calls to the node's actor and their answers wait, and the node's raylet does not answer. The node
still reaches the store of the cluster. `rigs/ray_partition.py` pulls a real cable.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from holdfast.ray import bindings
from holdfast.ray.bindings import NodeUnreachableError
from holdfast.ray.node_link import NodeLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scenarios import Rig


class Cable:
    """A cable that is plugged in. `missed` is set when the head has looked for the node in vain."""

    def __init__(self) -> None:
        self.plugged = asyncio.Event()
        self.plugged.set()
        self.missed = asyncio.Event()


@contextlib.contextmanager
def cable_to_second(rig: Rig) -> Iterator[Cable]:
    """The cable of the second node, for everything that this process asks within the block."""
    cable, call, probe = Cable(), bindings.call, NodeLink._probe  # noqa: SLF001 - the seam
    actor_id = rig.actor(rig.second_id)._actor_id  # noqa: SLF001 - Ray has no other name of an actor

    async def call_through(actor: Any, method: str, *arguments: object, within_s: float | None = None) -> Any:
        if actor._actor_id != actor_id:  # noqa: SLF001
            return await call(actor, method, *arguments, within_s=within_s)
        try:
            async with asyncio.timeout(within_s):
                await cable.plugged.wait()
                answer = await call(actor, method, *arguments)
                await cable.plugged.wait()
                return answer
        except TimeoutError:
            raise NodeUnreachableError("the cable is pulled") from None

    async def probe_through(link: NodeLink) -> bool | None:
        if link.node.node_id != rig.second_id or cable.plugged.is_set():
            return await probe(link)
        cable.missed.set()
        await asyncio.sleep(0.1)
        return None

    bindings.call, NodeLink._probe = call_through, probe_through  # type: ignore[method-assign, assignment]  # noqa: SLF001
    try:
        yield cable
    finally:
        bindings.call, NodeLink._probe = call, probe  # type: ignore[method-assign]  # noqa: SLF001
