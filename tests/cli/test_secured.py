"""``fencepost up --tls --users FILE``: one command, and what is secured then."""

import asyncio
import ssl
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

import fencepost.client
from fencepost.cluster.command_config import read_access
from fencepost.cluster.console import WrongUsage
from fencepost.cluster.local_cluster import open_cluster
from fencepost.cluster.secured import NODE_USER, secured
from fencepost.wire.connection import Connection, NotConnected
from tests.harness.command import fencepost as command
from tests.harness.command import in_process, stdout_of
from tests.harness.nodes import JSON_LOGS, Nodes, ended_clean
from tests.ports import cluster_port
from tests.secret_files import write_secret

USERS = "alice=wonder land\nbob=b=o#b\n"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("secured")
    write_secret(folder / "users", USERS)
    home = folder / "cluster"
    words = ("up", "-n", 2, "--dir", home, "--port", cluster_port(), "--detach", "--override", JSON_LOGS)
    told = stdout_of(command(*words, "--tls", "--users", folder / "users"))
    assert "ca.pem" in told
    assert "wonder" not in told
    found = Nodes(open_cluster(home))
    with ended_clean(found):
        yield found


def test_clients_log_in_with_the_files_that_were_made(nodes: Nodes) -> None:
    for name in ("alice", "bob"):
        file = nodes.directory / "clients" / f"{name}.properties"
        listed = in_process("topics", "list", "--bootstrap-server", nodes.bootstrap, "--command-config", file)
        stdout_of(listed, 0)
    producer = Producer(
        {
            "bootstrap.servers": nodes.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(nodes.directory / "tls" / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "wonder land",
            "transactional.id": "secured",
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"x")
    producer.commit_transaction(30)


def test_our_client_takes_the_same_file(nodes: Nodes) -> None:
    sasl, tls = read_access(nodes.directory / "clients" / "alice.properties")

    async def story() -> None:
        async with fencepost.client.Producer(nodes.bootstrap, sasl=sasl, tls=tls) as producer:
            await producer.send("t", b"y")
            await producer.flush()

    asyncio.run(story())


def test_who_has_no_login_or_no_tls_is_refused(nodes: Nodes) -> None:
    sasl, tls = read_access(nodes.directory / "clients" / "alice.properties")
    assert sasl is not None

    async def refused() -> None:
        for purpose in ("client", "controller"):
            with pytest.raises(NotConnected):
                await Connection.open(*nodes.address(1, purpose), timeout_s=3)
        with pytest.raises(fencepost.client.ClientError):
            async with fencepost.client.Producer(
                nodes.bootstrap, sasl=sasl._replace(password="guess"), tls=tls, max_block_ms=3000
            ):
                pass

    asyncio.run(refused())


def test_secrets_are_their_owners(nodes: Nodes) -> None:
    for file in nodes.directory.rglob("*"):
        if file.parent.name in ("tls", "clients") and file.name != "ca.pem":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    for node_id in nodes.node_ids:
        text = (nodes.node(node_id).directory / "log.txt").read_text("utf-8")
        assert "wonder" not in text
        assert "PRIVATE" not in text


def test_users_without_tls_are_refused(tmp_path: Path) -> None:
    write_secret(tmp_path / "users", USERS)
    refused = in_process("up", "--dir", tmp_path / "c", "--users", tmp_path / "users", "--detach")
    assert refused.status == 2
    assert "--users needs --tls" in refused.stderr


def test_the_nodes_own_name_is_taken() -> None:
    with pytest.raises(WrongUsage, match=NODE_USER):
        secured("/d", 1, 9092, {NODE_USER: "x"})


@pytest.mark.parametrize(
    ("name", "password"),
    [("../alice", "x"), ("a/b", "x"), (".", "x"), ("a", 'x"y'), ("a", "x\\y"), ("a", "ü")],
)
def test_what_cannot_be_written_for_clients_is_refused(name: str, password: str) -> None:
    with pytest.raises(WrongUsage, match="--users: ") as refused:
        secured("/d", 1, 9092, {name: password})
    assert password not in str(refused.value) or password == "x"


def test_without_users_clients_show_a_certificate() -> None:
    own, files = secured("/d", 2, 9092, None)
    assert "listener.security.protocol.map=CLIENTS:SSL,CONTROLLER:SSL" in own[1]
    assert "ssl.client.auth=required" in own[1]
    assert sorted(files) == [
        "clients/client.properties", "tls/ca.key", "tls/ca.pem", "tls/client.pem", "tls/node-1.pem",
        "tls/node-2.pem",
    ]  # fmt: skip


def test_keys_are_verified_where_two_authorities_of_one_name_are_trusted(tmp_path: Path) -> None:
    """As while an authority is replaced: else OpenSSL tries one of them, and finds no other."""
    both = [secured(str(tmp_path), 1, 20_000).files for _ in range(2)]
    trusting = ssl.create_default_context(cadata="".join(each["tls/ca.pem"] for each in both))
    for each in both:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(write_secret(tmp_path / "node.pem", each["tls/node-1.pem"]))
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = serving.wrap_bio(to_server, to_client, server_side=True)
        client = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
        for end in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        shown = client.getpeercert()
        assert shown is not None
        assert shown["subject"] == ((("commonName", "node-1"),),)
