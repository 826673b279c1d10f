"""A node's configuration: what is read, what is refused and how, and that nothing is lost in writing it."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.records.types import NodeId
from fencepost.settings.config import (
    INT32_MAX,
    ITEMS_MAX,
    VOTERS_MAX,
    Address,
    ConfigError,
    ListenerAddress,
    NodeConfig,
    Voter,
)
from fencepost.settings.properties import parse_properties
from tests.together import table

FILE = Path("/etc/fencepost/node.properties")
WHOLE = {
    "node.id": "2",
    "process.roles": "controller,broker",
    "controller.quorum.voters": "1@127.0.0.1:9292,2@127.0.0.1:9293,3@127.0.0.1:9294",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9192,127.0.0.1:9193",
    "listeners": "PLAINTEXT://127.0.0.1:9093,CONTROLLER://127.0.0.1:9193",
    "log.dirs": "data",
    "quorum.secret.file": "../secret",
}


def read(**changes: str | None) -> NodeConfig:
    """WHOLE with changes; a key is written with underscores for dots, None leaves it out."""
    merged = {**WHOLE, **{key.replace("_", "."): value for key, value in changes.items()}}
    lines = [f"{key}={value}" for key, value in merged.items() if value is not None]
    return parse_properties("\n".join(lines), FILE)


def test_a_whole_file_is_read() -> None:
    config = read()
    assert config.node_id == 2
    assert config.is_controller
    assert config.is_broker
    assert config.raft_address == Address("127.0.0.1", 9293)
    assert config.client_listener == ListenerAddress("PLAINTEXT", Address("127.0.0.1", 9093))
    assert config.controller_listener == ListenerAddress("CONTROLLER", Address("127.0.0.1", 9193))
    assert config.controller_bootstrap == (Address("127.0.0.1", 9192), Address("127.0.0.1", 9193))
    assert config.security_protocol("CONTROLLER") == "PLAINTEXT"
    assert config.directory == Path("/etc/fencepost/data")
    assert config.log_directories == (config.directory,)
    assert config.producer_id_block_size == 1000


def test_comments_blank_lines_and_spaces_are_skipped() -> None:
    text = "# a comment\n! another\n\n" + "\n".join(f"  {key} = {value} " for key, value in WHOLE.items())
    assert parse_properties(text, FILE) == read()


def test_a_broker_alone_needs_no_voters() -> None:
    config = read(
        process_roles="broker",
        controller_quorum_voters=None,
        listeners="PLAINTEXT://127.0.0.1:9093",
    )
    assert config.raft_address is None
    assert config.controller_listener is None


OPEN = {"fencepost.allow.insecure.listeners": "true"}
STORE = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "k",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "t",
}
INLINE = "-----BEGIN PRIVATE KEY-----\\nSECRET\\n-----END PRIVATE KEY-----"
TWO = "INSIDE://127.0.0.1:9093,OUTSIDE://127.0.0.1:9094"


REFUSED = [
    pytest.param({"producer.id.block.sise": "5"}, "did you mean producer.id.block.size", id="misspelled-key"),
    pytest.param({"zzz": "5"}, ", node.id, process.roles", id="key-like-no-other"),
    pytest.param({"node.id": None}, "missing node.id", id="missing-key"),
    pytest.param({"node.id": "one"}, "expected a whole number from 0", id="word-for-a-number"),
    pytest.param({"node.id": str(INT32_MAX + 1)}, "node.id: expected", id="node-id-one-past-int32"),
    pytest.param({"producer.id.block.size": "0"}, "from 1 to 2147483647; got '0'", id="block-of-none"),
    pytest.param({"producer.id.allocation.rate": "nan"}, "expected a number", id="rate-not-a-number"),
    pytest.param({"process.roles": "controller,zookeeper"}, "one of controller, broker", id="unknown-role"),
    pytest.param({"process.roles": "controller,controller"}, "none twice", id="role-twice"),
    pytest.param({"process.roles": ""}, "process.roles", id="no-role"),
    pytest.param(
        {"process.roles": "controller"}, "at least one client listener", id="client-listener-without-broker"
    ),
    pytest.param({"listeners": "PLAINTEXT://127.0.0.1:9093"}, "CONTROLLER listener", id="no-controller"),
    pytest.param(
        {"listeners": "PLAINTEXT://10.0.0.1:9093,CONTROLLER://127.0.0.1:9193"},
        "listens on 10.0.0.1:9093, which others than this host may reach, and it asks no one who they are",
        id="listener-off-loopback",
    ),
    pytest.param(
        {"listeners": "PLAINTEXT://127.0.0.1:9093,CONTROLLER://[fd00::1]:9193"},
        "CONTROLLER (PLAINTEXT) listens on [fd00::1]:9193",
        id="controllers-off-loopback",
    ),
    pytest.param(
        {"listeners": "PLAINTEXT://:9093,CONTROLLER://127.0.0.1:9193"},
        "which others than this host may reach",
        id="listener-on-every-interface",
    ),
    pytest.param(
        {"listeners": "PLAINTEXT://kafka-1:9093,CONTROLLER://127.0.0.1:9193"},
        "which others than this host may reach",
        id="listener-on-a-name",
    ),
    pytest.param(
        {
            "listeners": "SASL_PLAINTEXT://10.0.0.1:9093,CONTROLLER://127.0.0.1:9193",
            "sasl.plain.users.file": "users",
        },
        "passwords go over it in the clear",
        id="passwords-in-the-clear-off-loopback",
    ),
    pytest.param({"controller.quorum.voters": "2@10.0.0.1:9293"}, "go in the clear", id="links-off-loopback"),
    pytest.param(
        {**OPEN, "listeners": "PLAINTEXT://0.0.0.0:9093,CONTROLLER://127.0.0.1:9193"},
        "advertised.listeners: expected PLAINTEXT://HOST:PORT",
        id="every-interface-advertised",
    ),
    pytest.param(
        {"advertised.listeners": "PLAINTEXT://0.0.0.0:9093"},
        "an address that others connect to",
        id="wildcard-advertised",
    ),
    pytest.param(
        {"advertised.listeners": "OUTSIDE://127.0.0.1:9093"},
        "OUTSIDE is not among listeners",
        id="unknown-name-advertised",
    ),
    pytest.param(
        {"listeners": f"{TWO},CONTROLLER://127.0.0.1:9193"},
        "inter.broker.listener.name is missing: which of INSIDE, OUTSIDE",
        id="no-inter-broker-listener",
    ),
    pytest.param(
        {"listeners": f"{TWO},CONTROLLER://127.0.0.1:9193", "inter.broker.listener.name": "CONTROLLER"},
        "inter.broker.listener.name=CONTROLLER: expected a client listener",
        id="controllers-between-brokers",
    ),
    pytest.param(
        {"listeners": f"{TWO},CONTROLLER://127.0.0.1:9193", "inter.broker.listener.name": "INSIDE"},
        "no security protocol is given for listener INSIDE",
        id="unmapped-of-several",
    ),
    pytest.param(
        {"listeners": "SSL://127.0.0.1:9093,CONTROLLER://127.0.0.1:9193"},
        "ssl.keystore.location is missing: SSL need a key",
        id="tls-without-a-key",
    ),
    pytest.param(
        {**STORE, "listeners": "SSL://10.0.0.1:9093,CONTROLLER://127.0.0.1:9193"},
        "it asks no one who they are",
        id="tls-for-everyone-off-loopback",
    ),
    pytest.param(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "k",
            "ssl.client.auth": "required",
            "listeners": "SSL://127.0.0.1:9093,CONTROLLER://127.0.0.1:9193",
        },
        "ssl.truststore.location is missing: SSL verify",
        id="no-authority-for-clients",
    ),
    pytest.param(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "k",
            "listener.security.protocol.map": "CONTROLLER:SSL",
        },
        "ssl.truststore.location is missing: CONTROLLER, the links of voters verify",
        id="no-authority-for-voters",
    ),
    pytest.param(
        {"ssl.keystore.location": "k"}, "ssl.keystore.type is missing: expected PEM", id="store-type"
    ),
    pytest.param({"ssl.truststore.location": "k"}, "ssl.truststore.type is missing", id="trusted-type"),
    pytest.param({"ssl.keystore.type": "JKS"}, "one of PEM; got 'JKS'", id="java-store"),
    pytest.param({**STORE, "ssl.keystore.key": INLINE}, "expected both or neither", id="key-without-chain"),
    pytest.param(
        {**STORE, "ssl.keystore.key": INLINE, "ssl.keystore.certificate.chain": INLINE},
        "ssl.keystore.location and ssl.keystore.key: expected one",
        id="two-keys",
    ),
    pytest.param({"ssl.keystore.key": "hunter2"}, "expected a private key in PEM", id="no-pem"),
    pytest.param({"ssl.client.auth": "maybe"}, "one of none, requested, required", id="client-auth"),
    pytest.param({"ssl.endpoint.identification.algorithm": "ldap"}, "https, or nothing", id="algorithm"),
    pytest.param({"ssl.principal.mapping.rules": "RULE:("}, "expected RULE:pattern", id="no-rule"),
    pytest.param({"fencepost.metrics.host": "0.0.0.0"}, "may read the metrics", id="metrics-for-everyone"),
    pytest.param(
        {"fencepost.metrics.security.protocol": "SSL"},
        "SSL: ssl.keystore.location is missing",
        id="metrics-key",
    ),
    pytest.param({"controller.listener.names": ""}, "at least one name", id="no-controller-name"),
    pytest.param({"controller.listener.names": "QUORUM"}, "a QUORUM listener", id="controllers-elsewhere"),
    pytest.param({"listeners": "PLAINTEXT://10.0.0.999:1"}, "listeners: expected", id="no-such-ipv4"),
    pytest.param({"listeners": "PLAINTEXT://[::g]:1"}, "listeners: expected", id="no-such-ipv6"),
    pytest.param({"listeners": "PLAINTEXT://a b:1"}, "listeners: expected", id="host-with-a-space"),
    pytest.param({"listeners": f"PLAINTEXT://{'a' * 256}:1"}, "listeners: expected", id="host-too-long"),
    pytest.param({"listeners": "PLAINTEXT://127.0.0.1:0"}, "listeners: expected", id="port-0"),
    pytest.param({"listeners": "PLAINTEXT://127.0.0.1:65536"}, "listeners: expected", id="port-too-high"),
    pytest.param({"controller.quorum.voters": "1@127.0.0.1:1"}, "not among the voters", id="not-a-voter"),
    pytest.param(
        {"controller.quorum.voters": "2@127.0.0.1:1,2@127.0.0.1:2"},
        "node id is there twice",
        id="voter-twice",
    ),
    pytest.param(
        {"controller.quorum.voters": ",".join(f"{i}@127.0.0.1:{i + 1}" for i in range(VOTERS_MAX + 1))},
        "controller.quorum.voters: expected",
        id="one-voter-too-many",
    ),
    pytest.param(
        {"super.users": ";".join(f"User:u{i}" for i in range(ITEMS_MAX + 1))},
        "super.users: expected",
        id="one-super-user-too-many",
    ),
    pytest.param({"super.users": "alice"}, "User:NAME", id="principal-without-type"),
    pytest.param({"quorum.secret.file": None}, "share a secret; add quorum.secret.file=", id="no-secret"),
    pytest.param(
        {"quorum.secret.file": None, "controller.quorum.voters": "2@127.0.0.1:9293"},
        "quorum.secret.file is missing",
        id="no-secret-of-a-single-voter",
    ),
    pytest.param(
        {
            "quorum.secret.file": None,
            "process.roles": "broker",
            "controller.quorum.voters": None,
            "listeners": "PLAINTEXT://127.0.0.1:9093",
        },
        "quorum.secret.file is missing",
        id="no-secret-of-a-broker-alone",
    ),
    pytest.param({"quorum.heartbeat.interval.ms": "300"}, "must be less than", id="heartbeat-too-slow"),
    pytest.param({"quorum.election.timeout.ms.min": "601"}, "must not be greater", id="timeouts-crossed"),
    pytest.param({"broker.session.timeout.ms": "2000"}, "must be less than", id="session-too-short"),
    pytest.param(
        {"listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT"},
        "needs the users' passwords",
        id="sasl-without-users",
    ),
    pytest.param({"sasl.username": "broker"}, "expected both or neither", id="name-without-password"),
    pytest.param(
        {"zookeeper.metadata.migration.enable": "true"},
        "zookeeper.connect must say which",
        id="upgrade-from-nowhere",
    ),
    pytest.param({"zookeeper.metadata.migration.enable": "yes"}, "true or false; got 'yes'", id="not-true"),
    pytest.param({"zookeeper.connect": ""}, "zookeeper.connect: expected some text", id="zookeeper-nowhere"),
    pytest.param({"zookeeper.sasl.username": "kafka"}, "expected both or neither", id="no-password"),
    pytest.param(
        {"zookeeper.ssl.truststore.location": "ca.pem"}, "TLS is not enabled", id="authorities-without-tls"
    ),
    pytest.param(
        {"transaction.state.log.replication.factor": "4"},
        "replication.factor=4: transaction state is kept by the quorum's voters, and there are 3",
        id="more-copies-of-transaction-state-than-voters",
    ),
    pytest.param(
        {"transaction.state.log.min.isr": "4"},
        "min.isr=4: transaction state is kept by the quorum's voters, and there are 3",
        id="more-in-sync-copies-than-voters",
    ),
    pytest.param(
        {"default.replication.factor": "3"}, "fencepost.allow.unreplicated=true", id="replicated-by-default"
    ),
    pytest.param({"num.partitions": "0"}, "whole number from 1", id="topics-without-partitions"),
    pytest.param({"num.partitions": "2001"}, "to 2000; got", id="one-default-partition-too-many"),
    pytest.param({"log.segment.bytes": "13"}, "whole number from 14", id="segment-too-small"),
    pytest.param({"log.retention.ms": "-2"}, "whole number from -1", id="retention-below-for-ever"),
    pytest.param(
        {"queued.max.request.bytes": str(200 * 1024 * 1024 - 1)},
        "at least 209715200, two of the largest requests",
        id="no-memory-for-two-requests",
    ),
    pytest.param({"queued.max.request.bytes": "-1"}, "whole number from 1048576", id="unlimited-memory"),
    pytest.param({"max.connections.per.ip": "0"}, "whole number from 1", id="no-connection-per-address"),
    pytest.param({"connections.max.idle.ms": "0"}, "whole number from 1", id="no-time-to-be-idle"),
    pytest.param(
        {"connections.max.idle.ms": "100"},
        "must be less than connections.max.idle.ms",
        id="idle-while-refused",
    ),
    pytest.param({"log.format": "xml"}, "one of console, json; got 'xml'", id="unknown-log-format"),
]


@table(("changes", "complaint"), REFUSED)
def test_a_wrong_file_is_refused_with_the_reason(changes: dict[str, str | None], complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(**{key.replace(".", "_"): value for key, value in changes.items()})
    assert complaint in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
    assert "SECRET" not in str(refusal.value)
    assert str(FILE) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("node.id", "line 1: expected key=value", id="no-equals-sign"),
        pytest.param("node.id=1\nnode.id=1", "line 2: node.id is given twice", id="same-key-twice"),
    ],
)
def test_a_wrong_line_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_properties(text, FILE)


def test_the_limits_themselves_are_accepted() -> None:
    others = ",".join(f"{i}@127.0.0.1:{i + 1}" for i in range(VOTERS_MAX))
    assert len(read(controller_quorum_voters=others).voters) == VOTERS_MAX
    users = ";".join(f"User:u{i}" for i in range(ITEMS_MAX))
    assert len(read(super_users=users).super_users) == ITEMS_MAX


ports = st.integers(1, 65535)
addresses = st.builds(Address, st.sampled_from(["127.0.0.1", "127.0.0.2", "localhost", "::1"]), ports)
words = st.text("abcdefghijklmnopqrstuvwxyz0123456789-._", min_size=1, max_size=12)
paths = st.builds(Path, words.map(lambda word: f"/srv/{word}"))
configs = st.builds(
    NodeConfig,
    node_id=st.just(NodeId(7)),
    roles=st.just(("controller", "broker")),
    log_directories=st.lists(paths, min_size=1, max_size=3, unique=True).map(tuple),
    metadata_directory=st.none() | paths,
    listeners=st.tuples(
        st.builds(ListenerAddress, st.just("CONTROLLER"), addresses),
        st.builds(ListenerAddress, st.sampled_from(["PLAINTEXT", "CLIENT_1"]), addresses),
    ),
    security_protocols=st.sampled_from(
        [(("CONTROLLER", "PLAINTEXT"),), (("CONTROLLER", "SASL_PLAINTEXT"), ("CLIENT_1", "PLAINTEXT"))]
    ),
    voters=st.builds(
        lambda mine, other: (Voter(NodeId(7), mine), Voter(NodeId(1), other)), addresses, addresses
    ),
    controller_bootstrap=st.lists(addresses, min_size=1, max_size=3, unique=True).map(tuple),
    secret_file=paths,
    metrics_port=st.none() | ports,
    producer_id_block_size=st.integers(1, INT32_MAX),
    producer_id_allocation_rate=st.floats(0, 1e9),
    broker_session_timeout_ms=st.integers(2001, INT32_MAX),
    super_users=st.lists(words.map("User:{}".format), max_size=3, unique=True).map(tuple),
    sasl_users_file=paths,
    zookeeper_migration_enabled=st.booleans(),
    zookeeper_connect=words,
    zookeeper_tls=st.just(True),
    zookeeper_truststore=st.none() | paths,
    archive_retention_bytes=st.none() | st.integers(0, 2**63 - 1),
    group_archive_retention_bytes=st.integers(-1, 2**63 - 1),
    log_level=st.sampled_from(["debug", "info", "warning", "error"]),
)


@given(configs)
def test_what_is_written_is_read_back(config: NodeConfig) -> None:
    assert parse_properties(config.render(), FILE) == config


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")
    keys = [str(each.metadata["key"]) for each in fields(NodeConfig)]
    short = {key: f"`.{key.rpartition('.')[2]}`" for key in keys}  # as in: `...ms.min`, `.max`
    assert [key for key in keys if f"`{key}`" not in page and short[key] not in page] == []
