"""The commands in order, out of order and again, on real nodes and a real ZooKeeper; and back."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.live import walk
from tests.harness.command import fencepost, stdout_of
from tests.harness.nodes import Nodes, wait_for
from tests.ports import free_port
from tests.upgrade.kafka_2_8 import registered
from tests.upgrade.world import (
    CLUSTER_ID,
    Askers,
    OldBrokers,
    blocks_in_log,
    first_of_new_era,
    make_kafkas_znodes,
    nodes_own_blocks,
    outside,
    require_no_overlap,
    upgrading,
    znode,
)
from tests.zookeeper.rival import EXHAUSTED_STATUS, PATH, read_history
from tests.zookeeper.servers import Ensemble, ensemble

pytestmark = pytest.mark.slow

REFUSED = 1


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Ensemble]:
    with ensemble(tmp_path / "zookeeper") as group:
        yield group


def status(nodes: Nodes) -> Any:
    return nodes.read("migrate", "status")


@pytest.mark.row("730.11")
@pytest.mark.row("730.12")
@pytest.mark.row("card.6")
def test_every_phase_in_order_and_twice_with_old_brokers_at_full_speed(
    servers: Ensemble, tmp_path: Path
) -> None:
    make_kafkas_znodes(servers)
    with (
        OldBrokers(servers.connect_string, tmp_path, 2) as old,
        upgrading(tmp_path / "cluster", servers.connect_string) as nodes,
    ):
        before = status(nodes)
        assert (before["phase"], before["next_command"], before["fence"]) == ("waiting", "bridge", None)
        for early in ("import", "fence", "finalize", "rollback"):
            nodes.run("migrate", early, status=REFUSED)
        nodes.read("migrate", "bridge", "--dry-run")
        assert status(nodes)["phase"] == "waiting"
        for _ in range(2):
            nodes.read("migrate", "bridge")
        with Askers(nodes.cluster, 2) as askers:
            wait_for("blocks through the bridge", lambda: len(askers.blocks) > 5)
            assert not any("does not allocate" in refusal for refusal in askers.refusals)
            for _ in range(2):
                nodes.read("migrate", "import")
            nodes.read("migrate", "fence", "--dry-run")
            assert status(nodes)["phase"] == "imported"
            for _ in range(2):
                nodes.read("migrate", "fence")
            after = status(nodes)
            assert (after["phase"], after["blocking"], after["zookeeper"]["is_fenced"]) == (
                "quorum",
                [],
                True,
            )
            assert set(old.await_ended().values()) == {EXHAUSTED_STATUS}
            in_new_era = len(askers.blocks)
            wait_for("blocks from the quorum", lambda: len(askers.blocks) > in_new_era + 5)
        for _ in range(2):
            nodes.read("migrate", "finalize")
        nodes.run("migrate", "rollback", status=REFUSED)
        own = nodes_own_blocks(nodes)
        assert require_no_overlap(old.blocks(), askers.blocks, own) > 0
        end = after["fence"]["block_end"]
        assert first_of_new_era(end, blocks_in_log(nodes), askers.blocks) == end + 1
        assert all(block.last <= end for block in old.blocks())


@pytest.mark.row("730.12")
def test_after_a_rollback_old_brokers_go_on_above_every_id_we_gave_out(
    servers: Ensemble, tmp_path: Path
) -> None:
    make_kafkas_znodes(servers)
    old = OldBrokers(servers.connect_string, tmp_path, 2)
    with old, upgrading(tmp_path / "cluster", servers.connect_string) as nodes:
        wait_for("blocks of old brokers", lambda: len(old.blocks()) > 20)
        for command in ("bridge", "import", "fence"):
            nodes.run("migrate", command)
        assert set(old.await_ended().values()) == {EXHAUSTED_STATUS}
        fenced = len(old.blocks())
        old.start()  # an old broker that starts now is refused at once
        assert set(old.await_ended().values()) == {EXHAUSTED_STATUS}
        assert len(old.blocks()) == fenced
        assert [read_history(each)[-1]["event"] for each in old.histories.values()] == ["exhausted"] * 2
        with Askers(nodes.cluster, 2) as askers:
            wait_for("blocks from the quorum", lambda: len(askers.blocks) > 20)
            fence = status(nodes)["fence"]
            nodes.read("migrate", "rollback", "--dry-run")
            assert status(nodes)["phase"] == "quorum"
            rolled_back_ns = time.monotonic_ns()
            for _ in range(2):
                nodes.read("migrate", "rollback")
            assert status(nodes)["phase"] == "bridge"
            by_quorum = [block for block in list(askers.blocks) if block.first > fence["block_end"]]
            old.start()
            wait_for("old brokers take blocks again", lambda: len(old.blocks()) > fenced + 20)
            both = len(askers.blocks)
            wait_for("and so do ours", lambda: len(askers.blocks) > both + 2)
            for command in ("import", "fence"):
                nodes.run("migrate", command)
            assert set(old.await_ended().values()) == {EXHAUSTED_STATUS}
        again = [block.first for block in old.blocks() if block.first > fence["block_end"]]
        assert again
        before = min(block.at_ns for block in old.blocks() if block.first > fence["block_end"])
        assert min(again) > max(block.last for block in by_quorum if block.at_ns < rolled_back_ns < before)
        require_no_overlap(old.blocks(), askers.blocks, nodes_own_blocks(nodes))


@pytest.mark.row("730.14")
@pytest.mark.row("card.6")
def test_preflight_says_what_the_fence_does_to_each_broker_and_changes_nothing(
    servers: Ensemble, tmp_path: Path
) -> None:
    make_kafkas_znodes(servers, "/kafka", b'{"version":1,"broker":7,"block_start":"0","block_end":"999"}')
    connect = f"{servers.connect_string}/kafka"
    brokers = {1: (free_port(), "2.8-IV1"), 2: (free_port(), "3.9-IV0"), 3: (free_port(), None)}
    with outside(servers) as client, registered(client, brokers, "/kafka"):
        kept = walk(client)
        where = ("migrate", "preflight", "--zookeeper", connect, "--dir", str(tmp_path / "none"))
        with OldBrokers(connect, tmp_path, 1, "--blocks", "1000000") as old:
            wait_for("an old broker takes blocks", lambda: len(old.blocks()) > 5)
            found = json.loads(stdout_of(fencepost(*where, "--format", "json"), REFUSED))
        assert (found["verdict"], found["ensemble"].partition("@")[0]) == ("cuts-off", CLUSTER_ID)
        assert [
            (each["broker_id"], each["protocol"], each["asks_controller"], each["starts_again"])
            for each in found["brokers"]
        ] == [(1, "2.8-IV1", False, False), (2, "3.9-IV0", True, True), (3, None, None, None)]
        assert "is not known from the broker" in found["brokers"][2]["reasons"][0]
        assert found["blocks_seen"]["101"] > 0
        assert any("broker 101, not registered" in remark for remark in found["remarks"])
        assert found["write_permission"] == "not proved"
        now = walk(client)
        assert {path: each for path, each in now.items() if path != f"/kafka{PATH}"} == {
            path: each for path, each in kept.items() if path != f"/kafka{PATH}"
        }
        assert znode(servers, "/kafka")[1] >= len(old.blocks())
        for broker_id in brokers:
            client.delete(f"/kafka/brokers/ids/{broker_id}")
        calm = json.loads(stdout_of(fencepost(*where, "--watch", "0.3", "--format", "json")))
        assert calm["verdict"] == "ready"
        assert calm["zk_version"] == znode(servers, "/kafka")[1]
        client.create(
            "/kafka/migration",
            b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":4,'
            b'"kraft_metadata_offset":9,"kraft_metadata_epoch":1}',
        )
        blocked = json.loads(stdout_of(fencepost(*where, "--watch", "0.3", "--format", "json"), REFUSED))
        assert "Kafka's own migration" in blocked["blocking"][0]


@pytest.mark.parametrize(
    ("content", "versions", "command", "said"),
    [
        pytest.param(b"", 0, None, "", id="empty-as-kafka-makes-it"),
        pytest.param(None, 0, None, "", id="absent"),
        pytest.param(b"", 1, "bridge", "written before", id="wiped"),
        pytest.param(
            b'{"version":1,"broker":1,"block_start":"9223372036854774808","block_end":"9223372036854775807"}',
            0, "bridge", "no fence of this cluster explains it", id="at-the-end-of-the-ids",
        ),
    ],
)  # fmt: skip
@pytest.mark.row("card.6")
def test_an_odd_znode_is_handled_or_explained(
    servers: Ensemble, tmp_path: Path, content: bytes | None, versions: int, command: str | None, said: str
) -> None:
    make_kafkas_znodes(servers, block=content)
    with outside(servers) as client:
        if content is None:
            client.delete(PATH)
        for _ in range(versions):
            client.set(PATH, content)
    with upgrading(tmp_path / "cluster", servers.connect_string, count=1) as nodes:
        if command is not None:
            kept = znode(servers)
            assert any(said in reason for reason in status(nodes)["blocking"])
            nodes.run("migrate", command, status=REFUSED)
            assert (status(nodes)["phase"], znode(servers)) == ("waiting", kept)
            return
        assert "--no-block-yet" in " ".join(status(nodes)["ways"])
        nodes.run("migrate", "bridge", status=REFUSED)
        for each in (
            "bridge",
            "import",
            "fence",
        ):  # the nodes' own brokers may take the first block meanwhile
            nodes.run("migrate", each, "--no-block-yet")
        nodes.run("migrate", "finalize")
        after = status(nodes)
        (block,) = nodes.read("producer-ids", "allocate")
        assert block["start"] >= after["floor"] == after["fence"]["block_end"] + 1


@pytest.mark.row("card.6")
def test_an_exhausted_znode_that_appears_before_the_fence_is_not_taken_for_ours(
    servers: Ensemble, tmp_path: Path
) -> None:
    make_kafkas_znodes(servers)
    with upgrading(tmp_path / "cluster", servers.connect_string, count=1) as nodes:
        for each in ("bridge", "import"):
            nodes.run("migrate", each)
        with outside(servers) as client:
            client.set(
                PATH,
                b'{"version":1,"broker":1,"block_start":"9223372036854774808",'
                b'"block_end":"9223372036854775807"}',
            )
        nodes.run("migrate", "fence", status=REFUSED)
        after = status(nodes)
        assert after["phase"] == "imported"
        assert "no fence of this cluster explains it" in after["blocking"][0]
