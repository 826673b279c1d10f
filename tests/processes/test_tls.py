"""A cluster that speaks TLS everywhere: clients, brokers, controllers, Raft's links and the metrics port.

Who     the authority of this test signs each node's key; clients log in by SASL PLAIN inside TLS, or show a
        certificate. A node whose key another authority signed takes no part. The listener for clients outside
        has a key of its own, of an authority of its own, and mechanisms.
"""

import asyncio
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import fencepost.client
from fencepost.client import Tls, TlsSettings
from fencepost.cluster import lifecycle
from fencepost.cluster.local_cluster import LocalCluster, create_cluster, open_cluster
from tests.certificates import Authority
from tests.clients.unclosed import freed_sockets
from tests.harness import forked
from tests.harness.command import in_process, stdout_of
from tests.harness.nodes import JSON_LOGS, Nodes, ended_clean, wait_for
from tests.ports import cluster_port
from tests.secret_files import write_secret

NODES = (1, 2, 3)
USER, PASSWORD = "alice", "pass word"
KEYS = (
    "ssl.keystore.type=PEM",
    "ssl.truststore.type=PEM",
    "ssl.client.auth=required",
    "inter.broker.listener.name=INSIDE",
    "listener.security.protocol.map=INSIDE:SSL,OUTSIDE:SASL_SSL,CONTROLLER:SSL",
    "fencepost.metrics.security.protocol=SSL",
    "listener.name.outside.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
)


def secured(cluster: LocalCluster, folder: Path, authority: Authority) -> LocalCluster:
    """The same cluster, by TLS. The names of certificates are those of nodes."""
    port = cluster.port
    write_secret(folder / "users", f"{USER}={PASSWORD}\n")
    authority.write(folder / "ca.pem")
    authority.sign("client", unit="Apps").write(folder / "client.pem")
    public = Authority("the authority outside")
    public.write(folder / "outside-ca.pem")
    public.sign("outside").write(folder / "outside.pem")
    for node in cluster.nodes:
        n = node.node_id
        authority.sign(f"node-{n}").write(folder / f"node-{n}.pem")
        listeners = (
            f"INSIDE://127.0.0.1:{port + n - 1},OUTSIDE://127.0.0.1:{port + 50 + n},"
            f"CONTROLLER://127.0.0.1:{port + 100 + n - 1}"
        )
        file = node.directory / "node.properties"
        lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("listeners=")]
        lines += [
            *KEYS,
            f"listeners={listeners}",
            f"sasl.plain.users.file={folder / 'users'}",
            f"ssl.keystore.location={folder / f'node-{n}.pem'}",
            f"ssl.truststore.location={folder / 'ca.pem'}",
            f"listener.name.outside.ssl.keystore.location={folder / 'outside.pem'}",
        ]
        file.write_text("\n".join(lines) + "\n", "utf-8")
    return open_cluster(cluster.directory)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def nodes(folder: Path, authority: Authority) -> Iterator[Nodes]:
    cluster = create_cluster(folder / "cluster", 3, cluster_port(), (JSON_LOGS,))
    found = Nodes(secured(cluster, folder, authority))
    with ended_clean(found):
        found.up()
        yield found


def outside(nodes: Nodes) -> str:
    return ",".join(f"127.0.0.1:{nodes.cluster.port + 50 + n}" for n in NODES)


def confluent(nodes: Nodes, folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": outside(nodes),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(folder / "outside-ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        **more,
    }


