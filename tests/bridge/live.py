"""What the tests of a live ensemble share: a ZooKeeper of ours, and plain kazoo to look from outside."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import structlog
from kazoo.client import KazooClient
from structlog.testing import LogCapture

from fencepost.bridge.access import Access, parse_connect
from fencepost.bridge.data_tree import Znode, Znodes
from fencepost.bridge.zookeeper import ZooKeeper
from tests.zookeeper.servers import Ensemble


@contextlib.asynccontextmanager
async def connected(connect: str, **options: Any) -> AsyncIterator[ZooKeeper]:
    """Started, and stopped at the end. Its log is of no interest."""
    options.setdefault("session_timeout_s", 4.0)  # a server that is just starting may never answer
    log = structlog.wrap_logger(None, processors=[LogCapture()])
    zookeeper = ZooKeeper(Access(connect=parse_connect(connect), **options), log)
    await zookeeper.start()
    try:
        yield zookeeper
    finally:
        await zookeeper.stop()


@contextlib.contextmanager
def outside(servers: Ensemble | str) -> Iterator[Any]:
    """kazoo itself, blocking."""
    client = KazooClient(servers if isinstance(servers, str) else servers.connect_string, timeout=4.0)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def walk(client: Any, path: str = "/") -> Znodes:
    """Every znode, one after another."""
    data, stat = client.get(path)
    found = {path: Znode(data, stat.version, stat.mzxid, stat.czxid, stat.ephemeralOwner != 0)}
    for name in client.get_children(path):
        found |= walk(client, f"{path.rstrip('/')}/{name}")
    return found
