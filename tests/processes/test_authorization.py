"""A cluster whose controllers want a password, know who may do what, and count blocks per broker."""

import select
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.static.primitive import i8

from fencepost.cluster import node_process
from tests.harness.command import in_process, stdout_of
from tests.harness.nodes import (
    CALM,
    JSON_LOGS,
    Nodes,
    end_processes,
    format_storage,
    read_events,
    revive,
    running,
    start_process,
    wait_for,
)
from tests.ports import free_port
from tests.processes import archive_reader
from tests.processes.raw_client import RawClient, allocation, producer_id, register
from tests.secret_files import write_secret

pytestmark = pytest.mark.slow

BLOCK_LENGTH = 50
BURST = 2  # blocks at once; then one a second
BROKER = ("broker", "broker-password")
GUEST = ("guest", "guest-password")
EXIT_UNAUTHORIZED = 4
NOT_AUTHORIZED, STALE_EPOCH = 31, 77


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("guarded")
    write_secret(folder / "users", f"{'='.join(BROKER)}\n{'='.join(GUEST)}\n")
    (folder / "acls").write_text("User:broker CLUSTER_ACTION\nUser:guest DESCRIBE\n")
    write_secret(folder / "password", f"{BROKER[1]}\n")
    for name, (user, word) in {"guest": GUEST, "stranger": ("stranger", GUEST[1])}.items():
        write_secret(folder / name, f"{word}\n")
        (folder / f"{name}.properties").write_text(f"sasl.username={user}\nsasl.password.file={name}\n")
    settings = (
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        f"sasl.plain.users.file={folder / 'users'}",
        f"authorizer.acls.file={folder / 'acls'}",
        f"sasl.username={BROKER[0]}",
        f"sasl.password.file={folder / 'password'}",
        f"producer.id.block.size={BLOCK_LENGTH}",
        "producer.id.allocation.rate=1",
        f"producer.id.allocation.burst={BURST}",
    )
    with running(folder / "cluster", *settings, *CALM) as started:
        yield started


@pytest.fixture
def nodes(guarded: Nodes) -> Nodes:
    """This module's own cluster, whole."""
    return revive(guarded)


@pytest.fixture
def processes() -> Iterator[list[Popen[bytes]]]:
    """Brokers started besides; ended after the test."""
    children: list[Popen[bytes]] = []
    yield children
    end_processes(children)


def lone_broker(
    nodes: Nodes, folder: Path, broker_id: int, user: tuple[str, str], cluster_id: str = ""
) -> tuple[Path, tuple[str, int]]:
    """The configuration of a process that is a broker only, in a directory of its own, and its address."""
    folder.mkdir()
    write_secret(folder / "password", user[1])
    config = folder / "node.properties"
    address = ("127.0.0.1", free_port())
    controllers = [
        f"{host}:{port}" for host, port in (nodes.address(n, "controller") for n in nodes.node_ids)
    ]
    settings = [
        f"node.id={broker_id}",
        "process.roles=broker",
        "log.dirs=data",
        f"listeners=PLAINTEXT://127.0.0.1:{address[1]}",
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        f"controller.quorum.bootstrap.servers={','.join(controllers)}",
        f"sasl.username={user[0]}",
        "sasl.password.file=password",
        f"quorum.secret.file={nodes.directory / 'cluster.secret'}",
        JSON_LOGS,
    ]
    config.write_text("\n".join(settings) + "\n")
    format_storage(config, cluster_id or nodes.cluster.cluster_id)
    return config, address


@pytest.mark.row("730.8", "730.4", "card.4")
def test_a_broker_that_may_not_exits_4_and_says_what_to_configure(
    nodes: Nodes, tmp_path: Path, processes: list[Popen[bytes]]
) -> None:
    nodes.await_followed()
    leadership = nodes.leadership()
    config, _ = lone_broker(nodes, tmp_path / "guest", 11, GUEST)
    child = start_process(tmp_path / "guest", config, processes)
    assert wait_for("the broker ends", child.poll) == EXIT_UNAUTHORIZED
    said = (tmp_path / "guest" / node_process.LOG).read_text()
    for words in ("User:guest", "CLUSTER_ACTION", "authorizer.acls.file", "super.users"):
        assert words in said
    assert GUEST[1] not in said
    nodes.run("health")

    # The others go on, a lone broker with the right principal among them.
    config, address = lone_broker(nodes, tmp_path / "broker", 12, BROKER)
    child = start_process(tmp_path / "broker", config, processes)
    assert producer_id(address) >= 0
    for node_id in nodes.node_ids:
        assert producer_id(nodes.address(node_id, "client")) >= 0
    assert nodes.leadership() == leadership
    owners = {row["broker_id"] for row in nodes.read("producer-ids", "history")}
    assert owners >= {*nodes.node_ids, 12}
    assert 11 not in owners
    child.send_signal(signal.SIGTERM)
    assert wait_for("the lone broker ends", lambda: [child.poll()] if child.poll() is not None else None) == [
        0
    ]
    events = [each["event"] for each in read_events(tmp_path / "broker" / node_process.LOG)]
    assert events[-1] == "node_stopped"
    assert {"broker_unfenced", "producer_id_block_granted"} <= set(events)
    assert "broker_left_unnoticed" not in events


