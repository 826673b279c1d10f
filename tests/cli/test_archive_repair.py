"""``storage repair --archive`` on the archives of stopped nodes, and the scrub that finds what it repairs."""

import asyncio
from pathlib import Path

import pytest
import structlog

from fencepost.cli.storage_verify import NO_START
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.node.archive_scrub import ArchiveScrub
from fencepost.records.batch_layout import LEADER_EPOCH_AT
from fencepost.records.types import Log, Offset
from fencepost.snapshots.archive_scrub import HOLES_REMEDY
from fencepost.snapshots.checksums import sums_path
from fencepost.snapshots.segments import HOLES_FILE, Hole, load_holes
from fencepost.snapshots.store import Store
from tests.harness.command import contents, here
from tests.snapshots.archives import BATCH_BYTES, flip, segment
from tests.snapshots.test_archive_sums import written

Capture = pytest.CaptureFixture[str]
BASE = 3


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    """Nodes 1 and 2 have the same archive; a byte of node 1's changed."""
    made = create_cluster(tmp_path / "c", 3, 9092)
    for node in (1, 2):
        written(root(made, node), cluster=made.cluster_id).close()
    flip(segment(root(made, 1), BASE), 2 * BATCH_BYTES + LEADER_EPOCH_AT + 3)
    return made


def root(cluster: LocalCluster, node: int) -> Path:
    return cluster.node(node).config.directory / "archive"


def words(cluster: LocalCluster, *more: object) -> list[object]:
    return ["storage", "repair", "--dir", cluster.directory, "--node", 1, "--archive", *more]


def test_ids_that_were_given_out_are_listed_from_the_other_nodes(
    cluster: LocalCluster, capsys: Capture
) -> None:
    listed = here(capsys, "producer-ids", "history", "--dir", cluster.directory, "--format", "json")
    assert listed.status == 3
    assert f"{BASE:020d}.log: other bytes than were written" in listed.stderr
    assert here(capsys, *words(cluster)).status == 0
    whole = here(capsys, "producer-ids", "history", "--dir", cluster.directory, "--format", "json")
    assert (whole.status, whole.stdout) == (0, listed.stdout)


def test_a_local_clusters_other_nodes_have_it(cluster: LocalCluster, capsys: Capture) -> None:
    verified = here(capsys, "storage", "verify", "--dir", cluster.directory, "--node", 1)
    assert verified.status == 1
    assert f"{BASE:020d}.log: other bytes than were written" in verified.stdout
    done = here(capsys, *words(cluster))
    assert done.status == 0
    taken = root(cluster, 2) / Log.METADATA.directory
    assert f"__cluster_metadata-0, from offset {BASE}: other bytes than were written" in done.stdout
    assert f"Taken from {taken}." in done.stdout
    assert "node 1: all archives are sound" in here(capsys, *words(cluster)).stdout
    assert here(capsys, "storage", "verify", "--dir", cluster.directory, "--node", 1).status == 0


def without_its_start(tmp_path: Path, *settings: str) -> LocalCluster:
    """Nodes 1 and 2 have the same archive, but for node 1's first segment."""
    made = create_cluster(tmp_path / "c", 3, 9092, settings)
    for node in (1, 2):
        written(root(made, node), cluster=made.cluster_id).close()
    segment(root(made, 1), 0).unlink()
    return made


def test_an_archive_whose_first_segment_is_gone_gets_it_back(tmp_path: Path, capsys: Capture) -> None:
    made = without_its_start(tmp_path)
    verified = here(capsys, "storage", "verify", "--dir", made.directory, "--node", 1)
    assert (verified.status, NO_START in verified.stdout) == (0, True)
    done = here(capsys, *words(made))
    assert done.status == 0
    assert "__cluster_metadata-0, from offset 0: offsets 0 to 2 are gone. Taken from" in done.stdout
    assert contents_of(made, 1) == contents_of(made, 2)
    assert NO_START not in here(capsys, "storage", "verify", "--dir", made.directory, "--node", 1).stdout


def contents_of(cluster: LocalCluster, node: int) -> dict[str, bytes]:
    folder = root(cluster, node) / Log.METADATA.directory
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_a_start_that_no_node_has_becomes_a_named_hole(tmp_path: Path, capsys: Capture) -> None:
    made = without_its_start(tmp_path)
    config = made.node(1).directory / "node.properties"
    alone = ["storage", "repair", "--config", config, "--archive", "--accept-data-loss"]
    assert here(capsys, *alone).status == 0
    assert load_holes(root(made, 1) / Log.METADATA.directory) == (Hole(Offset(0), Offset(BASE)),)
    assert NO_START not in here(capsys, "storage", "verify", "--dir", made.directory, "--node", 1).stdout
    assert "all archives are sound" in here(capsys, *alone).stdout


def test_where_retention_is_set_it_may_have_deleted_the_first_segment(
    tmp_path: Path, capsys: Capture
) -> None:
    made = without_its_start(tmp_path, "log.retention.metadata.bytes=1000000")
    assert NO_START not in here(capsys, "storage", "verify", "--dir", made.directory, "--node", 1).stdout
    assert "node 1: all archives are sound" in here(capsys, *words(made)).stdout


