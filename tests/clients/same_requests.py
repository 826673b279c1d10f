"""The same requests to a node of Apache Kafka and to ours: their answers are compared field by field.

ListOffsets      every special timestamp of 4.1, lower ones, and times between records, to both kinds of
                 readers, while a transaction is open and after one was aborted.
DescribeConfigs  which settings a topic of Kafka's has: none that the table of our tests lacks.
"""

import asyncio
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from fencepost.client.network import Channel, Network, NetworkSettings, addresses
from fencepost.controller.topics import TOPIC_RESOURCE
from fencepost.wire.k02_list_offsets import LIST_OFFSETS, ListOffsets, OffsetQuery
from fencepost.wire.k03_metadata import METADATA, Metadata
from fencepost.wire.k32_describe_configs import DESCRIBE_CONFIGS, ConfigResource, DescribeConfigs
from tests.broker.test_changed_topics import OF_KAFKA
from tests.clients import kafka_broker
from tests.clients.explained import SETTINGS
from tests.clients.stories import WAIT_SECONDS_MAX, expect
from tests.harness.nodes import Nodes
from tests.ports import free_port

TOPIC: Final = "same-requests"
FIRST_MS: Final = 1_700_000_000_000
TIMES: Final = (
    -(2**63), -7, *range(-5, 0), 0, FIRST_MS - 1, FIRST_MS, FIRST_MS + 5, FIRST_MS + 20, FIRST_MS + 25,
    FIRST_MS + 30, FIRST_MS + 35, 2**62,
)  # fmt: skip

Scenario = Callable[[Nodes], str]


def same_offsets(cluster: Nodes) -> str:
    """Three plain records, a transaction that aborts, one that stays open."""
    kafka_broker.fetch()
    with tempfile.TemporaryDirectory(prefix="fencepost-same-") as home:
        broker = kafka_broker.Broker(
            Path(home), SETTINGS, node_id=1, port=free_port(), controllers={1: free_port()}
        )
        broker.start()
        try:
            held = [_fill(broker.bootstrap), _fill(cluster.bootstrap)]
            theirs, settings = asyncio.run(_asked(broker.bootstrap))
            ours, _ = asyncio.run(_asked(cluster.bootstrap))
            for producer in held:
                producer.abort_transaction(WAIT_SECONDS_MAX)
        finally:
            broker.kill()
    expect("offsets", ours, theirs)
    expect("settings of Kafka's that no test knows", settings - OF_KAFKA.keys(), set())
    return f"{len(ours)} times, {len(settings)} settings"


def _fill(bootstrap: str) -> confluent_kafka.Producer:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    replicas = [[1]]
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=replicas)])[TOPIC].result(WAIT_SECONDS_MAX)
    plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for late_ms in (0, 30, 10):
        plain.produce(TOPIC, b"value", partition=0, timestamp=FIRST_MS + late_ms)
        expect("written", plain.flush(WAIT_SECONDS_MAX), 0)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": TOPIC, "log_level": 0}
    )
    producer.init_transactions(WAIT_SECONDS_MAX)
    for late_ms in (20, 25):
        producer.begin_transaction()
        producer.produce(TOPIC, b"value", partition=0, timestamp=FIRST_MS + late_ms)
        producer.flush(WAIT_SECONDS_MAX)
        if late_ms == 20:
            producer.abort_transaction(WAIT_SECONDS_MAX)
    return producer


async def _asked(bootstrap: str) -> tuple[dict[tuple[int, int], tuple[Any, ...]], set[str]]:
    """By time and isolation level, what was found; and the settings of the topic."""
    settings = NetworkSettings(
        bootstrap=addresses(bootstrap), client_id="same", sasl=None, request_timeout_s=30
    )
    network = Network(settings, random.Random())
    found: dict[tuple[int, int], tuple[Any, ...]] = {}
    try:
        network.learn((await network.call_any(METADATA, Metadata(()))).brokers)
        for level in (0, 1):
            for time_ms in TIMES:
                request = ListOffsets((OffsetQuery(TOPIC, 0, time_ms),), isolation_level=level)
                answer = await network.call(1, Channel.COORDINATION, LIST_OFFSETS, request)
                (row,) = answer.partitions
                of_record = row.timestamp_ms < FIRST_MS + 1_000  # not the clock's, as of a marker
                shown_ms = row.timestamp_ms if of_record else None
                found[time_ms, level] = (row.error_code, shown_ms, row.offset, row.leader_epoch)
        described = await network.call_any(
            DESCRIBE_CONFIGS, DescribeConfigs((ConfigResource(TOPIC_RESOURCE, TOPIC),))
        )
        return found, {each.name for each in described.results[0].configs}
    finally:
        await network.close()


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "ListOffsets and DescribeConfigs: as Apache Kafka": (kafka_broker.VERSION, same_offsets)
}
