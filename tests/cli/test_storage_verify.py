"""``storage verify``: a directory of every part, sound; then one byte of each part is another."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from fencepost.broker.hosted_logs import HostedLog, HostedLogs
from fencepost.broker.log.checkpoints import save_topic_id
from fencepost.broker.log.log_directory import LogDirectory
from fencepost.broker.log.log_starts import COPY, LOG_STARTS, LogStarts
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.cli import storage_verify
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.controller.producer_ids import PRODUCER_IDS, ProducerIds
from fencepost.controller.view import ImageHeader
from fencepost.quorum.journal import NO_OP, Journal
from fencepost.quorum.opened_store import own
from fencepost.quorum.store_starts import STARTS_FILE
from fencepost.records.types import (
    BrokerEpoch,
    BrokerId,
    ImageVersion,
    LogIndex,
    NodeId,
    Offset,
    ProducerId,
    Term,
)
from fencepost.settings.meta_properties import read_properties, write_properties
from fencepost.settings.node_clock import NodeClock
from fencepost.settings.node_identity import id_text, read_identity, remember_store
from fencepost.snapshots.reader import APPLIED
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import SEAL
from tests.broker.log.builders import NOW_MS, UNVERIFIED, append, batch
from tests.harness.command import here
from tests.snapshots.archives import filled

Capture = pytest.CaptureFixture[str]
COMMAND = b"an entry that is in no image"


@pytest.fixture
def cluster(tmp_path: Path, capsys: Capture) -> LocalCluster:
    """One node, stopped, of which every part is there."""
    made = create_cluster(tmp_path / "c", 1, 9092)
    home = made.node(1).config.directory
    store = Store.open(home / "store")
    store.verify_image()
    journal = Journal(store)
    journal.add(NO_OP + COMMAND, 2, 1)
    block = ProducerIds(BrokerId(1), BrokerEpoch(7), ProducerId(0x3A98), ProducerId(0x3E80))
    store.image.put(PRODUCER_IDS, 0, block)
    store.image.header = ImageHeader(ImageVersion(8), Term(1), NodeId(1), (4, 0, 0))
    store.meta_put(APPLIED, msgspec.msgpack.encode((LogIndex(1), Term(0))))
    store.flush()
    store.close()
    filled(home / "archive", 4, cluster=made.cluster_id).close()
    NodeClock(home).look()
    locked(home)
    log = PartitionLog.open(home / "orders-0", UNVERIFIED, NOW_MS, UUID(int=7))
    append(log, *(batch(7, number) for number in range(5)))
    log.close()
    starts = LogStarts(home)
    starts.load(("orders-0",))
    starts.raise_to({"orders-0": Offset(3)})
    assert here(capsys, "snapshot", "create", "--dir", made.directory).status == 0
    return made


def locked(root: Path) -> None:
    """As a node leaves it that ended since the machine started."""
    lock = LogDirectory(root)
    lock.remember()
    lock.release()


def report(cluster: LocalCluster, capsys: Capture, status: int) -> dict[str, Any]:
    said = here(capsys, "storage", "verify", "--dir", cluster.directory, "--format", "json")
    assert said.status == status, said
    (node,) = json.loads(said.stdout)["nodes"]
    return dict(node)


def test_every_part_of_a_sound_directory_is_named(cluster: LocalCluster, capsys: Capture) -> None:
    home = cluster.node(1).config.directory
    before = {
        file: file.read_bytes() for file in home.rglob("*") if file.is_file() and file.name != "lock.mdb"
    }
    node = report(cluster, capsys, 0)
    assert node["sound"]
    parts = [part["part"] for part in node["parts"]]
    assert parts == ["identity", "clock", "store", "archive", "snapshot", "starts", "partition"]
    assert all(before.get(file, raw) == file.read_bytes() for file, raw in before.items()), (
        "nothing is changed"
    )
    text = here(capsys, "storage", "verify", "--dir", cluster.directory, "--node", 1).stdout
    assert text.startswith("node 1: 7 parts, all sound\n")
    assert "journal of entries 1 to 2" in text


def test_every_log_directory_is_read_and_lost_logs_are_named(tmp_path: Path, capsys: Capture) -> None:
    cluster = create_cluster(tmp_path / "c", 1, 9092, ("log.dirs=data,disk-b,disk-c",))
    config = cluster.node(1).config
    hosted = HostedLogs(config.directory)
    for index, root in enumerate(config.log_directories):
        locked(root)
        log = PartitionLog.open(root / f"orders-{index}", UNVERIFIED, NOW_MS, UUID(int=7))
        append(log, batch(7, 0))
        log.close()
        hosted.add((HostedLog("orders", index, UUID(int=7), read_identity(root).directory_id),))
    node = report(cluster, capsys, 0)
    disks = ["log dir", "partition"] * 2
    assert [part["part"] for part in node["parts"]] == ["identity", "hosted", "partition", *disks]

    _, disk_b, disk_c = config.log_directories
    flip(next(disk_b.glob("orders-1/*.log")), b"\x00\x00")
    shutil.rmtree(disk_c / "orders-2")
    damaged = [part for part in report(cluster, capsys, 1)["parts"] if not part["sound"]]
    assert [part["path"] for part in damaged] == [str(disk_b / "orders-1"), str(disk_c / "orders-2")]
    assert damaged[1]["reason"] == "lost: it is not there"

    save_topic_id(config.log_directories[0] / "orders-0", UUID(int=8))
    shutil.rmtree(disk_c)
    other, *damaged = [part for part in report(cluster, capsys, 1)["parts"] if not part["sound"]]
    says = f"says topic id {id_text(UUID(int=8))}, hosted-logs {id_text(UUID(int=7))}"
    assert other["reason"].endswith(says)
    assert [part["path"] for part in damaged][1:] == [str(disk_c), "orders-2"]
    assert "is not formatted" in damaged[1]["reason"]


def flip(file: Path, found: bytes) -> None:
    raw = bytearray(file.read_bytes())
    assert found in raw
    place = -1
    while (place := raw.find(found, place + 1)) >= 0:  # LMDB keeps old pages, too
        raw[place] ^= 1
    file.write_bytes(raw)


def in_the_middle(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)


def first(home: Path, pattern: str) -> Path:
    return min(home.glob(pattern))


DAMAGES = [
    pytest.param(lambda home: flip(home / "meta.properties", b"cluster.id"), "identity", id="identity"),
    pytest.param(lambda home: flip(home / "clock.json", b'ahead_ms":'), "clock", id="clock"),
    pytest.param(
        lambda home: flip(home / "store/data.mdb", b"\xcd\x3e\x80"), "store", id="a-row-of-the-image"
    ),
    pytest.param(lambda home: flip(home / "store/data.mdb", COMMAND), "store", id="an-entry-of-the-journal"),
    pytest.param(lambda home: in_the_middle(first(home, "archive/*/*.log")), "archive", id="archive"),
    pytest.param(lambda home: in_the_middle(first(home, "snapshots.*/*/state")), "snapshot", id="snapshot"),
    pytest.param(lambda home: in_the_middle(first(home, "orders-0/*.log")), "partition", id="partition"),
    pytest.param(lambda home: in_the_middle(first(home, "orders-0/*.snapshot")), "partition", id="producers"),
    pytest.param(
        lambda home: flip(home / "orders-0/partition.metadata", b"topic_id"), "partition", id="topic-id"
    ),
    pytest.param(lambda home: in_the_middle(home / LOG_STARTS), "starts", id="where-logs-begin"),
    pytest.param(lambda home: in_the_middle(home / COPY), "starts", id="its-copy"),
]


@pytest.mark.parametrize(("damage", "part"), DAMAGES)
def test_a_byte_that_changed_is_found_in_its_part(
    cluster: LocalCluster, capsys: Capture, damage: Callable[[Path], None], part: str
) -> None:
    home = cluster.node(1).config.directory
    for file in home.rglob("*.log"):
        file.chmod(0o644)
    damage(home)
    node = report(cluster, capsys, 1)
    assert [each["part"] for each in node["parts"] if not each["sound"]] == [part]
    assert not node["sound"]
    text = here(capsys, "storage", "verify", "--dir", cluster.directory)
    assert (text.status, "1 damaged" in text.stdout) == (1, True)


def test_damage_of_a_partition_is_said_with_its_repair(cluster: LocalCluster, capsys: Capture) -> None:
    """And not only that bytes are not those that were written."""
    in_the_middle(first(cluster.node(1).config.directory, "orders-0/*.log"))
    (damaged,) = [each for each in report(cluster, capsys, 1)["parts"] if not each["sound"]]
    assert "'fencepost storage repair --partition orders-0'" in damaged["reason"]


def test_a_process_that_dies_of_a_broken_page_is_a_finding(
    cluster: LocalCluster, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_verify, "_store", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    node = report(cluster, capsys, 1)
    (damaged,) = [each for each in node["parts"] if not each["sound"]]
    assert f"died by signal {int(signal.SIGKILL)}" in damaged["reason"]


def _of_another_directory(home: Path) -> None:
    store = Store.open(home / "store")
    own(store, replace(read_identity(home), voter_id=UUID(int=9)))
    store.flush()
    store.close()


def _an_older_one(home: Path) -> None:
    shutil.rmtree(home / "archive")
    filled(home / "archive", 5, cluster=read_identity(home).cluster_id).close()


def _of_another_node(home: Path) -> None:
    write_properties(home, {**read_properties(home).pairs, "node.id": "2"})


@pytest.mark.parametrize(
    ("change", "part", "reason"),
    [
        (lambda home: shutil.rmtree(home / "store"), "store", "lost: data.mdb is missing or empty"),
        (lambda home: os.truncate(home / "store/data.mdb", 0), "store", "lost: data.mdb is missing or empty"),
        (_of_another_directory, "store", "not the store of this directory"),
        (_an_older_one, "store", "has batches up to offset 5, image and journal reach offset 4"),
        (_of_another_node, "identity", "belongs to node 2, but the configuration says node.id=1"),
    ],
    ids=["gone", "empty", "of another directory", "older than its archive", "identity of another node"],
)
def test_what_a_start_does_not_go_on_with_is_damage(
    cluster: LocalCluster, capsys: Capture, change: Callable[[Path], None], part: str, reason: str
) -> None:
    """Each part is sound by itself."""
    home = cluster.node(1).config.directory
    remember_store(home, read_identity(home))
    store = Store.open(home / "store")
    own(store, read_identity(home))
    store.flush()
    store.close()
    assert report(cluster, capsys, 0)["sound"]
    change(home)
    before = {file: file.read_bytes() for file in home.rglob("*.mdb") if file.name != "lock.mdb"}
    (damaged,) = [each for each in report(cluster, capsys, 1)["parts"] if not each["sound"]]
    assert damaged["part"] == part
    assert reason in damaged["reason"]
    assert all(file.read_bytes() == raw for file, raw in before.items()), "nothing is changed"


def test_a_changed_count_of_starts_is_said(cluster: LocalCluster, capsys: Capture) -> None:
    """The store is sound, and a start writes the count again."""
    (cluster.node(1).config.directory / STARTS_FILE).write_bytes(b"AAAAAAAAAAAAAAAAAAAAAA 7 00000000\n")
    (store,) = [part for part in report(cluster, capsys, 0)["parts"] if part["part"] == "store"]
    assert "store-starts is not as it was written" in store["reason"]


def test_no_byte_is_changed_though_the_store_has_no_seal(cluster: LocalCluster, capsys: Capture) -> None:
    """A start would write one."""
    home = cluster.node(1).config.directory
    store = Store.open(home / "store")
    store.meta_delete(SEAL)
    store._must_seal = False
    store.commit()
    store.close()
    before = (home / "store" / "data.mdb").read_bytes()
    found = report(cluster, capsys, 0)
    assert any("not sealed yet" in part["holds"] for part in found["parts"])
    assert (home / "store" / "data.mdb").read_bytes() == before


def test_without_a_lock_it_is_said_what_a_torn_end_may_be(cluster: LocalCluster, capsys: Capture) -> None:
    """Of a copy, for one. A file of sums that is torn is said, too; a start makes it again."""
    home = cluster.node(1).config.directory
    (sums,) = (home / "orders-0").glob("*.checksums")
    sums.write_bytes(sums.read_bytes()[:-1])
    (damaged,) = [each for each in report(cluster, capsys, 1)["parts"] if not each["sound"]]
    assert f"{sums.name} is not as it was written" in damaged["reason"]

    (home / ".lock").unlink()
    lock, partition = report(cluster, capsys, 0)["parts"][-2:]
    assert (lock["part"], lock["path"]) == ("lock", str(home / ".lock"))
    assert "here and at the next start" in lock["reason"]
    assert partition["reason"].startswith(f"{sums.name}: torn, or changed; what it said")
    assert not (home / ".lock").exists(), "nothing is changed"


def test_the_archive_of_another_cluster_is_damage(cluster: LocalCluster, capsys: Capture) -> None:
    """Whole, with its sums: each of its segments has the same owner."""
    home = cluster.node(1).config.directory
    shutil.rmtree(home / "archive")
    filled(home / "archive", 12).close()
    (damaged,) = [each for each in report(cluster, capsys, 1)["parts"] if not each["sound"]]
    assert damaged["part"] == "archive"
    assert "it is another cluster's, or another log's" in damaged["reason"]


def test_a_running_node_is_refused(cluster: LocalCluster, capsys: Capture) -> None:
    store = Store.open(cluster.node(1).config.directory / "store")
    said = here(capsys, "storage", "verify", "--dir", cluster.directory)
    store.close()
    assert (said.status, "open in another process" in said.stderr) == (1, True)


def test_a_directory_that_is_not_formatted_is_named(cluster: LocalCluster, capsys: Capture) -> None:
    home = cluster.node(1).config.directory
    (home / "meta.properties").unlink()
    said = here(capsys, "storage", "verify", "--dir", cluster.directory)
    assert (said.status, str(home) in said.stderr) == (3, True)
