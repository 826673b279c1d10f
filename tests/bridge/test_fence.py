"""Kafka's own algorithm, at full speed, beside ours: no overlap; a fence ends it, a rollback resumes it."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from fencepost.bridge.access import Written
from fencepost.bridge.strict_json import Misshaped
from fencepost.bridge.writers import observe_blocks
from fencepost.bridge.znodes import (
    BLOCK_PATH,
    ON_BEHALF,
    BlockZnode,
    Fence,
    ZnodeBlock,
    block_after,
    format_block,
    format_fence,
    parse_block,
)
from fencepost.bridge.zookeeper import ZooKeeper
from fencepost.records.types import BrokerId, ProducerId
from tests.bridge.live import connected, outside
from tests.zookeeper.rival import EXHAUSTED_STATUS, Block, blocks_of, overlaps, start_rival
from tests.zookeeper.servers import Ensemble, ensemble, wait_until

pytestmark = pytest.mark.slow

OURS = 100


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Ensemble]:
    with ensemble(tmp_path, 1) as group:
        with outside(group) as client:
            client.create("/kafka" + BLOCK_PATH, None, makepath=True)
        yield group


async def look(zookeeper: ZooKeeper) -> tuple[BlockZnode, int]:
    znode = await zookeeper.get(BLOCK_PATH)
    assert znode is not None
    return parse_block(znode.data, znode.version), znode.version


async def take(zookeeper: ZooKeeper) -> Block:
    """A block, as the bridge takes one for a broker."""
    while True:
        current, version = await look(zookeeper)
        block = block_after(current)
        if isinstance(await zookeeper.conditional_set(BLOCK_PATH, format_block(block), version), Written):
            return Block(block.broker, block.first, block.last, time.monotonic_ns())


async def set_fence(zookeeper: ZooKeeper) -> Fence:
    while True:
        current, version = await look(zookeeper)
        assert isinstance(current, ZnodeBlock)
        fence = Fence("our-cluster", version, current.last)
        if isinstance(await zookeeper.conditional_set(BLOCK_PATH, format_fence(fence), version), Written):
            return fence


async def ended(rivals: list[Popen[bytes]]) -> list[int]:
    return [await asyncio.to_thread(rival.wait, 60) for rival in rivals]


def test_rivals_beside_us_then_the_fence_then_the_rollback(tmp_path: Path, servers: Ensemble) -> None:
    connect = f"{servers.connect_string}/kafka"
    histories = [tmp_path / f"history-{broker}" for broker in range(3)]
    after = tmp_path / "history-after"

    async def story() -> None:
        rivals = [start_rival(connect, broker, history) for broker, history in enumerate(histories)]
        async with connected(connect) as zookeeper:
            async with asyncio.timeout(120):
                while not all(blocks_of([history]) for history in histories):
                    await asyncio.sleep(0.01)
                ours = [await take(zookeeper) for _ in range(OURS)]
                seen = await observe_blocks(zookeeper, 0.5)
                fence = await set_fence(zookeeper)
                assert await ended(rivals) == [EXHAUSTED_STATUS] * 3
        assert set(seen.blocks_by_broker) <= {0, 1, 2}
        assert seen.blocks_by_broker
        theirs = blocks_of(histories)
        assert overlaps([*theirs, *ours]) == []
        assert max(block.last for block in (*theirs, *ours)) == fence.block_last

        async with connected(connect) as zookeeper:
            assert await look(zookeeper) == (fence, fence.zk_version + 1)
            handed_out = ProducerId((fence.block_last or 0) + 5_000)  # by the quorum, meanwhile
            stop = ZnodeBlock(ON_BEHALF, ProducerId(handed_out + 1), ProducerId(handed_out + 1_000))
            wrote = await zookeeper.conditional_set(BLOCK_PATH, format_block(stop), fence.zk_version + 1)
            assert isinstance(wrote, Written)
        rival = start_rival(connect, 7, after, "--blocks", "3")
        assert await ended([rival]) == [0]
        assert [block.first for block in blocks_of([after])] == [stop.last + 1 + 1_000 * n for n in range(3)]

    asyncio.run(story())


def test_watching_tells_who_writes_and_what_nobody_can_read(servers: Ensemble) -> None:
    async def story() -> None:
        async with connected(f"{servers.connect_string}/kafka") as zookeeper:
            watching = asyncio.ensure_future(observe_blocks(zookeeper, 1.5))
            version = 0
            current: BlockZnode = None
            for broker in (4, 4, 5):
                current = block_after(current, broker=BrokerId(broker))
                wrote = await zookeeper.conditional_set(BLOCK_PATH, format_block(current), version)
                assert isinstance(wrote, Written)
                version = wrote.version
            assert isinstance(await zookeeper.conditional_set(BLOCK_PATH, b"{}", version), Written)
            seen = await watching
            assert sum(seen.blocks_by_broker.values()) + seen.unseen <= 3
            assert set(seen.blocks_by_broker) <= {4, 5}
            assert seen.version == 4
            assert len(seen.unreadable) == 1
            with pytest.raises(Misshaped, match=BLOCK_PATH):
                await look(zookeeper)

    asyncio.run(story())


def test_a_rival_that_is_told_to_stop_stops(tmp_path: Path, servers: Ensemble) -> None:
    history = tmp_path / "history"
    rival = start_rival(f"{servers.connect_string}/kafka", 1, history)
    wait_until("the rival takes blocks", lambda: blocks_of([history]))
    rival.send_signal(signal.SIGTERM)
    assert rival.wait(timeout=60) == 0
    with outside(servers) as client:
        version = client.get("/kafka" + BLOCK_PATH)[1].version
    assert version == len(blocks_of([history]))
