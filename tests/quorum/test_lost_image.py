"""An image that was deleted is made again from snapshot and journal, or its node says why not."""

import shutil
from pathlib import Path

import lmdb
import pytest

import fencepost.quorum.replica
import fencepost.quorum.snapshotter
from fencepost.quorum.journal import Journal
from fencepost.quorum.replica import Replica
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import LogIndex, Term
from fencepost.snapshots.image import image_digest
from fencepost.snapshots.snapshot import listed, read_manifest
from fencepost.snapshots.store import ImageLost, Store
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig

INTERVAL = 5


def delete_image(directory: Path) -> None:
    env = lmdb.open(str(directory / "store"), max_dbs=8, map_size=1 << 40)
    with env.begin(write=True) as txn:
        txn.drop(env.open_db(b"image", txn=txn), delete=False)
    env.close()


@pytest.fixture
def led(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Node 1 leads, and has handed out some blocks."""
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=INTERVAL)
    rig.elect(1)
    rig.register(1)
    return rig


def advance(rig: Rig, entries: int) -> None:
    for _ in range(entries):
        rig.allocate(1)
        rig.turn(1)
        rig.flow()


def home(replica: Replica) -> Path:
    return replica.config.directory


def test_it_is_made_again_from_the_journal_alone(led: Rig) -> None:
    advance(led, 3)
    led.flush(2)
    led.crash(2)
    delete_image(led.root / "node-2")
    made = led.start(2)
    assert made.image.header.version == 0
    led.connect(2)
    led.heartbeat()
    led.flow()
    assert image_digest(made.store) == image_digest(led[1].store)


def test_it_is_made_again_from_a_snapshot_and_the_journal(led: Rig) -> None:
    advance(led, 2 * INTERVAL)
    for node in (1, 2):
        led.maintenance_tick(node)
    led.work()
    advance(led, 2)
    led.flush(2)
    assert led[2].journal.first_index > 1
    led.crash(2)
    delete_image(led.root / "node-2")
    made = led.start(2)
    assert made.image.header.version > 0, "the snapshot's"
    led.connect(2)
    led.heartbeat()
    led.flow()
    assert image_digest(made.store) == image_digest(led[1].store)


def test_without_a_snapshot_that_reaches_the_journal_the_node_says_so(led: Rig) -> None:
    advance(led, 2 * INTERVAL)
    for node in (1, 2):
        led.maintenance_tick(node)
    led.work()
    led.flush(2)
    led.crash(2)
    delete_image(led.root / "node-2")
    shutil.rmtree(led.root / "node-2" / "snapshots")
    with pytest.raises(ImageLost, match="format this node anew"):
        led.start(2)


def test_a_snapshot_older_than_the_journal_takes_nothing_of_it(led: Rig) -> None:
    """The newer one is gone, or was refused: what the node acknowledged is not to go with it."""
    for _ in range(2):
        advance(led, 2 * INTERVAL)
        for node in (1, 2):
            led.maintenance_tick(node)
        led.work()
    led.flush(2)
    newer, older = listed(led.root / "node-2" / "snapshots")
    first = led[2].journal.first_index
    assert read_manifest(older).raft_index < first
    led.crash(2)
    delete_image(led.root / "node-2")
    shutil.rmtree(newer)
    with pytest.raises(ImageLost, match=f"the journal begins at {first}"):
        led.start(2)
    journal = Journal(Store.open(led.root / "node-2" / "store", sync=False))
    assert journal.first_index == first
    assert journal.last_index > read_manifest(older).raft_index
    with pytest.raises(InvariantViolation, match="older than the journal"):
        journal.reset(LogIndex(first - 1), Term(1))


def test_an_image_that_is_there_is_kept(led: Rig) -> None:
    advance(led, 1)
    led.flush(2)
    version = led[2].image.header.version
    led.crash(2)
    assert led.start(2).image.header.version >= version > 0


def test_a_long_log_is_replayed_in_bounded_memory(led: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.replica, "ROWS_UNSAVED_MAX", 0)
    advance(led, INTERVAL - 2)
    led.flush(2)
    led.crash(2)
    delete_image(led.root / "node-2")
    made = led.start(2)
    led.connect(2)
    led.heartbeat()
    led.flow()
    assert made.store.image.rows_unsaved == 0
    assert image_digest(made.store) == image_digest(led[1].store)