def test_what_no_node_has_is_given_up_at_a_word(
    cluster: LocalCluster, capsys: Capture, tmp_path: Path
) -> None:
    config = cluster.node(1).directory / "node.properties"
    alone = ["storage", "repair", "--config", config, "--archive"]
    shown = here(capsys, *alone)
    assert (shown.status, "Try --from DIRECTORY of another node; --accept" in shown.stdout) == (1, True)
    document = contents(here(capsys, *alone, "--accept-data-loss", "--format", "json").stdout)
    (found,) = document["archives"]
    assert (found["first_offset"], found["taken_from"], found["given_up"]) == (BASE, None, True)
    assert "all archives are sound" in here(capsys, *alone).stdout


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (("--partition", "orders-0"), "--trust NODE, or --archive"),
        (("--from", "nowhere"), "nowhere has no folder archive"),
    ],
)
def test_wrong_words(cluster: LocalCluster, capsys: Capture, more: tuple[str, ...], expected: str) -> None:
    refused = here(capsys, *words(cluster, *more))
    assert refused.status == 2
    assert expected in refused.stderr


def test_not_while_the_node_runs(cluster: LocalCluster, capsys: Capture) -> None:
    store = Store.open(cluster.node(1).config.directory / "store")
    try:
        refused = here(capsys, *words(cluster))
    finally:
        store.close()
    assert refused.status == 1
    assert "is open in another process" in refused.stderr


def test_a_running_node_names_it(cluster: LocalCluster) -> None:
    async def story() -> None:
        for node in (1, 2):
            scrub = ArchiveScrub(root(cluster, node), cluster.cluster_id, log=structlog.get_logger())
            await scrub.scrub_once()

    with structlog.testing.capture_logs() as logged:
        asyncio.run(story())
    damaged, first, second = logged
    assert (damaged["event"], damaged["log_level"]) == ("archive_damaged", "error")
    assert f"{BASE:020d}.log: other bytes than were written" in damaged["reason"]
    assert "fencepost storage repair --archive" in damaged["next"]
    assert (first["segments"], second["segments"]) == (2, 3)


def test_changed_holes_are_named_by_verify_repair_and_the_scrub(tmp_path: Path, capsys: Capture) -> None:
    made = create_cluster(tmp_path / "c", 1, 9092)
    archive = written(root(made, 1), cluster=made.cluster_id)
    archive.start_at(Offset(archive.end + 100))
    archive.close()
    path = root(made, 1) / Log.METADATA.directory / HOLES_FILE
    path.write_bytes(path.read_bytes().replace(b"]]", b"9]]"))
    verified = here(capsys, "storage", "verify", "--dir", made.directory)
    assert verified.status == 1
    assert f"{path}: other bytes than were written" in verified.stdout
    refused = here(capsys, *words(made))
    assert refused.status == 1
    assert f"{path}: other bytes than were written" in refused.stderr
    assert "A start makes a holes.json that cannot be read again" in refused.stderr

    async def story() -> None:
        await ArchiveScrub(root(made, 1), made.cluster_id, log=structlog.get_logger()).scrub_once()

    with structlog.testing.capture_logs() as logged:
        asyncio.run(story())
    damaged, done = logged
    assert (damaged["event"], damaged["next"]) == ("archive_damaged", HOLES_REMEDY)
    assert f"{path}: other bytes than were written" in damaged["reason"]
    assert done["segments"] == 4, "the segments are compared all the same"


def test_a_node_that_ends_does_not_wait_for_the_round(cluster: LocalCluster) -> None:
    async def story() -> None:
        scrub = ArchiveScrub(root(cluster, 1), cluster.cluster_id, log=structlog.get_logger())
        await scrub.stop()
        await scrub.start()
        await scrub.stop()

    asyncio.run(story())


def test_sums_that_changed_are_named_and_made_again(cluster: LocalCluster, capsys: Capture) -> None:
    path = sums_path(segment(root(cluster, 2), BASE))
    before = path.read_bytes()
    path.write_bytes(before[:20] + bytes((before[20] ^ 1,)) + before[21:])
    verified = here(capsys, "storage", "verify", "--dir", cluster.directory, "--node", "2")
    assert verified.status == 0
    assert f"{path.name}: torn, or changed" in verified.stdout

    async def story() -> None:
        scrub = ArchiveScrub(root(cluster, 2), cluster.cluster_id, log=structlog.get_logger())
        for _ in range(2):
            await scrub.scrub_once()

    with structlog.testing.capture_logs() as logged:
        asyncio.run(story())
    named, *rounds = logged
    assert (named["event"], named["log_level"]) == ("archive_sums_changed", "warning")
    assert f"{path.name}: torn, or changed" in named["reason"]
    assert [each["event"] for each in rounds] == ["archive_scrubbed"] * 2
    assert path.read_bytes() == before
