"""Rows that change in a running node's store: the scrub finds them, and no snapshot is made of them."""

import re
from collections.abc import Callable
from typing import Any

import lmdb
import msgspec
import pytest

import fencepost.quorum.image_watch
import fencepost.snapshots.digests
from fencepost.controller.decision import Decision
from fencepost.controller.features import FEATURES
from fencepost.controller.producer_ids import PRODUCER_IDS, latest
from fencepost.quorum.port import Decide
from fencepost.records.invariant import CorruptData
from fencepost.records.schema import AllocateProducerIdsRecord, FeatureLevelRecord
from fencepost.records.types import BrokerEpoch, ProducerId
from fencepost.snapshots.rows import row_key
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import SealBroken
from tests.quorum.conftest import MakeRig
from tests.quorum.image_rig import (
    EVERY,
    advance,
    bad,
    heal,
    read,
    same_images,
    to_before_a_digest,
    version_of,
)
from tests.quorum.rig import BROKER, Rig


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


def change_unread(rig: Rig, node: int) -> None:
    """As ``change_stored``, of a row of which there is no copy in memory."""
    change_stored(rig, node)
    del rig[node].store.image._stored._cache[PRODUCER_IDS.name, 0]


def no_scrub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what is read shows that a row changed."""
    monkeypatch.setattr(Store, "scrub_rows", lambda *_: True)


def by_decision(rig: Rig) -> Decide[Any]:
    """It reads the row for its answer."""
    return rig.decide_allocate(1)


def by_replay(_: Rig) -> Decide[Any]:
    """Its record does, where it is replayed."""
    block = AllocateProducerIdsRecord(
        broker_id=BROKER, broker_epoch=BrokerEpoch(1), producer_id_end=ProducerId(9000)
    )
    return lambda _view, _now_ms: Decision((block,), None)


@pytest.mark.parametrize("decide", [by_decision, by_replay])
def test_a_leader_decides_nothing_from_a_row_that_changed(
    rig: Rig, decide: Callable[[Rig], Decide[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_scrub(monkeypatch)
    to_before_a_digest(rig)
    ends_at = latest(rig[1].image).end
    decided = decide(rig)
    change_unread(rig, 1)
    before = rig[1].journal.last_index
    answers = rig.ask(1, decided)
    other = rig.ask(1, lambda view, _now_ms: Decision((), view.header.version))
    rig.turn(1)
    rig.flow()
    assert answers.codes == ["NotController"]
    assert other.all == [version_of(rig, 1) - 1], "what is read elsewhere is right"
    assert rig[1].journal.last_index == before + 1, "nothing but the other's proof that it leads"
    rig.maintenance_tick(1)
    assert bad(rig) == {1}
    rig.turn(1)
    assert not rig[1].raft.is_leader
    rig.wait(1.0)
    rig.elect(2, 3)
    again = advance(rig, 2, EVERY)
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)
    assert again.all[0].first == ends_at, "no id is given twice"


def test_records_before_one_that_reads_a_changed_row_are_undone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_scrub(monkeypatch)
    to_before_a_digest(rig)
    assert rig[1].image.get(FEATURES, "a.feature") is None
    change_unread(rig, 1)
    level = FeatureLevelRecord(name="a.feature", feature_level=7)
    block = AllocateProducerIdsRecord(
        broker_id=BROKER, broker_epoch=BrokerEpoch(1), producer_id_end=ProducerId(9000)
    )
    answers = rig.ask(1, lambda _view, _now_ms: Decision((level, block), None))
    seen = rig.ask(1, lambda view, _now_ms: Decision((), view.get(FEATURES, "a.feature")))
    rig.turn(1)
    rig.flow()
    assert answers.codes == ["NotController"]
    assert seen.all == [None]


def test_an_entry_that_cannot_be_applied_to_a_row_that_changed_comes_with_a_snapshot(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node goes on acknowledging: the other follower may be stopped."""
    no_scrub(monkeypatch)
    advance(rig, 1, EVERY)
    change_unread(rig, 3)
    applied = rig[3].applied
    assert advance(rig, 1, 2, among=(1, 3)).codes == ["[4000, 5000)", "[5000, 6000)"]
    assert bad(rig) == {3}
    assert (rig[3].applied, rig[3].raft.applied_index) == (applied, applied[0])
    heal(rig)
    advance(rig, 1, EVERY)
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)


def test_a_digest_is_not_made_of_a_row_that_changed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    no_scrub(monkeypatch)
    to_before_a_digest(rig)
    advance(rig, 1)
    change_unread(rig, 3)
    read(rig, 1)
    assert bad(rig) == {3}
    advance(rig, 1, EVERY)
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)


def test_rows_found_changed_while_others_are_written_make_the_image_bad(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_scrub(monkeypatch)
    rig[3].store.ranges.changed = "the store's table features was changed"
    rig.maintenance_tick(3)
    assert bad(rig) == {3}


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
