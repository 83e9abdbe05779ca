"""Every call to Ray that Holdfast makes. Ray's types are partial, so this module gives them types of our own.

Ray's errors become ours here: what happened, and what to do. Nothing here keeps state.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ..values.errors import HoldfastError, ResourceError, UnsupportedPlatformError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import ThreadPoolExecutor

    from .messages import NodeSettings

NAMESPACE = "holdfast"
_STORE = b"holdfast"
_CONNECT_S = 10
RESERVATIONS_AT_ONCE = 16  # that are asked for and not made yet: Ray looks at each again and again


class RayMissingError(UnsupportedPlatformError):
    """Ray is not installed here."""


class NodeUnreachableError(HoldfastError):
    """The actor of a node does not answer: it is being restarted, or the node is gone."""


class StoreUnreachableError(HoldfastError):
    """The store of the cluster (GCS) does not answer: nobody knows which nodes are alive. A later try may succeed."""


class ClusterNode(NamedTuple):
    """A live node of the cluster."""

    node_id: str
    address: str
    port: int  # of its raylet
    hostname: str
    resources: Mapping[str, float]
    labels: Mapping[str, str]


def load() -> Any:
    """Import Ray. RayMissingError: it is not installed."""
    try:
        import ray
    except ImportError as error:
        remedy = "pip install 'holdfast[ray]'"
        raise RayMissingError(f"Ray is not installed here ({error})", remedy=remedy) from None
    return ray


def connect(address: str | None) -> bool:
    """Connect this process to a cluster; False if it was connected already. HoldfastError: no cluster answers there."""
    ray = load()
    if ray.is_initialized():
        return False
    where = address or "auto"
    try:
        _check_answers(where)  # Ray itself would wait for many minutes
        ray.init(address=where, log_to_driver=False, logging_level="error", _temp_dir=None)
    except OSError as error:  # refused, unreachable, no answer in time, no such host
        remedy = "start one with `ray start --head`, or give the address of one"
        raise HoldfastError(f"no Ray cluster answers at {where!r}: {_first_line(error)}", remedy=remedy) from None
    except (RuntimeError, ValueError) as error:  # also another version of Ray or Python
        remedy = "use the versions of Ray and Python that the cluster uses, and an address of the form HOST:PORT"
        raise HoldfastError(
            f"the Ray cluster at {where!r} cannot be used: {_first_line(error)}", remedy=remedy
        ) from None
    return True


def _check_answers(address: str) -> None:
    """Connect to the store of the cluster and hang up. OSError, ValueError: nobody answers, or it is no address."""
    from ray._private import services

    found = services.canonicalize_bootstrap_address(address) if address == "auto" else address
    if found is None:
        raise ConnectionError("no cluster was started on this host")
    host, _, port = found.rpartition(":")
    if not host or "/" in host or not port.isdigit():
        raise ValueError("an address has the form HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()


def disconnect() -> None:
    """Leave the cluster."""
    load().shutdown()


@contextlib.contextmanager
def _asking_the_store() -> Iterator[None]:
    """Whatever Ray raises inside the block is a StoreUnreachableError."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - Ray has several kinds for it, and names none of them
        remedy = "`ray status` shows whether the head of the cluster is alive"
        message = f"the store of the Ray cluster does not answer: {_first_line(error)}"
        raise StoreUnreachableError(message, remedy=remedy) from None


@_asking_the_store()
def live_nodes() -> list[ClusterNode]:
    """The nodes that the cluster believes to be alive. It learns of a death up to 15 s late. StoreUnreachableError."""
    return [
        ClusterNode(
            one["NodeID"],
            one["NodeManagerAddress"],
            int(one["NodeManagerPort"]),
            one["NodeManagerHostname"],
            one["Resources"],
            one["Labels"],
        )
        for one in load().nodes()
        if one["Alive"]
    ]


# The cluster's store: the epoch of each node.


@_asking_the_store()
def read_epoch(node_id: str) -> int:
    """The epoch of a node: how often it was declared lost. StoreUnreachableError."""
    from ray.experimental import internal_kv

    return int(internal_kv._internal_kv_get(f"epoch:{node_id}", namespace=_STORE) or 0)  # noqa: SLF001 - no other API


def raise_epoch(node_id: str, epoch: int) -> None:
    """Declare that the node was lost in this epoch. StoreUnreachableError: nobody knows whether that is stored."""
    from ray.experimental import internal_kv

    value = str(max(epoch + 1, read_epoch(node_id)))
    with _asking_the_store():
        internal_kv._internal_kv_put(f"epoch:{node_id}", value, overwrite=True, namespace=_STORE)  # noqa: SLF001


