"""``storage repair`` on folders that were damaged by hand."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.broker.log.log_directory import LogDirectory
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.quorum.image_marks import BAD
from fencepost.records.batch_layout import LEADER_EPOCH_AT
from fencepost.snapshots.reader import read_store
from fencepost.snapshots.store import Store
from tests.broker.log.builders import NOW_MS, UNVERIFIED, append, batch
from tests.harness.command import contents, here

TOPIC_ID = UUID(int=7)
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return create_cluster(tmp_path / "c", 1, 9092)


def killed_log(cluster: LocalCluster, batches: int = 5) -> Path:
    """A partition's folder of node 1 that a killed process left; its segment."""
    folder = cluster.node(1).config.directory / "orders-0"
    log = PartitionLog.open(folder, UNVERIFIED, NOW_MS, TOPIC_ID)
    append(log, *(batch(7, number) for number in range(batches)))
    log._let_go()
    return folder / f"{0:020d}.log"


def words(cluster: LocalCluster, *more: object) -> list[object]:
    shared = ["storage", "repair", "--dir", cluster.directory, "--node", 1]
    return [*shared, "--partition", "orders-0", *more]


def test_a_damaged_log_is_shown_then_cut(cluster: LocalCluster, capsys: Capture) -> None:
    path = killed_log(cluster)
    raw = path.read_bytes()
    size = len(raw) // 5
    changed = raw[: 2 * size + 40] + bytes((raw[2 * size + 40] ^ 1,)) + raw[2 * size + 41 :]
    path.write_bytes(changed)
    shown = here(capsys, *words(cluster))
    assert shown.status == 1
    assert f"orders-0: damaged in {path.name} at position {2 * size} of {5 * size}, offset 2:" in shown.stdout
    assert "Sound before it: offsets 0 to 1." in shown.stdout
    assert f"would lose: {3 * size} bytes, among them 2 whole batches, offsets 3 to 4." in shown.stdout
    document = contents(here(capsys, *words(cluster, "--format", "json")).stdout)
    assert document["damage"]["next_whole_batch"] == {"position": 3 * size, "offset": 3}
    assert (document["end_offset"], document["repaired"]) == (2, False)
    assert path.read_bytes() == changed
    done = here(capsys, *words(cluster, "--accept-data-loss"))
    assert (done.status, path.read_bytes()) == (0, raw[: 2 * size])
    assert "The log ends at offset 2 now." in done.stdout
    assert "orders-0: sound, offsets 0 to 1 in 1 segments" in here(capsys, *words(cluster)).stdout


def test_a_leader_epoch_that_alone_changed_is_put_back(cluster: LocalCluster, capsys: Capture) -> None:
    """With either word; no record is lost, and a record that changed elsewhere is said then."""
    folder = cluster.node(1).config.directory / "orders-0"
    log = PartitionLog.open(folder, UNVERIFIED, NOW_MS, TOPIC_ID)
    append(log, *(batch(7, number) for number in range(5)))
    log.close()
    path = folder / f"{0:020d}.log"
    raw = path.read_bytes()
    size = len(raw) // 5
    changed = bytearray(raw)
    changed[2 * size + LEADER_EPOCH_AT + 3] = 6
    for word in ("--restore", "--accept-data-loss"):
        path.write_bytes(changed)
        shown = here(capsys, *words(cluster))
        place = f"{path.name} at position {2 * size}: leader_epoch 0, 6 was found"
        assert (shown.status, path.read_bytes()) == (1, bytes(changed))
        assert f"One field alone changed, by the segment's checksum: in {place}." in shown.stdout
        assert "with --restore puts it back, and nothing is lost." in shown.stdout
        assert "would lose" not in shown.stdout
        document = contents(here(capsys, *words(cluster, word, "--format", "json")).stdout)
        row = {
            "segment": path.name, "position": 2 * size, "field": "leader_epoch", "found": 6, "written": 0,
        }  # fmt: skip
        assert (document["restored"], document["repaired"], document["end_offset"]) == (row, True, 5)
        assert (document["damage"], document["restorable"]) == (None, None)
        assert path.read_bytes() == raw
    path.write_bytes(changed)
    done = here(capsys, *words(cluster, "--restore"))
    assert done.status == 0
    assert done.stdout.startswith(f"orders-0: put back in {place}\norders-0: sound, offsets 0 to 4")
    path.write_bytes(raw[:-1] + b"?")
    said = here(capsys, *words(cluster, "--restore"))
    assert (said.status, "would lose" in said.stdout) == (1, True), "nothing is proven, nothing is cut"


