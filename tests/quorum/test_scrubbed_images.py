"""Rows that change in a running node's store: the scrub finds them, and no snapshot is made of them."""

import re
from typing import Any

import lmdb
import msgspec
import pytest

import fencepost.quorum.image_watch
import fencepost.snapshots.digests
from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.records.invariant import CorruptData
from fencepost.records.types import ProducerId
from fencepost.snapshots.rows import row_key
from fencepost.snapshots.sums import SealBroken
from tests.quorum.conftest import MakeRig
from tests.quorum.image_rig import EVERY, advance, bad, heal, same_images
from tests.quorum.rig import Rig


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, make_rig: MakeRig) -> Rig:
    """Three voters of which node 1 leads."""
    monkeypatch.setattr(fencepost.snapshots.digests, "DIGEST_EVERY", EVERY)
    rig = make_rig(3)
    rig.elect(1)
    rig.register(1)
    return rig


def change_stored(rig: Rig, node: int) -> None:
    """Bytes of a saved row change in a running node's store; its copy in memory does not."""
    rig.flush(node)
    store = rig[node].store
    at = row_key(store.generation, PRODUCER_IDS.name, PRODUCER_IDS.encode_key(0))
    row = PRODUCER_IDS.decode_value(bytes(store.txn.get(at, db=store.image_db) or b""))
    changed = msgspec.structs.replace(row, end=ProducerId(0))
    store.txn.put(at, PRODUCER_IDS.encode_value(changed), db=store.image_db)
    store.dirty = True


@pytest.mark.parametrize("node", [1, 3])
def test_a_row_that_changes_in_the_store_is_found_by_the_scrub(rig: Rig, node: int) -> None:
    advance(rig, 1, EVERY)
    change_stored(rig, node)
    rig.maintenance_tick(node)
    rig.maintenance_tick(node)
    assert bad(rig) == {node}
    if node == 1:
        assert not rig[1].raft.is_leader
        rig.wait(1.0)
        rig.elect(2, 3)
        advance(rig, 2, EVERY)
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)


def test_the_only_voter_ends_when_its_store_changed_and_makes_its_image_again(make_rig: MakeRig) -> None:
    rig = make_rig(1)
    rig.elect(1)
    rig.register(1)
    answers = advance(rig, 1, 2)
    change_stored(rig, 1)
    with pytest.raises(CorruptData, match="a start makes the image again"):
        rig.maintain(1)
    rig.crash(1)
    rig.start(1)
    rig.elect(1)
    again = advance(rig, 1)
    assert [answer.first for answer in (*answers.all, *again.all)] == [0, 1000, 2000]


def test_a_snapshot_is_not_made_of_rows_that_changed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.image_watch, "SCRUB_ROWS", 1)  # it is not the first to see it
    advance(rig, 1, EVERY)
    change_stored(rig, 3)
    taken: list[Any] = []
    rig[3].snapshotter.take(taken.append)
    rig.maintenance_tick(3)
    with pytest.raises(SealBroken) as found:
        rig.jobs[0][1].task.run()
    rig.work(found.value)
    assert taken == [found.value]
    assert bad(rig) == {3}


def test_a_store_that_cannot_be_read_by_the_scrub_is_named(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node ends: what else of it cannot be read is not known."""
    store = rig[2].store
    path = store.env.path()

    def unread(*_: object) -> None:
        raise lmdb.DiskError("mdb_cursor_get: Input/output error")

    monkeypatch.setattr(store.scrub, "step", unread)
    with pytest.raises(lmdb.DiskError, match=re.escape(f"{path}/data.mdb: mdb_cursor_get: Input/output")):
        rig.maintenance_tick(2)
