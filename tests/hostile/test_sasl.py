"""Hostile frames where clients must log in: before the login, and after it.

Goal        no traceback, no halt; then transactions run on the same nodes.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from fencepost.client.read_back import READ_COMMITTED, consumer_settings
from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer
from fencepost.cluster.target import Target, brokers_of
from fencepost.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshake
from fencepost.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticate
from tests.harness.nodes import Nodes, running, wait_for
from tests.hostile.campaign import NODE_SETTINGS, assert_clean, campaign
from tests.hostile.largest import largest
from tests.hostile.sender import Connection, send
from tests.secret_files import write_secret
from tests.wire.every_api import EVERY_API, NEVER_ANSWERED, OWN_APIS
from tests.wire.stage import framed

pytestmark = pytest.mark.slow

FRAMES = 8_000
TRANSACTIONS = 30
USER, PASSWORD = "broker", "broker-password"
HELLO = framed(17, 1, SASL_HANDSHAKE.encode_request(1, SaslHandshake("PLAIN")), flexible=False)
TOKEN = SASL_AUTHENTICATE.encode_request(1, SaslAuthenticate(f"\0{USER}\0{PASSWORD}".encode()))
LOGIN = HELLO + framed(36, 1, TOKEN, flexible=False)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder: Path = tmp_path_factory.mktemp("sasl")
    write_secret(folder / "users", f"{USER}={PASSWORD}\n")
    write_secret(folder / "password", f"{PASSWORD}\n")
    settings = (
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        f"sasl.plain.users.file={folder / 'users'}",
        f"sasl.username={USER}",
        f"sasl.password.file={folder / 'password'}",
    )
    with running(folder / "cluster", *NODE_SETTINGS, *settings) as started:
        yield started


@pytest.mark.parametrize("seed", [21], ids="seed-{}".format)
def test_hostile_frames_before_and_after_a_login(nodes: Nodes, seed: int) -> None:
    tally = campaign(nodes, FRAMES, seed, print, login=LOGIN)
    assert set(tally.answered) >= {api.key for api in EVERY_API} - NEVER_ANSWERED
    assert tally.endings["closed"] > FRAMES / 100
    assert tally.endings["stays open"] == 0


@pytest.mark.parametrize("login", [b"", HELLO, LOGIN], ids=["at-once", "after-the-handshake", "logged-in"])
@pytest.mark.parametrize("purpose", ["client", "controller"])
def test_the_largest_requests_to_the_listener_itself(nodes: Nodes, purpose: str, login: bytes) -> None:
    pids = [nodes.pid(node_id) for node_id in nodes.node_ids]
    connections = [
        Connection([framed(api.key, version, body, flexible=version >= api.flexible_from)], login)
        for api in OWN_APIS
        for version in api.versions
        for body in [api.encode_request(version, each.request) for each in largest(api)]
    ]
    addresses = [nodes.address(node_id, purpose) for node_id in nodes.node_ids]
    tally = send(addresses, iter(connections), Random(1))
    assert tally.endings["stays open"] == 0
    assert tally.endings["refused"] == 0
    assert tally.endings["answered"] > 0
    assert [nodes.node(node_id).pid() for node_id in nodes.node_ids] == pids, "a node ended"
    assert_clean(nodes)


def settings_of(target: Target) -> dict[str, str]:
    assert target.sasl is not None
    user, password, _mechanism = target.sasl
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


def test_transactions_run_after_them(nodes: Nodes) -> None:
    target = brokers_of(nodes.cluster)
    nodes.run("topics", "create", "--topic", "after", "--partitions", "1")
    producer = TransactionalProducer(target.name, "after", settings_of(target))
    values = [f"{number}".encode() for number in range(TRANSACTIONS)]
    outcomes = [
        producer.write([Record("after", value, 0)], commit=number % 3 > 0)
        for number, value in enumerate(values)
    ]
    assert outcomes == [
        Outcome.COMMITTED if number % 3 > 0 else Outcome.ABORTED for number in range(TRANSACTIONS)
    ]
    consumer = Consumer(consumer_settings(target.name, READ_COMMITTED) | settings_of(target))
    try:
        consumer.assign([TopicPartition("after", 0, OFFSET_BEGINNING)])
        seen: list[bytes | None] = []

        def read_on() -> bool:
            seen.extend(each.value() for each in consumer.consume(100, 0.1) if each.error() is None)
            return len(seen) >= outcomes.count(Outcome.COMMITTED)

        wait_for("the committed records are read", read_on)
    finally:
        consumer.close()
    assert seen == [value for number, value in enumerate(values) if number % 3 > 0]
    assert_clean(nodes)
