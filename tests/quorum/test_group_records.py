"""Records of ``__consumer_offsets`` through three voters: one image and one archive, also after a restart."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

import fencepost.quorum.snapshotter
from fencepost.controller.decision import Decision
from fencepost.controller.errors import UnsupportedVersion
from fencepost.controller.levels import LOG_LEVEL
from fencepost.quorum.draft import BATCH_OVERHEAD_BYTES_MAX, DECISION_BYTES_MAX, DecisionTooLarge
from fencepost.quorum.journal import REGULAR
from fencepost.records.batch import iter_batches
from fencepost.records.entry import ENTRY_MAGIC, LATER_MAGIC
from fencepost.records.group_log import DECODERS, decode_group_batch
from fencepost.records.levels import GROUP_LOG
from fencepost.records.offset_commit import OffsetForgotten
from fencepost.records.schema import FeatureLevelRecord, NoOpRecord
from fencepost.records.types import Log, Offset, ProducerId
from fencepost.snapshots.image import image_digest
from fencepost.snapshots.segments import Hole
from tests.controller.notes import KEY_TYPE, NOTES, PENDING, Note, known, marker
from tests.quorum.conftest import MakeRig
from tests.quorum.decisions import transaction, writes
from tests.quorum.rig import Rig

GROUPS = Log.CONSUMER_OFFSETS
SEVEN = ProducerId(7)
MIXED: list[list[Any]] = [
    [Note("a", "plain"), transaction("one"), Note("b", "of 7", SEVEN, 0)],
    [NoOpRecord(), Note("a", "of 7", SEVEN, 0), Note("c", "of 8", ProducerId(8), 0)],
    [
        marker(7),
        transaction("two"),
        Note("a", "later", SEVEN, 0),
        Note("d", "plain"),
        marker(8, committed=False),
    ],
    [Note("d", None), NoOpRecord()],
]
"""Decisions of one entry: several batches of the log of groups, among records of the two others."""


@pytest.fixture(autouse=True)
def notes() -> Iterator[None]:
    with known():
        yield


@pytest.fixture
def three(make_rig: MakeRig) -> Rig:
    """Three voters of a new cluster, node 1 active."""
    rig = make_rig(3)
    rig.elect(1)
    ask(rig, writes(FeatureLevelRecord(name=LOG_LEVEL, feature_level=GROUP_LOG)))
    return rig


def ask(rig: Rig, *decisions: Any, node: int = 1) -> list[Any]:
    """Their answers, all decided into one entry."""
    answers = [rig.ask(node, decide) for decide in decisions]
    rig.settle()
    return [outcome for each in answers for outcome in each.all]


def last_entry(rig: Rig, node: int = 1) -> bytes:
    found = rig[node].journal.entry_at(rig[node].journal.last_index)
    assert found is not None
    assert found[0][:1] == REGULAR
    return found[0][1:]


def archived(rig: Rig, node: int) -> list[tuple[int, Any]]:
    """Every record of groups in a node's archive, with its offset."""
    rig[node].archiver.write()
    found: list[tuple[int, Any]] = []
    for file in sorted((rig.root / f"node-{node}" / "archive" / GROUPS.directory).glob("*.log")):
        for batch in iter_batches(file.read_bytes()):
            offsets = [record.offset for record in batch.records]
            found += zip(offsets, decode_group_batch(batch), strict=True)
    return found


def written(decisions: list[list[Any]]) -> list[Any]:
    groups = type(Note("a", "x")), type(marker(7))
    return [record for records in decisions for record in records if isinstance(record, groups)]


def digests(rig: Rig) -> set[str]:
    return {image_digest(replica.store) for replica in rig.replicas.values()}


def test_one_entry_holds_several_batches_in_the_order_of_the_decisions(three: Rig) -> None:
    assert ask(three, *[writes(*records) for records in MIXED]) == ["done"] * 4
    assert last_entry(three)[0] == LATER_MAGIC
    groups = written(MIXED)
    assert three[1].image.header.log_end(GROUPS) == len(groups)
    assert [archived(three, node) for node in (1, 2, 3)] == [list(enumerate(groups))] * 3
    assert len(digests(three)) == 1
    image = dict(three[2].image.items(NOTES))
    assert image == {"a": ("of 7", 2), "b": ("of 7", 1)}
    assert dict(three[2].image.items(PENDING)) == {(7, "a"): ("later", 5)}


