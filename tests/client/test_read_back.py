"""A topic is read to its end, also when a partition has no leader as the reading begins."""

import asyncio
import threading

import pytest

from fencepost.client import Admin, Producer
from fencepost.client.read_back import READ_COMMITTED, read_topic
from tests.client.test_admin import until_described
from tests.client.test_cluster import fresh
from tests.harness.nodes import Nodes

pytestmark = pytest.mark.slow

READ_S = 60.0
AWAY_S = 1.0


def test_a_partition_whose_leader_comes_back_is_read(nodes: Nodes) -> None:
    topic = fresh("away")

    async def written() -> int:
        async with Admin(nodes.bootstrap) as admin, Producer(nodes.bootstrap) as producer:
            await admin.create_topic(topic, partitions=1)
            await until_described(admin, topic)
            await producer.send_and_wait(topic, b"one", partition=0)
            return (await admin.describe_topic(topic)).leaders[0].node_id

    async def without_leader() -> None:
        async with Admin(nodes.bootstrap) as admin:
            while (await admin.describe_topic(topic)).leaders[0].node_id >= 0:
                await asyncio.sleep(0.05)

    leader = asyncio.run(written())
    nodes.kill(leader)
    asyncio.run(without_leader())
    back = threading.Timer(AWAY_S, nodes.start, [leader])
    back.start()
    try:
        seen = list(read_topic(nodes.bootstrap, topic, READ_COMMITTED, timeout_s=READ_S))
    finally:
        back.join()
    assert [each.value for each in seen] == [b"one"]
