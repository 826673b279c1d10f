"""Real clients find their way in: they negotiate versions, read the brokers, and get a producer id."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AdminClient

from fencepost.records.types import NodeId, Offset, ProducerId, Term
from fencepost.wire.auth import Logins
from fencepost.wire.dispatch import Context, Reply, Service
from fencepost.wire.k03_metadata import METADATA, BrokerNode, MetadataAnswer
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdAnswer
from fencepost.wire.k55_describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumAnswer,
    NodeListener,
    QuorumNode,
    QuorumPartition,
    ReplicaState,
)
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, ClusterNode, DescribeClusterAnswer
from fencepost.wire.listener import Listener
from tests.wire.stage import capturing_log

# kafka-python reads its schemas that way.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

CLUSTER_ID = "kVkjzdcOQHKOw8O-8jnVFQ"
USER, PASSWORD = "alice", "wonder land"


class PretendBroker:
    """A listener in a thread with its own loop: some of these clients block."""

    def __init__(self, **options: Any) -> None:
        log, self.events = capturing_log()
        self.listener = Listener(self.service(), name="PLAINTEXT", log=log, **options)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.run(self.listener.start("127.0.0.1", 0))
        self.port = self.listener.port

    def run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def stop(self) -> None:
        self.run(self.listener.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def service(self) -> Service:
        return {
            METADATA.key: (METADATA, self._metadata),
            INIT_PRODUCER_ID.key: (INIT_PRODUCER_ID, self._init_producer_id),
            DESCRIBE_CLUSTER.key: (DESCRIBE_CLUSTER, self._describe_cluster),
            DESCRIBE_QUORUM.key: (DESCRIBE_QUORUM, self._describe_quorum),
        }

    def _metadata(self, request: Any, context: Context, reply: Reply[Any]) -> None:
        brokers = (BrokerNode(1, "127.0.0.1", self.port),)
        reply(MetadataAnswer(cluster_id=CLUSTER_ID, controller_id=1, brokers=brokers))

    def _init_producer_id(self, request: Any, context: Context, reply: Reply[Any]) -> None:
        reply(InitProducerIdAnswer(ProducerId(4242), 0))

    def _describe_cluster(self, request: Any, context: Context, reply: Reply[Any]) -> None:
        brokers = (ClusterNode(1, "127.0.0.1", self.port),)
        reply(DescribeClusterAnswer(cluster_id=CLUSTER_ID, controller_id=NodeId(1), brokers=brokers))

    def _describe_quorum(self, request: Any, context: Context, reply: Reply[Any]) -> None:
        partition = QuorumPartition(
            leader_id=NodeId(1),
            leader_epoch=Term(3),
            high_watermark=Offset(12),
            current_voters=(ReplicaState(NodeId(1), Offset(12)),),
        )
        nodes = (QuorumNode(NodeId(1), (NodeListener("CONTROLLER", "127.0.0.1", self.port),)),)
        reply(DescribeQuorumAnswer.of(partition, nodes))


BY_SCRAM = [
    {"security_protocol": "SASL_PLAINTEXT", "logins": Logins.of({USER: PASSWORD}, (each,), b"salts")}
    for each in ("SCRAM-SHA-256", "SCRAM-SHA-512")
]
SASL = {"security_protocol": "SASL_PLAINTEXT", "logins": Logins({USER: PASSWORD})}


@pytest.fixture(params=[{}, SASL, *BY_SCRAM], ids=["plaintext", "sasl", "scram-256", "scram-512"])
def broker(request: pytest.FixtureRequest) -> Iterator[PretendBroker]:
    pretend = PretendBroker(**request.param)
    yield pretend
    pretend.stop()


def login(broker: PretendBroker, spell: Callable[[str], str] = str) -> dict[str, str]:
    """The client's settings for the listener's security, in the client's spelling."""
    if broker.listener.logins is None:
        return {}
    return {
        spell("security_protocol"): "SASL_PLAINTEXT",
        spell("sasl_mechanism"): broker.listener.logins.mechanisms[0],
        spell("sasl_plain_username"): USER,
        spell("sasl_plain_password"): PASSWORD,
    }


def test_confluent_kafka(broker: PretendBroker) -> None:
    spelling = {"sasl_plain_username": "sasl.username", "sasl_plain_password": "sasl.password"}
    settings = login(broker, lambda name: spelling.get(name, name.replace("_", ".")))
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}", **settings})
    cluster = admin.list_topics(timeout=10)
    assert str(cluster.cluster_id) == CLUSTER_ID
    assert list(cluster.brokers) == [1]
    assert broker.events == []


def test_kafka_python(broker: PretendBroker) -> None:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port}", **login(broker))
    try:
        assert admin.describe_cluster()["cluster_id"] == CLUSTER_ID
        quorum = admin.describe_metadata_quorum()
        assert quorum["topics"][0]["partitions"][0]["leader_id"] == 1
    finally:
        admin.close()
    assert broker.events == []


def test_aiokafka(broker: PretendBroker) -> None:
    async def story() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=f"127.0.0.1:{broker.port}", enable_idempotence=True, **login(broker)
        )
        await producer.start()
        try:
            async with asyncio.timeout(10):
                while not producer._txn_manager.has_pid():
                    await asyncio.sleep(0.01)
            assert producer._txn_manager.producer_id == 4242
        finally:
            await producer.stop()

    asyncio.run(story())
    assert broker.events == []
