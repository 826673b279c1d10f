"""The rival itself: what finds nothing must be able to find something."""

import json
from pathlib import Path

import pytest

from tests.zookeeper.rival import (
    EXHAUSTED_STATUS,
    PATH,
    Block,
    blocks_of,
    overlaps,
    read_history,
    start_rival,
)
from tests.zookeeper.servers import ensemble, wait_until

BLOCKS_EACH = 50


def block(first: int, last: int) -> Block:
    return Block(1, first, last, 0)


@pytest.mark.parametrize(
    ("blocks", "count"),
    [
        pytest.param([block(0, 999), block(1000, 1999)], 0, id="side-by-side"),
        pytest.param([block(1000, 1999), block(0, 999), block(5000, 5000)], 0, id="in-any-order"),
        pytest.param([block(0, 999), block(0, 999)], 1, id="twice"),
        pytest.param([block(0, 999), block(999, 1999)], 1, id="by-one-id"),
        pytest.param([block(0, 9999), block(1000, 1999), block(3000, 3999)], 2, id="inside-a-long-one"),
    ],
)
def test_overlaps_are_found(blocks: list[Block], count: int) -> None:
    assert len(overlaps(blocks)) == count


@pytest.mark.slow
def test_rivals_at_full_speed_never_take_the_same_block(tmp_path: Path) -> None:
    """As Kafka's brokers: the znode's version keeps them apart, through the death of the leader."""
    from kazoo.client import KazooClient

    with ensemble(tmp_path, 3) as servers:
        client = KazooClient(servers.connect_string)
        client.start()
        client.create(PATH, None)
        histories = [tmp_path / f"history-{broker}" for broker in range(4)]
        rivals = [
            start_rival(
                servers.connect_string, broker, history, "--blocks", str(BLOCKS_EACH), "--kafka", kafka
            )
            for broker, (history, kafka) in enumerate(zip(histories, "2323", strict=True))
        ]
        wait_until("the rivals take blocks", lambda: len(blocks_of(histories)) >= BLOCKS_EACH)
        leader = servers.leader()
        leader.kill()
        assert [rival.wait(timeout=120) for rival in rivals] == [0] * len(rivals)
        blocks = blocks_of(histories)
        assert len(blocks) == BLOCKS_EACH * len(rivals)
        assert overlaps(blocks) == []
        data, stat = client.retry(client.get, PATH)
        assert int(json.loads(data)["block_end"]) == max(block.last for block in blocks)
        assert stat.version >= len(blocks)  # a write that met a broken connection wasted its block

        client.retry(
            client.set, PATH, b'{"version":1,"broker":0,"block_start":"0","block_end":"9223372036854774808"}'
        )
        late = start_rival(servers.connect_string, 9, tmp_path / "late")
        assert late.wait(timeout=60) == EXHAUSTED_STATUS
        assert [line["event"] for line in read_history(tmp_path / "late")] == ["started", "exhausted"]
        client.stop()
        client.close()
