"""How large a log is, as its broker says (DescribeLogDirs), ours or Apache Kafka's."""

import asyncio
import random

from fencepost.client.network import Channel, Network, NetworkSettings, addresses
from fencepost.wire.k03_metadata import METADATA, Metadata
from fencepost.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirs


def log_size(bootstrap: str, node_id: int, topic: str) -> int:
    """Bytes of partition 0."""

    async def ask() -> int:
        settings = NetworkSettings(
            bootstrap=addresses(bootstrap), client_id="sizes", sasl=None, request_timeout_s=30
        )
        network = Network(settings, random.Random())
        try:
            network.learn((await network.call_any(METADATA, Metadata(()))).brokers)
            request = DescribeLogDirs(((topic, (0,)),))
            answer = await network.call(node_id, Channel.COORDINATION, DESCRIBE_LOG_DIRS, request)
            return sum(each.size for directory in answer.directories for each in directory.logs)
        finally:
            await network.close()

    return asyncio.run(ask())
