"""A ``RunningCluster`` for programs that run on an event loop: the same methods, to be awaited.

Each runs in a thread: one that is cancelled goes on to its end there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from fencepost.client import Admin, ConsumerRecord
from fencepost.testing.faults import Faults
from fencepost.testing.running import STABLE_S_MAX, RunningCluster, Which
from fencepost.testing.tls import TlsFiles
from fencepost.wire.requests import ListedGroup, ListedTransaction

__tracebackhide__ = True  # a failing test is shown, and debugged, at its own line

T = TypeVar("T")


class AsyncCluster:
    """``async with Cluster(nodes=3) as cluster: await cluster.kill("leader")``. See ``RunningCluster``."""

    def __init__(self, plain: RunningCluster) -> None:
        self._plain = plain

    @property
    def bootstrap(self) -> str:
        """What a Kafka client is given as ``bootstrap.servers``."""
        return self._plain.bootstrap

    @property
    def tls(self) -> TlsFiles:
        """What a client needs for TLS."""
        return self._plain.tls

    @property
    def has_faults(self) -> bool:
        """Whether requests of clients go through proxies."""
        return self._plain.has_faults

    @property
    def faults(self) -> Faults:
        """Faults of single requests of clients. Its methods do not wait, but ``wait_fired`` blocks."""
        return self._plain.faults

    @property
    def directory(self) -> Path:
        """The cluster's folder: ``nodes/N`` has log.txt and data of node N."""
        return self._plain.directory

    @property
    def node_ids(self) -> list[int]:
        """1 to the number of nodes."""
        return self._plain.node_ids

    def status(self, node: int) -> str:
        """``running``, ``stopped`` (paused), ``dead`` or ``down``."""
        return self._plain.status(node)

    def log(self, node: int, line_count: int = 50) -> str:
        """The last lines of a node's log."""
        return self._plain.log(node, line_count)

    async def leader(self, *, timeout_s: float = STABLE_S_MAX) -> int:
        """The active controller, once there is one."""
        return await asyncio.to_thread(self._plain.leader, timeout_s=timeout_s)

    async def kill(self, which: Which = "leader") -> int:
        """End a node as a power cut ends it. Returns its id."""
        return await asyncio.to_thread(self._plain.kill, which)

    async def pause(self, which: Which = "leader") -> int:
        """Stop a node's process. Returns its id."""
        return await asyncio.to_thread(self._plain.pause, which)

    async def resume(self, *nodes: int) -> None:
        """Let paused nodes go on; without an id, all of them."""
        await asyncio.to_thread(self._plain.resume, *nodes)

    async def start(self, *nodes: int) -> None:
        """Start dead nodes again; without an id, all of them."""
        await asyncio.to_thread(self._plain.start, *nodes)

    async def move_leader(self, node: int | None = None) -> int:
        """Hand leadership over, without a death. Returns the id of who leads now."""
        return await asyncio.to_thread(self._plain.move_leader, node)

    async def cut(self, one: int, other: int) -> None:
        """Cut two nodes off from each other. Clients reach both."""
        await asyncio.to_thread(self._plain.cut, one, other)

    async def isolate(self, which: Which = "leader") -> int:
        """Cut a node off from all others. Clients reach it. Returns its id."""
        return await asyncio.to_thread(self._plain.isolate, which)

    async def heal(self) -> None:
        """End every cut."""
        await asyncio.to_thread(self._plain.heal)

    async def advance_clock(self, seconds: float) -> None:
        """Move every node's clock on; see ``RunningCluster.advance_clock``."""
        await asyncio.to_thread(self._plain.advance_clock, seconds)

    async def wait_stable(self, *, timeout_s: float = STABLE_S_MAX) -> None:
        """Wait until every node is live and no transaction waits for its markers."""
        await asyncio.to_thread(self._plain.wait_stable, timeout_s=timeout_s)

    async def create_topic(
        self, name: str, *, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> None:
        """Make a topic; producers may write to it on return."""
        await asyncio.to_thread(self._plain.create_topic, name, partitions=partitions, config=config)

    async def transactions(self) -> list[ListedTransaction]:
        """Every transactional id with its producer id and state."""
        return await asyncio.to_thread(self._plain.transactions)

    async def groups(self) -> list[ListedGroup]:
        """Every consumer group with its state."""
        return await asyncio.to_thread(self._plain.groups)

    async def read(
        self, topic: str, *, isolation: str = "read_committed", timeout_s: float = 30.0
    ) -> list[ConsumerRecord]:
        """A topic's records from first to last, as the isolation level shows them."""
        return await asyncio.to_thread(self._plain.read, topic, isolation=isolation, timeout_s=timeout_s)

    async def explain(self, name: str) -> str:
        """A transactional id, ``TOPIC-PARTITION`` or producer id in sentences."""
        return await asyncio.to_thread(self._plain.explain, name)

    async def ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        """What an admin client finds out: ``await cluster.ask(Admin.list_topics)``."""
        return await asyncio.to_thread(self._plain.ask, question)