def test_a_broker_of_another_cluster_exits_1_and_names_the_cluster_of_its_directory(
    nodes: Nodes, tmp_path: Path, processes: list[Popen[bytes]]
) -> None:
    elsewhere = stdout_of(in_process("storage", "random-uuid")).strip()
    config, _ = lone_broker(nodes, tmp_path / "b", 13, BROKER, elsewhere)
    child = start_process(tmp_path / "b", config, processes)
    assert wait_for("the broker ends", child.poll) == 1
    assert elsewhere in (tmp_path / "b" / node_process.LOG).read_text()


@pytest.mark.row("730.4")
@pytest.mark.parametrize(
    ("user", "status", "reason"),
    [("guest", EXIT_UNAUTHORIZED, "CLUSTER_AUTHORIZATION_FAILED"), ("stranger", 1, "uthentication")],
)
def test_a_command_that_is_refused_says_why_by_its_exit_status(
    nodes: Nodes, user: str, status: int, reason: str
) -> None:
    config = ("--command-config", nodes.directory.parent / f"{user}.properties")
    controllers = ",".join(map(str, nodes.cluster.controllers))
    words = ("producer-ids", "allocate", "--broker-id", 1, "--broker-epoch", 1)
    refused = in_process(*words, "--bootstrap-controller", controllers, *config)
    assert (refused.status, reason in refused.stderr) == (status, True), refused


@pytest.mark.row("730.4")
def test_refusals_carry_their_code_and_write_nothing(nodes: Nodes) -> None:
    leader = nodes.await_followed()
    address = nodes.address(leader, "controller")
    refused = []
    with RawClient(address, BROKER) as broker, RawClient(address, GUEST) as guest:
        epoch = register(broker, nodes.cluster.cluster_id, 501)
        for client, request in (
            (guest, allocation(501, epoch)),
            (broker, allocation(501, epoch - 1)),
            (broker, allocation(501, epoch + 1)),
            (broker, allocation(502, epoch)),
            (broker, allocation(-1, -1)),
        ):
            answer = client.call(request)
            refused.append(
                (int(answer.error_code), int(answer.producer_id_start), int(answer.producer_id_len))
            )
    # The command's guest may allocate, too, though it may not unregister itself: that needs ALTER.
    (block,) = nodes.read("producer-ids", "allocate")
    assert block["len"] == BLOCK_LENGTH
    assert refused == [(NOT_AUTHORIZED, 0, 0), *[(STALE_EPOCH, 0, 0)] * 4]
    homes = [nodes.home(node_id) for node_id in nodes.node_ids]
    owners = {block.broker_id for block in archive_reader.allocations(archive_reader.merged(homes))}
    assert owners.isdisjoint({501, 502, -1})


@pytest.mark.row("730.5")
def test_over_the_quota_a_block_is_given_and_the_connection_muted(nodes: Nodes) -> None:
    leader = nodes.await_followed()
    address = nodes.address(leader, "controller")
    with RawClient(address, BROKER) as client, RawClient(address, BROKER) as other:
        epoch = register(client, nodes.cluster.cluster_id, 503)
        others_epoch = register(other, nodes.cluster.cluster_id, 504)
        ask = allocation(503, epoch)
        within = [client.call(ask) for _ in range(BURST)]
        assert [answer.throttle_time for answer in within] == [timedelta()] * BURST

        asked_s = time.monotonic()
        over = client.call(ask)
        throttle_s = over.throttle_time.total_seconds()
        assert throttle_s > 0
        assert int(over.error_code) == 0, "it is given all the same"
        assert int(over.producer_id_len) == BLOCK_LENGTH

        # Muted: not even another API is served on this connection; on another one everything is.
        describe = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=i8(2))
        client.send(describe)
        unhurried = other.call(allocation(504, others_epoch))
        assert int(unhurried.error_code) == 0
        assert unhurried.throttle_time == timedelta(), "a quota is one broker's"
        answered, _, _ = select.select([client.socket], [], [], 0)
        assert not answered, "the muted connection was served"
        client.receive(describe)
        assert time.monotonic() - asked_s >= throttle_s


@pytest.mark.row("730.2")
def test_the_block_length_is_a_setting_that_may_change(nodes: Nodes) -> None:
    before = nodes.read("producer-ids", "describe")
    assert before["end"] - before["start"] == BLOCK_LENGTH
    nodes.kill(*nodes.node_ids)
    for node_id in nodes.node_ids:
        config = nodes.node(node_id).directory / "node.properties"
        config.write_text(config.read_text().replace(f"block.size={BLOCK_LENGTH}", "block.size=7"))
    nodes.start(*nodes.node_ids)
    with RawClient(nodes.address(nodes.leader(), "controller"), BROKER) as client:
        answer = client.call(allocation(505, register(client, nodes.cluster.cluster_id, 505)))
    assert (int(answer.error_code), int(answer.producer_id_len)) == (0, 7)
    assert answer.producer_id_start >= before["end"]

    def rows_of_both() -> Any:
        rows = nodes.read("producer-ids", "history")
        return rows if {row["len"] for row in rows} == {BLOCK_LENGTH, 7} else None

    rows = wait_for("the archives have blocks of both lengths", rows_of_both)
    assert [row["start"] for row in rows] == [0, *(row["end"] for row in rows[:-1])]
