"""Clusters of the kit whose clients come by TLS, through a proxy that ends it, or with a certificate."""

import asyncio
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Producer as RdkafkaProducer
from confluent_kafka.admin import AdminClient

from fencepost.testing import Cluster, ClusterFailed
from fencepost.testing.tls import TlsFiles

SECONDS = 20.0


def by_tls(bootstrap: str, tls: TlsFiles, **more: Any) -> dict[str, Any]:
    """librdkafka's settings."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(tls.authority),
        **more,
    }


def committed(settings: dict[str, Any], topic: str, values: list[bytes]) -> None:
    """One transaction."""
    producer = RdkafkaProducer({**settings, "transactional.id": "app"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(SECONDS)


def refused(settings: dict[str, Any], code: int) -> None:
    """A client is refused, and says so with ``code``."""
    errors: list[KafkaError] = []
    heard: dict[str, Any] = {**settings, "error_cb": errors.append}
    client = AdminClient(heard)
    deadline = time.monotonic() + SECONDS
    while not any(error.code() == code for error in errors):
        assert time.monotonic() < deadline, errors
        client.poll(0.1)


@pytest.mark.slow
def test_faults_reach_requests_inside_tls() -> None:
    with Cluster(nodes=1, topics={"t": 1}, tls=True, faults=True) as cluster:
        settings = by_tls(cluster.bootstrap, cluster.tls)
        with cluster.faults.drop_answer("EndTxn", match={"transactional_id": "app"}, times=1) as fault:
            committed(settings, "t", [b"1", b"2"])
            fault.wait_fired()
        assert [each.value for each in cluster.read("t")] == [b"1", b"2"]
        assert "'app' is CompleteCommit" in cluster.explain("app")
        assert cluster.tls.key is None
        refused({"bootstrap.servers": cluster.bootstrap}, KafkaError._ALL_BROKERS_DOWN)
        refused(by_tls(cluster.bootstrap, cluster.tls) | {"ssl.ca.location": "probe"}, KafkaError._SSL)


@pytest.mark.slow
def test_clients_show_their_certificate() -> None:
    async def story() -> None:
        async with Cluster(nodes=1, topics={"t": 1}, tls="mutual") as cluster:
            bare = by_tls(cluster.bootstrap, cluster.tls)
            await asyncio.to_thread(refused, bare, KafkaError._ALL_BROKERS_DOWN)
            assert cluster.tls.key is not None
            own = {"ssl.certificate.location": str(cluster.tls.key), "ssl.key.location": str(cluster.tls.key)}
            await asyncio.to_thread(committed, bare | own, "t", [b"1"])
            assert [each.value for each in await cluster.read("t")] == [b"1"]
            assert "security.protocol=SSL" in cluster.tls.properties.read_text()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("mode", "faults", "why"),
    [
        (
            "mutual",
            True,
            "each client with a certificate would be the proxy; expected tls=True, or faults=False",
        ),
        ("SSL", False, "expected tls=True, tls=False or tls='mutual', got 'SSL'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(mode: Any, faults: bool, why: str) -> None:
    with pytest.raises(ClusterFailed) as refused, Cluster(tls=mode, faults=faults):
        pass
    assert why in str(refused.value)
