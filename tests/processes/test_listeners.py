"""Three nodes on addresses of their own, with an inside and an outside listener, and controllers on a third.

Shown       a client that comes in by a listener is given every broker's address on that listener by
            Metadata, FindCoordinator and DescribeCluster; brokers and coordinator use the inside; a client
            that knows the outside alone produces, commits and reads transactions. A node that gets another
            host is found again once the voters' files are changed.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.cluster.local_cluster import LocalCluster, create_cluster, open_cluster
from fencepost.wire.connection import Connection
from fencepost.wire.k03_metadata import METADATA, Metadata
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinator
from fencepost.wire.k60_describe_cluster import CONTROLLERS, DESCRIBE_CLUSTER, DescribeCluster
from tests.harness.nodes import JSON_LOGS, Nodes, ended_clean, wait_for
from tests.ports import cluster_port

NODES = (1, 2, 3)
NEW_HOST = "127.0.1.13"
INSIDE, OUTSIDE, CONTROL, RAFT = range(4)  # which of a node's ports


def host(node_id: int) -> str:
    return f"127.0.1.{node_id}"


def with_listeners(cluster: LocalCluster) -> LocalCluster:
    """The same, each node on a host of its own. The outside of node 2 has a name, that of node 3 IPv6."""
    port = cluster.port

    def at(node_id: int, which: int) -> str:
        return f"{host(node_id)}:{port + 100 * which + node_id - 1}"

    for node in cluster.nodes:
        n = node.node_id
        own_port = port + 100 + n - 1
        outside = {2: f"127.0.0.1:{own_port}", 3: f"[::1]:{own_port}"}.get(n, at(n, OUTSIDE))
        changed = {
            "listeners": f"INSIDE://{at(n, INSIDE)},OUTSIDE://{outside},QUORUM://{at(n, CONTROL)}",
            "advertised.listeners": f"OUTSIDE://localhost:{own_port}" if n == 2 else "",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,QUORUM:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "controller.listener.names": "QUORUM",
            "controller.quorum.voters": ",".join(f"{each}@{at(each, RAFT)}" for each in NODES),
            "controller.quorum.bootstrap.servers": ",".join(at(each, CONTROL) for each in NODES),
        }
        file = node.directory / "node.properties"
        kept = [
            line for line in file.read_text("utf-8").splitlines() if line.partition("=")[0] not in changed
        ]
        added = [f"{key}={value}" for key, value in changed.items() if value]
        file.write_text("\n".join([*kept, *added]) + "\n", "utf-8")
    return open_cluster(cluster.directory)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder: Path = tmp_path_factory.mktemp("listeners") / "cluster"
    nodes = Nodes(with_listeners(create_cluster(folder, 3, cluster_port(), (JSON_LOGS,))))
    with ended_clean(nodes):
        nodes.up()
        yield nodes


def outside_of(nodes: Nodes, node_id: int) -> tuple[str, int]:
    named = {2: "localhost", 3: "::1"}.get(node_id, host(node_id))
    return named, nodes.cluster.port + 100 + node_id - 1


def inside_of(nodes: Nodes, node_id: int) -> tuple[str, int]:
    return (host(node_id), nodes.cluster.port + node_id - 1)


async def named_at(address: tuple[str, int]) -> list[set[tuple[str, int]]]:
    """Every address that Metadata, DescribeCluster and FindCoordinator give there."""
    connection = await Connection.open(*address)
    try:
        metadata = await connection.call(METADATA, Metadata(topics=()))
        cluster = await connection.call(DESCRIBE_CLUSTER, DescribeCluster())
        found = await connection.call(FIND_COORDINATOR, FindCoordinator(key_type=TRANSACTION, keys=("t",)))
    finally:
        connection.close()
    return [
        {(each.host, each.port) for each in metadata.brokers},
        {(each.host, each.port) for each in cluster.brokers},
        {(each.host, each.port) for each in found.coordinators},
    ]


@pytest.mark.parametrize("node_id", NODES)
def test_each_listener_gives_the_addresses_that_are_reached_from_there(hosts: Nodes, node_id: int) -> None:
    for address_of in (inside_of, outside_of):
        whole = {address_of(hosts, each) for each in NODES}
        by_metadata, by_cluster, coordinator = asyncio.run(named_at(address_of(hosts, node_id)))
        assert by_metadata == whole
        assert by_cluster == whole
        assert coordinator <= whole


def test_controllers_are_named_by_their_listener(hosts: Nodes) -> None:
    port = hosts.cluster.port + 200

    async def asked() -> set[tuple[str, int]]:
        connection = await Connection.open(host(1), port)
        request = DescribeCluster(endpoint_type=CONTROLLERS)
        answer = await connection.call(DESCRIBE_CLUSTER, request)
        connection.close()
        return {(each.host, each.port) for each in answer.brokers}

    assert asyncio.run(asked()) == {(host(each), port + each - 1) for each in NODES}
    endpoints = hosts.run("quorum", "describe", "--status")
    assert f"QUORUM://{host(1)}:{port}" in endpoints


def test_a_client_of_the_outside_does_transactions_on_every_broker(hosts: Nodes) -> None:
    bootstrap = "{}:{}".format(*outside_of(hosts, 2))
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("outside", 6, 1)])["outside"].result(30)
    producer = Producer({**settings, "transactional.id": "from-outside"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(6):
        producer.produce("outside", str(partition).encode(), partition=partition)
    producer.commit_transaction(30)
    consumer = Consumer({**settings, "group.id": "outside", "auto.offset.reset": "earliest"})
    consumer.subscribe(["outside"])
    seen: set[bytes | None] = set()
    while len(seen) < 6:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen.add(message.value())
    consumer.close()
    assert seen == {str(partition).encode() for partition in range(6)}


def test_a_node_that_moves_is_found_by_its_new_address(hosts: Nodes) -> None:
    """It gets another host, then the voters' files of the others are changed one by one."""
    moved, port = 3, hosts.cluster.port
    for n in (moved, *(each for each in NODES if each != moved)):
        file = hosts.node(n).directory / "node.properties"
        lines = file.read_text("utf-8").splitlines()
        changed = [
            line.replace(f"{host(moved)}:", f"{NEW_HOST}:") if n == moved or "controller." in line else line
            for line in lines
        ]
        assert changed != lines
        file.write_text("\n".join(changed) + "\n", "utf-8")
        hosts.kill(n)
        hosts.cluster = open_cluster(hosts.directory)
        hosts.start(n)
    hosts.await_followed()
    hosts.await_equal_images()
    assert hosts.address(moved, "raft")[0] == NEW_HOST
    whole = {inside_of(hosts, 1), inside_of(hosts, 2), (NEW_HOST, port + moved - 1)}

    def named() -> bool:
        by_metadata, by_cluster, _ = asyncio.run(named_at(inside_of(hosts, 1)))
        return by_metadata == by_cluster == whole

    wait_for("node 1 names the new address", named)  # it registers there once a controller is active