def test_a_torn_end_is_left_to_the_next_start(cluster: LocalCluster, capsys: Capture) -> None:
    path = killed_log(cluster)
    raw = path.read_bytes()
    path.write_bytes(raw[:-3])
    said = here(capsys, *words(cluster, "--accept-data-loss"))
    assert (said.status, path.read_bytes()) == (0, raw[:-3])
    assert "sound, offsets 0 to 3 in 1 segments\nTorn by a crash, cut at the next start: " in said.stdout


def test_a_log_is_found_in_whichever_log_directory_it_is(tmp_path: Path, capsys: Capture) -> None:
    cluster = create_cluster(tmp_path / "disks", 1, 9092, ("log.dirs=data,disk-b",))
    data, disk_b = cluster.node(1).config.log_directories
    killed_log(cluster)
    (data / "orders-0").rename(disk_b / "orders-0")
    document = contents(here(capsys, *words(cluster, "--format", "json")).stdout)
    assert (document["directory"], document["end_offset"]) == (str(disk_b / "orders-0"), 5)
    shutil.copytree(disk_b / "orders-0", data / "orders-0")
    several = here(capsys, *words(cluster))
    assert (several.status, "move one of the folders away" in several.stderr) == (2, True)


def test_refusals(cluster: LocalCluster, capsys: Capture) -> None:
    killed_log(cluster)
    lock = LogDirectory(cluster.node(1).config.directory)
    running = here(capsys, *words(cluster, "--accept-data-loss"))
    assert (running.status, "stop that one first" in running.stderr) == (1, True)
    lock.release()
    for name in ("orders-1", "archive", "../nodes", "orders-0/"):
        said = here(capsys, "storage", "repair", "--dir", cluster.directory, "--node", 1, "--partition", name)
        assert (said.status, "expected a folder with partition.metadata" in said.stderr) == (2, True), name
    unnamed = here(capsys, "storage", "repair", "--dir", cluster.directory, "--partition", "orders-0")
    assert (unnamed.status, "--node N of --dir, or --config FILE" in unnamed.stderr) == (2, True)


def test_whose_image_is_right_is_said_to_a_stopped_voter(tmp_path: Path, capsys: Capture) -> None:
    cluster = create_cluster(tmp_path / "three", 3, 9092)
    shared = ["storage", "repair", "--dir", cluster.directory, "--node", 1]
    assert here(capsys, *shared, "--trust", 2).status == 3, "it never started"
    root = cluster.node(1).config.directory
    store = Store.open(root / "store")
    in_use = here(capsys, *shared, "--trust", 2)
    assert in_use.status == 1
    assert "open in another process" in in_use.stderr
    store.close()
    said = here(capsys, *shared, "--trust", 2)
    assert (said.status, "takes that of node 2" in said.stdout) == (0, True)
    with read_store(root / "store") as reader:
        assert reader.meta_get(BAD) is not None
    assert contents(here(capsys, *shared, "--trust", 1, "--format", "json").stdout) == {
        "node_id": 1,
        "trusts": 1,
    }
    with read_store(root / "store") as reader:
        assert reader.meta_get(BAD) is None
    assert here(capsys, *shared, "--trust", 9).status == 2
    assert here(capsys, *shared, "--trust", 2, "--partition", "orders-0").status == 2
    assert here(capsys, *shared).status == 2
