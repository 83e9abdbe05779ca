"""One storage, one image, and one container for all tests that do not change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..cli.conftest import runs, state_directory
from ..support.containers import missing, storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..support.children import Children
    from ..support.containers import Container, Containers

__all__ = ["runs", "state_directory"]

PROGRAMS = ("daemonises", "forks_on_term", "ignores_term", "leader_exits_on_term", "storms", "traced")


@pytest.fixture(scope="session")
def containers(child: Children) -> Iterator[Containers]:
    """The storage with the image."""
    if packages := missing():
        pytest.skip(f"needs {', '.join(packages)}")
    with storage() as made:
        made.make_image(child, PROGRAMS)
        yield made


@pytest.fixture(scope="session")
def shared(containers: Containers) -> Iterator[Container]:
    """The one container."""
    with containers.container() as made:
        yield made


@pytest.fixture
def anyio_backend() -> str:
    """One event loop is enough: these tests are about the guard below it."""
    return "asyncio"


@pytest.fixture
def container(shared: Container) -> Iterator[Container]:
    """The shared container; after each test no process runs in it."""
    yield shared
    assert shared.is_empty()


@pytest.fixture
def doomed(containers: Containers) -> Iterator[Container]:
    """A container that the test may remove."""
    with containers.container() as made:
        yield made