def test_librdkafka_does_transactions_by_a_login_inside_tls(nodes: Nodes, folder: Path) -> None:
    settings = confluent(nodes, folder)
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("secured", 3, 1)])["secured"].result(30)
    producer = Producer({**settings, "transactional.id": "secured"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("secured", str(partition).encode() * 50_000, partition=partition)
    producer.commit_transaction(30)
    consumer = Consumer({**settings, "group.id": "secured", "auto.offset.reset": "earliest"})
    consumer.subscribe(["secured"])
    seen = 0
    while seen < 3:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen += 1
    consumer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@freed_sockets()
def test_kafka_python_and_aiokafka_log_in_inside_tls(nodes: Nodes, folder: Path, mechanism: str) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.helpers import create_ssl_context
    from kafka import KafkaProducer

    login: dict[str, Any] = {
        "bootstrap_servers": outside(nodes).split(","),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**login, ssl_cafile=str(folder / "outside-ca.pem"))
    producer.send("secured-2", b"x").get(timeout=30)
    producer.close()

    async def by_aiokafka() -> None:
        context = create_ssl_context(cafile=str(folder / "outside-ca.pem"))
        async with AIOKafkaProducer(**login, ssl_context=context) as one:
            await one.send_and_wait("secured-2", b"y")

    asyncio.run(by_aiokafka())


def test_our_client_shows_a_certificate(nodes: Nodes, folder: Path) -> None:
    tls = Tls(TlsSettings(key_file=folder / "client.pem", trusted_file=folder / "ca.pem"))

    async def story() -> None:
        async with fencepost.client.Producer(nodes.bootstrap, tls=tls) as producer:
            await producer.send("secured-3", b"x")
            await producer.flush()

    asyncio.run(story())


def test_commands_take_kafkas_properties(nodes: Nodes, folder: Path) -> None:
    ca = folder / "outside-ca.pem"
    login = f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
    for name, more in (
        ("by-name", f"sasl.username={USER}\nsasl.password={PASSWORD}\n"),
        ("by-scram", f"sasl.mechanism=SCRAM-SHA-256\nsasl.username={USER}\nsasl.password={PASSWORD}\n"),
        ("by-jaas", f'sasl.jaas.config=x required username="{USER}" password="{PASSWORD}";\n'),
    ):
        write_secret(folder / name, login + more)
        listed = stdout_of(
            in_process(
                "topics", "list", "--bootstrap-server", outside(nodes), "--command-config", folder / name
            ),
            0,
        )
        assert "secured" in listed
    refused = in_process("topics", "list", "--bootstrap-server", outside(nodes))
    assert refused.status == 3
    assert PASSWORD not in refused.stdout + refused.stderr


def test_metrics_want_a_certificate(nodes: Nodes, folder: Path) -> None:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    url = "https://{}:{}/metrics".format(*nodes.address(1, "metrics"))
    with pytest.raises((urllib.error.URLError, OSError)):
        urllib.request.urlopen(url, timeout=5, context=context).read()  # noqa: S310
    context.load_cert_chain(folder / "client.pem")
    with urllib.request.urlopen(url, timeout=5, context=context) as answer:  # noqa: S310
        assert b"fencepost_raft_leader_id" in answer.read()


def test_a_key_of_another_authority_takes_no_part_until_it_is_replaced(
    nodes: Nodes, folder: Path, authority: Authority
) -> None:
    leader = nodes.leader()
    victim = next(each for each in NODES if each != leader)
    file = folder / f"node-{victim}.pem"
    Authority("another").sign(f"node-{victim}").write(file)
    nodes.kill(victim)
    mark = nodes.log_size(leader)
    with forked.nodes():
        nodes._children += lifecycle.start_nodes(nodes.cluster, [nodes.node(victim)]).values()

    def refused() -> bool:
        reasons = [str(each.get("reason")) for each in nodes.events(leader, "peer_refused", mark)]
        return any(re.search("certificate is refused", reason) for reason in reasons)

    wait_for("the leader refuses the key by name", refused)
    authority.sign(f"node-{victim}").write(file)
    nodes.await_event(victim, "tls_files_read")
    wait_for("the node takes part again", lambda: nodes.leader() is not None and follows(nodes, victim))


def follows(nodes: Nodes, node_id: int) -> bool:
    rows = nodes.run("quorum", "describe", "--replication")
    return any(line.split()[0] == str(node_id) and line.split()[3] == "0" for line in rows.splitlines()[1:])


def test_no_secret_is_in_a_log(nodes: Nodes, folder: Path) -> None:
    for n in NODES:
        log = (nodes.node(n).directory / "log.txt").read_text("utf-8")
        assert PASSWORD not in log
        assert "PRIVATE KEY" not in log
        body = (folder / f"node-{n}.pem").read_text("ascii").splitlines()[1]
        assert body not in log