@_asking_the_store()
def claim(run_id: str) -> bool:
    """Take a run id for the whole cluster; False if it was taken before. StoreUnreachableError."""
    from ray.experimental import internal_kv

    existed = internal_kv._internal_kv_put(f"run:{run_id}", "1", overwrite=False, namespace=_STORE)  # noqa: SLF001
    return not existed


@_asking_the_store()
def give_claim_back(run_id: str) -> None:
    """Give back the id of a run that was not started. StoreUnreachableError."""
    from ray.experimental import internal_kv

    internal_kv._internal_kv_del(f"run:{run_id}", namespace=_STORE)  # noqa: SLF001


# Actors.


def node_actor(class_: type, settings: NodeSettings) -> Any:
    """The actor of a node, of this class; it is made if there is none."""
    ray = load()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options = {
        "name": f"node-{settings.node_id}",
        "namespace": NAMESPACE,
        "get_if_exists": True,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_restarts": -1,
        "max_task_retries": 0,  # what may have happened is asked, never simply done again
        "max_concurrency": 10_000,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(settings.node_id, soft=False),
    }
    return ray.remote(class_).options(**options).remote(settings)


async def call(actor: Any, method: str, *arguments: object, within_s: float | None = None) -> Any:
    """Call a method of an actor. Its own errors come out as they are. NodeUnreachableError: there is no answer."""
    from ray.exceptions import RayError, RayTaskError

    try:
        async with asyncio.timeout(within_s):
            return await getattr(actor, method).remote(*arguments)
    except RayTaskError as error:
        if isinstance(error.cause, HoldfastError):
            raise error.cause from None
        raise HoldfastError(f"a node failed: {_first_line(error.cause or error)}") from None
    except RayError as error:
        raise NodeUnreachableError(_first_line(error)) from None
    except TimeoutError:
        raise NodeUnreachableError(f"the node gave no answer within {within_s:g} s") from None


# Reservations.


def reserve(
    bundle: Mapping[str, float], labels: Mapping[str, str], *, detached: bool, size: int = 1, strategy: str = "PACK"
) -> Any:
    """Ask Ray to reserve these resources `size` times in one step, each on one node with these labels."""
    from ray.util import placement_group

    lifetime = "detached" if detached else None
    selectors = [dict(labels) for _ in range(size)] if labels else None
    bundles = [dict(bundle) for _ in range(size)]
    return placement_group(bundles, strategy=strategy, lifetime=lifetime, bundle_label_selector=selectors)


async def reserved_on(group: Any, wait_s: float) -> list[str] | None:
    """The ids of the nodes on which the reservation was made, in order; None if it was not made within `wait_s`."""
    from ray.util import placement_group_table

    if not await asyncio.get_running_loop().run_in_executor(_waiters(), group.wait, wait_s):
        return None
    nodes = placement_group_table(group)["bundles_to_node_id"]
    return [str(nodes[number]) for number in sorted(nodes)]


@functools.cache
def _waiters() -> ThreadPoolExecutor:
    """Threads of their own for calls that block: asyncio has few."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(RESERVATIONS_AT_ONCE, "holdfast-ray")


def group_id(group: Any) -> str:
    """The id of a reservation, in hex."""
    return str(group.id.hex())


def remove_placement_group(hex_id: str) -> None:
    """Give a reservation back; does nothing if it is gone."""
    from ray._raylet import PlacementGroupID
    from ray.util import remove_placement_group as remove
    from ray.util.placement_group import PlacementGroup

    try:
        remove(PlacementGroup(PlacementGroupID(bytes.fromhex(hex_id))))
    except Exception as error:  # noqa: BLE001 - whatever Ray raises: the run is over all the same
        sys.stderr.write(f"holdfast: a reservation was not given back to Ray: {_first_line(error)}\n")


def no_node(bundle: Mapping[str, float], labels: Mapping[str, str], host: str | None, run_id: str) -> ResourceError:
    """The error for a run that no node of the cluster can ever take."""
    wanted = [f"{amount:g} {name}" for name, amount in bundle.items()]
    wanted += [f"the label {name}={value}" for name, value in labels.items()]
    wanted += [] if host is None else [f"the host {host!r}"]
    remedy = "`ray status` shows what the nodes have"
    return ResourceError(
        f"no live node of the Ray cluster has {', '.join(wanted) or 'a slot'}", run_id=run_id, remedy=remedy
    )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
