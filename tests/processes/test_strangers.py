"""What does not belong disturbs nobody: garbage on every port, wrong secrets, foreign nodes, doubles.

The timeouts are longer than usual, so that a busy machine alone never changes a role.
"""

import asyncio
import base64
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from subprocess import Popen
from typing import Any

import pytest

from fencepost.cluster import node_process
from fencepost.controller.brokers import Endpoint, Feature, RegisterBroker
from fencepost.controller.errors import ApiError
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.settings.node_identity import read_identity
from fencepost.wire.client import Connection, ConnectionLost
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from tests.harness.nodes import (
    CALM,
    JSON_LOGS,
    NO_QUOTA,
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
from tests.processes.checks import check_run
from tests.processes.garbage import GARBAGE, Impostor, send_each
from tests.processes.load import Load
from tests.secret_files import write_secret

pytestmark = pytest.mark.slow

SEED = 730
COUNT = 10_000  # of each kind, on each sort of port
AS_A_PEER = 150  # of each kind
GUESSES = 300
ANSWER_SECONDS_MAX = 20.0
PAUSE_S = 0.03  # strangers and brokers share two cores: enough that any harm shows
RSS_ANON_KIB_MAX = 100 * 1024


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("calm") / "cluster", NO_QUOTA, *CALM) as started:
        yield started


@pytest.fixture
def nodes(calm: Nodes) -> Nodes:
    """This module's own cluster, whole."""
    return revive(calm)