def test_the_next_entry_goes_on_where_the_log_ends(three: Rig) -> None:
    for records in MIXED:
        ask(three, writes(*records))
    assert archived(three, 3) == list(enumerate(written(MIXED)))
    assert len(digests(three)) == 1


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_restart_replays_the_same_offsets(three: Rig, node: int) -> None:
    """From what was saved before the entries, and the journal: as decided, so replayed."""
    three.flush(node)
    ask(three, *[writes(*records) for records in MIXED])
    for records in MIXED:
        ask(three, writes(*records))
    groups = archived(three, node)
    three[node].journal.flush()
    three.crash(node)
    three.start(node)
    assert three[node].image.header.log_end(GROUPS) == 0, "nothing of it was saved"
    three.connect(node)
    three.elect(node)
    three.settle()
    assert len(digests(three)) == 1
    assert three[node].image.header.log_end(GROUPS) == len(groups) == 2 * len(written(MIXED))
    assert archived(three, node) == groups


@pytest.mark.parametrize("kept", [0, 1, 100, 250], ids=lambda kept: f"{kept}-bytes-kept")
def test_what_a_crash_took_from_the_archive_is_refilled(three: Rig, kept: int) -> None:
    """Cut inside any of the batches of one entry: those that are gone come again from the journal."""
    ask(three, *[writes(*records) for records in MIXED])
    groups = archived(three, 2)
    three.flush(2)
    three.crash(2)
    (file,) = (three.root / "node-2" / "archive" / GROUPS.directory).glob("*.log")
    whole = file.read_bytes()
    assert len(whole) > 250
    os.truncate(file, kept)
    three.start(2)
    assert archived(three, 2) == groups
    assert file.read_bytes() == whole


@pytest.mark.parametrize(("bytes_max", "cuts"), [(-1, False), (0, True), (2_000, True), (10**6, False)])
def test_the_archive_of_groups_is_bounded_by_its_own_setting(
    make_rig: MakeRig, bytes_max: int, cuts: bool
) -> None:
    """What the newest snapshot does not have stays, whatever the bound; other logs keep everything."""
    rig = make_rig(1, segment_bytes=500, group_archive_bytes_max=bytes_max)
    rig.elect(1)
    ask(rig, writes(FeatureLevelRecord(name=LOG_LEVEL, feature_level=GROUP_LOG)))
    for _ in range(20):
        ask(rig, writes(Note("a", "x" * 100), transaction("one")))
    rig[1].snapshotter.take(lambda _result: None)
    rig.maintenance_tick()
    for _ in range(20):
        ask(rig, writes(Note("a", "y" * 100), transaction("one")))
    rig[1].archiver.write()
    rig[1].archiver.sync()
    rig.work()
    archives = rig[1].archiver.archives
    assert (archives[GROUPS].start > 0) == cuts
    assert archives[GROUPS].start <= 20, "what the snapshot lacks is there"
    assert archives[GROUPS].end == 40
    assert archives[Log.METADATA].start == archives[Log.TRANSACTION_STATE].start == 0


@pytest.mark.parametrize("before", [[], [Note("a", "x", SEVEN, 0)]], ids=["alone", "behind-another"])
def test_an_entry_of_markers_is_refilled(three: Rig, before: list[Any]) -> None:
    """Its first batch is a control batch, and no LeaderChange."""
    records = [*before, marker(7)]
    ask(three, writes(*records))
    three[2].archiver.write()
    three.flush(2)
    three.crash(2)
    (file,) = (three.root / "node-2" / "archive" / GROUPS.directory).glob("*.log")
    os.truncate(file, 0)
    three.start(2)
    assert archived(three, 2) == list(enumerate(records))


