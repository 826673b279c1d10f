"""Who may take part: a wiped voter waits to be readmitted; strangers and doubles are refused by name."""

import base64
import uuid
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from cli import node_process
from tests.processes.checks import check_run
from tests.processes.load import Load
from tests.processes.nodes import (
    JSON_LOGS,
    Nodes,
    end_processes,
    fencepost,
    read_events,
    start_process,
    wait_for,
    wipe,
)

pytestmark = pytest.mark.slow

PORT = 25_800  # of processes that are none of the cluster's own
CANDIDACIES = 3


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
        f"listeners=CONTROLLER://127.0.0.1:{PORT}",
        f"controller.quorum.voters={','.join([*voters, f'{node_id}@127.0.0.1:{PORT + 1}'])}",
        f"controller.quorum.bootstrap.servers={','.join(controllers)}",
        f"quorum.secret.file={secret}",
        JSON_LOGS,
    ]
    config.write_text("\n".join(settings) + "\n")
    fencepost("storage", "format", "--config", str(config), "--cluster-id", cluster_id)
    return config


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def await_refusal(log: Path, since: int, *words: str) -> None:
    """A ``peer_refused`` event whose reason has these words."""

    def look() -> bool:
        reasons = [e["reason"] for e in read_events(log, since) if e["event"] == "peer_refused"]
        return any(all(word in reason for word in words) for reason in reasons)

    wait_for(f"{log} says that a peer is refused: {words}", look)


@pytest.mark.row("card.1", "card.7")
def test_a_wiped_voter_does_not_vote_before_it_is_readmitted(nodes: Nodes, since: int) -> None:
    leader = nodes.await_followed()
    wiped, witness = nodes.followers()
    with Load(nodes, seed=21) as load:
        load.await_done(20)
        old_directory = _directory_id(nodes, wiped)
        nodes.kill(wiped)
        wipe(nodes, wiped)
        assert _directory_id(nodes, wiped) != old_directory

        # Without the leader there is no majority: the wiped one does not count, and knows it.
        nodes.kill(leader)
        marks = {node_id: nodes.log_size(node_id) for node_id in (wiped, witness)}
        nodes.start(wiped)
        epoch = nodes.epoch(witness)
        wait_for(
            f"node {witness} stands for election again and again",
            lambda: nodes.epoch(witness) >= epoch + CANDIDACIES,
        )
        for node_id, mark in marks.items():
            assert nodes.events(node_id, "controller_activated", mark) == []
        assert nodes.metrics(wiped)["role.follower"] == 1

        # With it there is one, of the other two; the wiped one catches up and is readmitted.
        nodes.start(leader)
        load.await_done(20)
        chosen = nodes.leader()
        assert chosen != wiped
        wait_for(
            f"node {wiped} is readmitted",
            lambda: any(
                nodes.events(node_id, "voter_readmitted", mark)
                for node_id, mark in (*marks.items(), (leader, 0))
            ),
        )
        nodes.await_followed()
        # Now it counts: with the wiped one and one of the others alone, the quorum goes on.
        nodes.kill(nodes.leader())
        load.await_done(20)
        dead = [node_id for node_id in nodes.node_ids if nodes.node(node_id).pid() is None]
        nodes.start(*dead)
    check_run(nodes, load, since)


def _directory_id(nodes: Nodes, node_id: int) -> str:
    (row,) = nodes.read("storage", "info", "--node", str(node_id))["nodes"]
    return str(row["directory_id"])


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
        await_refusal(log, mark, "node id 3 is taken", _directory_id(nodes, 3))
    await_refusal(tmp_path / "double" / node_process.LOG, 0, "node id 3 is taken")
    assert undisturbed(nodes) == (leader, epoch)


def test_a_node_with_another_secret_is_refused_by_name(
    nodes: Nodes, tmp_path: Path, strangers: list[Popen[bytes]]
) -> None:
    leader, epoch = undisturbed(nodes)
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    marks = {node_id: nodes.log_size(node_id) for node_id in nodes.node_ids}
    config = stranger(nodes, tmp_path / "guesser", 3, cluster_id=nodes.cluster.cluster_id, secret=secret)
    start_process(tmp_path / "guesser", config, strangers)
    # The dialler asks for proof first, so it is the one that finds out.
    await_refusal(tmp_path / "guesser" / node_process.LOG, 0, "does not know the cluster's secret")
    assert undisturbed(nodes) == (leader, epoch)
    assert not [e for node_id, mark in marks.items() for e in nodes.events(node_id, "role_changed", mark)]


def undisturbed(nodes: Nodes) -> tuple[int, int]:
    """(leader, epoch), on an answer that rides on a committed entry."""
    leader = nodes.await_followed()
    return leader, nodes.epoch(leader)
