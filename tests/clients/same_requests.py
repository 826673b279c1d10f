"""The same requests to a node of Apache Kafka and to ours: their answers are compared field by field.

ListOffsets      every special timestamp of 4.1, lower ones, and times between records, to both kinds of
                 readers, while a transaction is open and after one was aborted.
DescribeConfigs  which settings a topic of Kafka's has: none that the table of our tests lacks.
Operations       which are authorized, where no authorizer decides: of topics, groups and the cluster, what
                 is there and what is not (KIP-430).
"""

import asyncio
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from fencepost.client.network import Channel, Network, NetworkSettings, addresses
from fencepost.controller.groups.describe import DescribeGroups
from fencepost.controller.topics import TOPIC_RESOURCE
from fencepost.wire.connection import Connection
from fencepost.wire.dispatch import Api
from fencepost.wire.k02_list_offsets import LIST_OFFSETS, ListOffsets, OffsetQuery
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicQuery
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k32_describe_configs import DESCRIBE_CONFIGS, ConfigResource, DescribeConfigs
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.k75_describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitions
from tests.broker.test_changed_topics import OF_KAFKA
from tests.clients import kafka_broker
from tests.clients.explained import SETTINGS
from tests.clients.stories import WAIT_SECONDS_MAX, expect
from tests.harness.nodes import Nodes
from tests.hostile.largest import names_of
from tests.ports import free_port

TOPIC: Final = "same-requests"
FIRST_MS: Final = 1_700_000_000_000
TIMES: Final = (
    -(2**63), -7, *range(-5, 0), 0, FIRST_MS - 1, FIRST_MS, FIRST_MS + 5, FIRST_MS + 20, FIRST_MS + 25,
    FIRST_MS + 30, FIRST_MS + 35, 2**62,
)  # fmt: skip

GROUPS: Final = (TOPIC, "no-group")
OPERATIONS: Final[tuple[tuple[Api[Any, Any], Any], ...]] = (
    (METADATA, Metadata((TopicQuery(TOPIC),), False)),
    (METADATA, Metadata((TopicQuery(TOPIC),), False, True, True)),
    (METADATA, Metadata((TopicQuery("no-topic"),), False, True, True)),
    (DESCRIBE_GROUPS, DescribeGroups(GROUPS)),
    (DESCRIBE_GROUPS, DescribeGroups(GROUPS, include_authorized_operations=True)),
    (DESCRIBE_CLUSTER, DescribeCluster()),
    (DESCRIBE_CLUSTER, DescribeCluster(include_cluster_authorized_operations=True)),
    (DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitions((TOPIC, "no-topic"))),
)

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
            authorized, our_authorized = (
                asyncio.run(_operations(each)) for each in (broker.bootstrap, cluster.bootstrap)
            )
            for producer in held:
                producer.abort_transaction(WAIT_SECONDS_MAX)
        finally:
            broker.kill()
    expect("offsets", ours, theirs)
    expect("settings of Kafka's that no test knows", settings - OF_KAFKA.keys(), set())
    differing = {
        each: (our_authorized.get(each), found)
        for each, found in authorized.items()
        if our_authorized.get(each) != found
    }
    expect("authorized operations, ours and Kafka's", differing, {})
    return f"{len(ours)} times, {len(settings)} settings, {len(authorized)} with authorized operations"


def _fill(bootstrap: str) -> confluent_kafka.Producer:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    replicas = [[1]]
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=replicas)])[TOPIC].result(WAIT_SECONDS_MAX)
    plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for late_ms in (0, 30, 10):
        plain.produce(TOPIC, b"value", partition=0, timestamp=FIRST_MS + late_ms)
        expect("written", plain.flush(WAIT_SECONDS_MAX), 0)
    reader = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": GROUPS[0], "log_level": 0})
    committed = [confluent_kafka.TopicPartition(TOPIC, 0, 1)]
    reader.commit(offsets=committed, asynchronous=False)
    reader.close()
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


async def _operations(bootstrap: str) -> dict[tuple[int, int, int], list[tuple[str, int]]]:
    """By place in OPERATIONS and version: every field that says which are authorized, and of what."""
    host, port = addresses(bootstrap)[0]
    connection = await Connection.open(host, port)
    found = {}
    try:
        for place, (api, request) in enumerate(OPERATIONS):
            for version in api.versions:
                if version not in connection.versions[api.key]:
                    continue
                try:
                    asked = api.decode_request(version, memoryview(api.encode_request(version, request)))
                except ValueError:  # it cannot be said in this version
                    continue
                answer = await connection.call(api, asked, version=version)
                found[api.key, place, version] = sorted(_said(answer, ""))
        return found
    finally:
        connection.close()


def _said(value: Any, of: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, tuple):
        for each in value:
            yield from _said(each, of)
        return
    name = getattr(value, "name", None) or getattr(value, "group_id", None) or of
    for field in names_of(value):
        found = getattr(value, field)
        if "authorized_operations" in field:
            yield f"{name} {field}", int(found)
        else:
            yield from _said(found, name)


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
