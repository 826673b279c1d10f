"""Snapshots that must not be used or taken, what an archive lacks, what a learner held before."""

import shutil
from pathlib import Path

import msgspec
import pytest

import fencepost.quorum.snapshotter
from fencepost.quorum.image_marks import BAD, TRUST
from fencepost.quorum.messages import SnapshotAck, SnapshotBegin
from fencepost.quorum.opened_store import open_store
from fencepost.records.types import Log, LogIndex, NodeId, Offset
from fencepost.snapshots import snapshot
from fencepost.snapshots.segments import ArchiveReader, Hole
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.transfers import advance

INTERVAL = 5


@pytest.fixture
def led(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Node 1 leads; each node has a snapshot, and its journal begins there."""
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=INTERVAL)
    rig.elect(1)
    rig.register(1)
    advance(rig, 1, INTERVAL)
    for node in (1, 2):
        rig.maintenance_tick(node)
    rig.work()
    return rig


def of_another_cluster(directory: Path) -> bytes:
    """A sound snapshot, ahead of all that this cluster has, of another one."""
    manifest = snapshot.read_manifest(directory)
    foreign = msgspec.structs.replace(manifest, cluster_id="another", raft_index=manifest.raft_index + 100)
    raw = snapshot.encode_manifest(foreign)
    (directory / "manifest").write_bytes(raw)
    return raw


def test_a_snapshot_of_another_cluster_is_refused_at_the_start(led: Rig) -> None:
    led.flush(2)
    applied = led[2].applied
    led.crash(2)
    (own,) = snapshot.listed(led.root / "node-2" / "snapshots")
    of_another_cluster(own)
    assert led.start(2).applied == applied
    assert not own.exists()
    assert own.with_name(f"{own.name}.refused").is_dir(), "its bytes are kept"


def test_a_snapshot_of_another_cluster_is_refused_when_it_is_offered(led: Rig) -> None:
    (own,) = snapshot.listed(led.root / "node-1" / "snapshots")
    raw = of_another_cluster(own)
    led.deliver(1, 2, SnapshotBegin(led[1].raft.term, own.name, raw))
    assert "of cluster another" in led.take(2, 1, SnapshotAck).refused
    assert not list((led.root / "node-2" / "snapshots").glob("*.received.part"))


def test_no_snapshot_is_taken_of_a_bad_image(led: Rig) -> None:
    led[2].watch.differs("a row changed")
    led[2].snapshotter.take(lambda _: None)
    led.jobs.clear()
    led.maintenance_tick(2)
    assert not led.jobs


def test_what_an_archive_lacks_is_a_named_hole_after_a_start(led: Rig) -> None:
    """Its files are gone, and the journal does not reach back to them."""
    led.flush(2)
    led.crash(2)
    folder = led.root / "node-2" / "archive" / Log.METADATA.directory
    shutil.rmtree(folder)
    started = led.start(2)
    end = started.image.header.log_end(Log.METADATA)
    assert ArchiveReader(folder).holes == (Hole(Offset(0), end),)


@pytest.mark.parametrize(("trusts", "stays"), [(False, False), (True, True)])
def test_the_mark_of_a_bad_image_goes_with_it(led: Rig, trusts: bool, stays: bool) -> None:
    """What is made again of snapshot and journal is another image; the operator's word is kept."""
    store = led[2].store
    led[2].watch.differs("a row changed")
    if trusts:
        store.meta_put(TRUST, msgspec.msgpack.encode(1))
    led.flush(2)
    key, value = next(iter(store.txn.cursor(db=store.image_db)))
    store.txn.put(bytes(key), bytes(value)[:-1] + b"\xff", db=store.image_db)
    store.dirty = True
    store.commit()
    led.crash(2)
    again = open_store(led.root / "node-2", sync=False, log=led[1].log)
    assert again.image.header.version == 0
    assert (again.meta_get(BAD) is not None) is stays
    again.abandon()


def test_what_a_learner_held_under_an_earlier_leader_is_forgotten(led: Rig) -> None:
    """Another leader may have cut it; it is readmitted for what it holds now."""
    led[1].firewall.learner_match[NodeId(3)] = LogIndex(99)
    led.elect(2)
    assert not led[1].firewall.learner_match
