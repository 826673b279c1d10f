"""For whom blocks are taken from ZooKeeper in a while.

A znode does not say who wrote it; the block in it says for whom: a broker below protocol version 3.0 writes
its own id, Kafka's controller the id of the broker that asked. Watching sees the newest block each time, so
of several in a row only the last one's broker is known: the others are counted.
"""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from fencepost.bridge.strict_json import Misshaped
from fencepost.bridge.znodes import BLOCK_PATH, BlockZnode, ZnodeBlock, parse_block
from fencepost.bridge.zookeeper import ZooKeeper
from fencepost.records.types import BrokerId

UNREADABLE_MAX: Final = 10


@dataclass(slots=True)
class Observation:
    """What was seen of the znode in a while. ``version`` is None if there is no such znode."""

    blocks_by_broker: Counter[BrokerId] = field(default_factory=Counter)  # -1: ours, or a KRaft controller's
    unseen: int = 0  # blocks that came and went between two looks
    unreadable: list[str] = field(default_factory=list)
    current: BlockZnode = None
    version: int | None = None


async def observe_blocks(zookeeper: ZooKeeper, seconds: float) -> Observation:
    """Watch for ``seconds``. While the ensemble is out of reach nothing is seen. Raises ZooKeeperRefused."""
    found = Observation()
    changes = zookeeper.changes(BLOCK_PATH)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for znode in changes:
                before = found.version
                found.version = None if znode is None else znode.version
                if znode is None:
                    continue
                try:
                    found.current = parse_block(znode.data, znode.version)
                except Misshaped as error:
                    if len(found.unreadable) < UNREADABLE_MAX:
                        found.unreadable.append(str(error))
                    continue
                if before is not None and znode.version > before:
                    found.unseen += znode.version - before - 1
                    if isinstance(found.current, ZnodeBlock):
                        found.blocks_by_broker[found.current.broker] += 1
    return found