def test_who_installed_a_snapshot_goes_on_at_its_offsets(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies before is a hole of its archive, named; what comes after is replayed where the log ends."""
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=4)
    rig.elect(1)
    ask(rig, writes(FeatureLevelRecord(name=LOG_LEVEL, feature_level=GROUP_LOG)))
    rig.crash(3)
    for records in MIXED:
        ask(rig, writes(*records))
    rig.maintenance_tick(1)
    rig.work()
    assert rig[1].journal.first_index > rig.start(3).journal.last_index
    rig.connect(3)
    for _ in range(40):
        rig.heartbeat()
        rig.flow()
        rig.maintenance_tick(3)
    assert rig[3].applied == rig[1].applied
    behind = len(written(MIXED))
    ask(rig, writes(Note("e", "of 9", ProducerId(9), 0), marker(9), Note("f", "plain")))
    assert rig[3].archiver.archives[GROUPS].holes() == (Hole(Offset(0), Offset(behind)),)
    assert [at for at, _ in archived(rig, 3)] == [behind, behind + 1, behind + 2]
    assert len(digests(rig)) == 1


def test_a_record_of_an_unknown_key_type_is_skipped_with_a_warning(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes its offset: what lies behind it is where the leader has it."""
    monkeypatch.delitem(DECODERS, KEY_TYPE)
    with structlog.testing.capture_logs() as logs:
        three[2].log = structlog.get_logger()
        ask(three, writes(Note("a", "x"), Note("b", "x"), OffsetForgotten("readers", "a", 0), Note("c", "x")))
    skipped = [each for each in logs if each["event"] == "group_record_skipped"]
    facts = {"log": GROUPS.directory, "key_type": KEY_TYPE, "log_level": "warning"}
    assert skipped == [{"event": "group_record_skipped", **facts}]
    assert three[2].image.header.log_end(GROUPS) == 4
    assert list(three[2].image.items(NOTES)) == []


def test_an_entry_without_such_records_keeps_its_layout(three: Rig) -> None:
    ask(three, writes(NoOpRecord(), transaction("one")))
    assert last_entry(three)[0] == ENTRY_MAGIC


@pytest.mark.parametrize("level", [0, 1])
def test_below_its_level_the_log_of_groups_is_not_written(make_rig: MakeRig, level: int) -> None:
    rig = make_rig(3)
    rig.elect(1)
    if level:
        ask(rig, writes(FeatureLevelRecord(name=LOG_LEVEL, feature_level=level)))
    mixed = writes(transaction("one"), Note("a", "x"))
    done, refused, after = ask(rig, writes(NoOpRecord()), mixed, writes(transaction("two")))
    assert (done, after) == ("done", "done"), "only that one is refused"
    assert isinstance(refused, UnsupportedVersion)
    assert f"the cluster has {level}" in str(refused)
    assert "features upgrade --log-level 2" in str(refused)
    assert rig[1].image.header.log_ends[1:] == (1, 0)
    assert not rig[1].proposer.violations


def test_the_level_counts_from_the_entry_after_the_raise(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.elect(1)
    raised = FeatureLevelRecord(name=LOG_LEVEL, feature_level=GROUP_LOG)
    answers = ask(
        rig, lambda _view, _now: Decision((raised,), "raised", ends_entry=True), writes(Note("a", "x"))
    )
    assert answers == ["raised", "done"]
    assert last_entry(rig)[0] == LATER_MAGIC


@pytest.mark.parametrize("past", [0, 1], ids=["at-the-limit", "one-past-it"])
def test_batches_of_their_own_count_in_the_size_of_a_decision(three: Rig, past: int) -> None:
    """Each record may need a batch for itself: an entry of them must still fit."""
    count = 40_000
    each = DECISION_BYTES_MAX // count
    name = "x" * (each - BATCH_OVERHEAD_BYTES_MAX - 24 - 2 - 1)
    records = [
        Note(name, "" if number else "y" * (DECISION_BYTES_MAX % count), ProducerId(number % 2), 0)
        for number in range(count)
    ]
    sizes = count * (each - 1) + DECISION_BYTES_MAX % count
    fill = DECISION_BYTES_MAX - sizes + past
    records.append(Note("x" * (fill - BATCH_OVERHEAD_BYTES_MAX - 24 - 2), "", ProducerId(1), 1))
    (answer,) = ask(three, writes(*records))
    assert answer == "done" if not past else isinstance(answer, DecisionTooLarge)
