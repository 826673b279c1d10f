"""Kafka's rules on the archive of ``__consumer_offsets-0``, or a snapshot and it, give the live offsets."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from fencepost.controller.groups import offset_tables
from fencepost.controller.groups.offset_tables import KeptOffset
from fencepost.records.types import Log
from fencepost.snapshots import snapshot
from fencepost.snapshots.segments import ArchiveReader
from tests.clients.offsets_archive import Expected, archive, expected_of, live, offsets_of, world
from tests.clients.offsets_world import CHECK, COMMITTED, PENDING, World
from tests.controller.groups.kafka_offsets import Committed, KafkaOffsets
from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for

pytestmark = pytest.mark.slow

WIDE = 400  # partitions
METADATA = "m" * 4000
COMMITS_MAX = 120  # of all partitions, 1.6 MB each: a segment of the archive has 64 MiB
CUT = ("log.retention.offsets.bytes=1000000", "snapshot.entries.interval=30")
AHEAD_MAX = 8_000  # records behind the newest snapshot: less than half a segment, so that only one is cut


def read(reader: ArchiveReader, replayed: KafkaOffsets, first: int = 0) -> KafkaOffsets:
    for batch in reader.read():
        if batch.header.base_offset >= first:
            replayed.read([batch.content], int(batch.header.base_offset))
    return replayed


def of_world(made: World) -> Expected:
    """What the world says that it did."""
    committed = {
        (made.group(shape), made.name, index): offset
        for shape, offsets in COMMITTED.items()
        for index, offset in offsets.items()
    }
    waiting = {(made.group(shape), made.name, index) for shape, ends in PENDING.items() for index in ends}
    return committed, frozenset(waiting)


def test_every_archive_replayed_by_kafkas_rules_gives_the_live_offsets(tmp_path: Path) -> None:
    """Killed -9 in between: what it refills from its journal is what the others have."""
    with world(tmp_path) as (cluster, made):
        seen = live(cluster)
        assert expected_of(seen.committed, seen.waiting) == of_world(made)
        for node_id in cluster.node_ids:
            copy = archive(cluster, node_id, tmp_path / f"copy-{node_id}")
            replayed = read(ArchiveReader(copy), KafkaOffsets())
            assert offsets_of(replayed) == (seen.committed, seen.waiting), f"node {node_id}"


def test_a_snapshot_and_the_archive_behind_it_give_the_live_offsets(tmp_path: Path) -> None:
    """The archive was cut: the snapshot alone has most offsets, and a pending one whose marker follows."""
    with running(tmp_path / "cluster", CHECK, NO_QUOTA, *CUT, count=1) as cluster:
        before = World(cluster, "archived")
        try:
            commit_much(cluster)
            (newest, *_) = snapshot.listed(cluster.home(1) / "snapshots")
            manifest, replayed = taken(Path(shutil.copytree(newest, tmp_path / newest.name)))
            before.commit_open()
            after = World(cluster, "after")
            try:
                first = manifest.log_ends[Log.CONSUMER_OFFSETS]
                copy = archive(cluster, 1, tmp_path / "copy")
                kept = ArchiveReader(copy)
                assert 0 < kept.start <= first, "nothing was cut, or too much"
                found = offsets_of(read(kept, replayed, first))
                seen, of_after = live(cluster), live(cluster, after.name)
                assert found == (seen.committed, of_after.waiting)
            finally:
                after.close()
        finally:
            before.close()


def commit_much(cluster: Nodes) -> None:
    """Offsets that fill a segment of the archive, until a snapshot lets the node delete it."""
    log = cluster.home(1) / "archive" / Log.CONSUMER_OFFSETS.directory
    cluster.run("topics", "create", "--topic", "wide", "--partitions", WIDE)
    reader: Any = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "wide"})
    for number in range(COMMITS_MAX):
        if ArchiveReader(log).start > 0:
            break
        offsets = [TopicPartition("wide", each, number, metadata=METADATA) for each in range(WIDE)]
        reader.commit(offsets=offsets, asynchronous=False)
        ahead_of = (number + 1) * WIDE - AHEAD_MAX
        wait_for("a snapshot of what was committed", partial(is_snapshot_past, cluster, ahead_of))
    reader.close()


def is_snapshot_past(cluster: Nodes, offset: int) -> bool:
    """The newest snapshot has the log of offsets up to ``offset``."""
    found = snapshot.listed(cluster.home(1) / "snapshots")
    try:
        return offset <= 0 or (
            bool(found) and snapshot.read_manifest(found[0]).log_ends[Log.CONSUMER_OFFSETS] >= offset
        )
    except snapshot.CorruptSnapshot:  # removed since it was listed: newer ones are there
        return False


def taken(directory: Path) -> tuple[snapshot.Manifest, KafkaOffsets]:
    """What a snapshot holds of offsets, each at the offset of its own record."""
    manifest, rows = snapshot.load(directory)
    found = KafkaOffsets()
    for table, raw_key, raw_value in rows:
        if table == offset_tables.OFFSETS.name:
            key = offset_tables.OFFSETS.decode_key(raw_key)
            found.committed[key] = kept_of(offset_tables.OFFSETS.decode_value(raw_value))
        elif table == offset_tables.PENDING.name:
            producer_id, key = offset_tables.PENDING.decode_key(raw_key)
            row = kept_of(offset_tables.PENDING.decode_value(raw_value))
            found.pending.setdefault(producer_id, {})[key] = row
    return manifest, found


def kept_of(row: KeptOffset) -> tuple[int, Committed]:
    return row.record_offset, Committed(row.offset, row.leader_epoch, row.metadata, row.committed_ms)