@pytest.mark.row("card.7")
@pytest.mark.parametrize("port", ["raft", "controller", "client"])
def test_garbage_disturbs_nobody(nodes: Nodes, since: int, port: str, tmp_path: Path) -> None:
    rng = Random(f"{SEED} {port}")
    leader = nodes.await_followed()
    pids = [nodes.pid(node_id) for node_id in nodes.node_ids]
    marks = {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids}
    proof = tmp_path / "unpickled"
    with Load(nodes, seed=31, clients=4, pause_s=PAUSE_S) as load:
        load.await_done(20)
        for make in GARBAGE.values():
            payloads = make(rng, COUNT, proof)
            # The leader gets half of it.
            shares = {leader: payloads[: COUNT // 2]}
            rest = [node_id for node_id in nodes.node_ids if node_id != leader]
            shares |= {node_id: payloads[COUNT // 2 + n :: 2] for n, node_id in enumerate(rest)}
            for node_id, share in shares.items():
                send_each(nodes.address(node_id, port), share)
            load.await_done(20)
    assert [nodes.pid(node_id) for node_id in nodes.node_ids] == pids
    assert not proof.exists(), "somebody unpickled it"
    for node_id, mark in marks.items():
        assert nodes.events(node_id, "role_changed", mark) == []
        assert nodes.rss_anon_kib(node_id) < RSS_ANON_KIB_MAX
    check_run(nodes, load, since)


@pytest.mark.row("card.7")
def test_a_wrong_secret_disturbs_nobody(nodes: Nodes, since: int) -> None:
    leader = nodes.await_followed()
    marks = {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids}
    guesser = Impostor(nodes.cluster.cluster_id, 3 if leader != 3 else 2, uuid.uuid4(), b"0" * 64)
    with Load(nodes, seed=32, clients=4, pause_s=PAUSE_S) as load:
        load.await_done(20)
        endings = asyncio.run(guesser.say_each(nodes.address(leader, "raft"), [b""] * GUESSES))
        assert endings == {"closed"}
        load.await_done(20)
    # Named, and once: the log is not for the guesser to fill.
    refusals = nodes.events(leader, "peer_refused", marks[leader])
    assert ["does not know the cluster's secret" in each["reason"] for each in refusals] == [True]
    for node_id, mark in marks.items():
        assert nodes.events(node_id, "role_changed", mark) == []
    check_run(nodes, load, since)


@pytest.mark.row("card.7")
@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_of_a_peer_that_knows_the_secret_disturbs_nobody(
    nodes: Nodes, since: int, kind: str, tmp_path: Path
) -> None:
    leader = nodes.await_followed()
    (peer, _) = nodes.followers()
    secret = (nodes.directory / "cluster.secret").read_bytes().strip()
    directory_id = read_identity(nodes.home(peer)).directory_id
    proof = tmp_path / "unpickled"
    payloads = GARBAGE[kind](Random(f"{SEED} {kind}"), AS_A_PEER, proof)
    with Load(nodes, seed=33, clients=4, pause_s=PAUSE_S) as load:
        load.await_done(20)
        nodes.kill(peer)
        mark = nodes.log_size(leader)
        impostor = Impostor(nodes.cluster.cluster_id, peer, directory_id, secret)
        endings = asyncio.run(impostor.say_each(nodes.address(leader, "raft"), payloads))
        assert endings <= {"heard", "closed"}
        load.await_done(20)
        assert nodes.events(leader, "role_changed", mark) == []
        assert not proof.exists(), "somebody unpickled it"
        nodes.start(peer)
        load.await_done(20)
    check_run(nodes, load, since)


CLOSED = "closed by the other side|[Cc]onnection reset|Broken pipe"  # what comes depends on who is faster
OVERSIZED = [
    pytest.param({"features": [Feature(f"f{n}", 1, 1) for n in range(15_000)]}, CLOSED, id="15000-features"),
    pytest.param(
        {"features": [Feature(f"{n:04}" * 1_000, 1, 1) for n in range(2_000)]}, CLOSED, id="8-MB-of-features"
    ),
    pytest.param(
        {"endpoints": [Endpoint("N" * 32_000, "h" * 32_000, 1)] * 16}, CLOSED, id="1-MB-of-listeners"
    ),
    pytest.param({"rack": "r" * 32_767}, "INVALID_REGISTRATION", id="a-rack-of-32-KB"),
    pytest.param(
        {"features": [Feature(f"f{n}", 1, 1) for n in range(200)]}, "INVALID_REGISTRATION", id="200-features"
    ),
]


@pytest.mark.row("card.4")
@pytest.mark.parametrize(("excess", "said"), OVERSIZED)
def test_an_oversized_registration_is_refused_and_halts_nobody(
    nodes: Nodes, excess: dict[str, Any], said: str
) -> None:
    """What a decision writes must fit into a Raft entry: one that did not would halt leader after leader."""
    leader = nodes.await_followed()
    leadership = nodes.leadership()
    usual: dict[str, Any] = {
        "broker_id": BrokerId(950),
        "cluster_id": nodes.cluster.cluster_id,
        "incarnation_id": uuid.uuid4(),
        "directory_id": uuid.UUID(int=950),
        "endpoints": (Endpoint("NONE", "127.0.0.1", 1),),
    }

    async def register(**more: Any) -> BrokerEpoch:
        connection = await Connection.open(*nodes.address(leader, "controller"))
        try:
            request = RegisterBroker(**usual | more)
            return await connection.call(BROKER_REGISTRATION, request, timeout_s=ANSWER_SECONDS_MAX)
        finally:
            connection.close()

    with pytest.raises((ApiError, ConnectionLost), match=said):
        asyncio.run(register(**excess))
    assert asyncio.run(register()) > 0
    assert nodes.leadership() == leadership


@pytest.fixture
def strangers() -> Iterator[list[Popen[bytes]]]:
    """Processes started besides; ended after the test."""
    children: list[Popen[bytes]] = []
    yield children
    end_processes(children)


def stranger(nodes: Nodes, folder: Path, node_id: int, *, cluster_id: str, secret: Path) -> Path:
    """The configuration of a node that dials the cluster, in a formatted directory of its own."""
    folder.mkdir(parents=True)
    config = folder / "node.properties"
    voters = [f"{node}@{_text(nodes.address(node, 'raft'))}" for node in nodes.node_ids if node != node_id]
    controllers = [_text(nodes.address(node, "controller")) for node in nodes.node_ids]
    settings = [
        f"node.id={node_id}",
        "process.roles=controller",
        "log.dirs=data",
        f"listeners=CONTROLLER://127.0.0.1:{free_port()}",
        f"controller.quorum.voters={','.join([*voters, f'{node_id}@127.0.0.1:{free_port()}'])}",
        f"controller.quorum.bootstrap.servers={','.join(controllers)}",
        f"quorum.secret.file={secret}",
        JSON_LOGS,
    ]
    config.write_text("\n".join(settings) + "\n")
    format_storage(config, cluster_id)
    return config


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def await_refusal(log: Path, since: int, *words: str) -> None:
    """A ``peer_refused`` event whose reason has these words."""

    def look() -> bool:
        reasons = [e["reason"] for e in read_events(log, since) if e["event"] == "peer_refused"]
        return any(all(word in reason for word in words) for reason in reasons)

    wait_for(f"{log} says that a peer is refused: {words}", look)


def test_a_node_of_another_cluster_is_refused_by_name(
    nodes: Nodes, tmp_path: Path, strangers: list[Popen[bytes]]
) -> None:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    leader, epoch = undisturbed(nodes)
    others = [node_id for node_id in nodes.node_ids if node_id != 3]
    marks = {node_id: nodes.log_size(node_id) for node_id in others}
    config = stranger(
        nodes, tmp_path / "foreign", 3, cluster_id=cluster_id, secret=nodes.directory / "cluster.secret"
    )
    start_process(tmp_path / "foreign", config, strangers)
    words = ("node 3 belongs to cluster", cluster_id)
    for node_id, mark in marks.items():
        await_refusal(nodes.node(node_id).directory / node_process.LOG, mark, *words)
    await_refusal(tmp_path / "foreign" / node_process.LOG, 0, nodes.cluster.cluster_id)
    assert undisturbed(nodes) == (leader, epoch)


def test_a_second_node_of_the_same_id_is_refused_by_name(
    nodes: Nodes, tmp_path: Path, strangers: list[Popen[bytes]]
) -> None:
    leader, epoch = undisturbed(nodes)
    others = [node_id for node_id in nodes.node_ids if node_id != 3]
    marks = {node_id: nodes.log_size(node_id) for node_id in others}
    config = stranger(
        nodes,
        tmp_path / "double",
        3,
        cluster_id=nodes.cluster.cluster_id,
        secret=nodes.directory / "cluster.secret",
    )
    start_process(tmp_path / "double", config, strangers)
    for node_id, mark in marks.items():
        log = nodes.node(node_id).directory / node_process.LOG
        await_refusal(log, mark, "node id 3 is taken", nodes.directory_id(3))
    await_refusal(tmp_path / "double" / node_process.LOG, 0, "node id 3 is taken")
    assert undisturbed(nodes) == (leader, epoch)


def test_a_node_with_another_secret_is_refused_by_name(
    nodes: Nodes, tmp_path: Path, strangers: list[Popen[bytes]]
) -> None:
    leader, epoch = undisturbed(nodes)
    secret = tmp_path / "secret"
    write_secret(secret, "0123456789abcdef0123456789abcdef")
    marks = {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids}
    config = stranger(nodes, tmp_path / "guesser", 3, cluster_id=nodes.cluster.cluster_id, secret=secret)
    start_process(tmp_path / "guesser", config, strangers)
    # The dialler asks for proof first, so it is the one that finds out.
    await_refusal(tmp_path / "guesser" / node_process.LOG, 0, "does not know the cluster's secret")
    assert undisturbed(nodes) == (leader, epoch)
    assert not [e for node_id, mark in marks.items() for e in nodes.events(node_id, "role_changed", mark)]


def undisturbed(nodes: Nodes) -> tuple[int, int]:
    """(leader, epoch), on an answer that rides on a committed entry."""
    nodes.await_followed()
    return nodes.leadership()
