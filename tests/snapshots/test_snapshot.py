"""Snapshots: what is loaded is what was written, and one wrong byte anywhere is refused by name."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings

from fencepost.controller import broker_configs, producer_ids, topics, voters
from fencepost.controller.producer_ids import PRODUCER_IDS, ProducerIds
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_creation import TopicRules, decide_create
from fencepost.controller.topics import CreateTopics, NewTopic
from fencepost.controller.transactions.assignments import ASSIGNMENTS, OWNERS
from fencepost.controller.view import EmptyView, ImageHeader, Overlay
from fencepost.records.batch import iter_batches
from fencepost.records.control import KRaftVersion, SnapshotFooter, SnapshotHeader, Voters, decode_control
from fencepost.records.schema import (
    AllocateProducerIdsRecord,
    ConfigRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)
from fencepost.records.types import BrokerEpoch, BrokerId, ImageVersion, LogIndex, NodeId, ProducerId, Term
from fencepost.snapshots import snapshot
from fencepost.snapshots.image import image_digest
from fencepost.snapshots.rows import TABLES, Row
from fencepost.snapshots.snapshot import CorruptSnapshot, Manifest
from fencepost.snapshots.store import Store
from tests.controller.transactions.group_worlds import A, LoopCoordinator
from tests.controller.worlds import HERE, Step, allocated, histories, level, live_through, registered, rows
from tests.examples import examples

CLUSTER = "the-cluster"
HEADER = ImageHeader(ImageVersion(8), Term(3), NodeId(1), (42, 7, 0))
NAME = f"{42:020d}-{3:010d}"
RAFT = (LogIndex(50), Term(3))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Two brokers, two features, two blocks of which the later counts."""
    opened = Store.open(tmp_path / "store", sync=False)
    records = (
        registered(1, 10),
        level("zz", 3),
        level("metadata.version", 25),
        allocated(1000),
        registered(2, 11, fenced=False),
        allocated(3000, broker_id=2, epoch=11),
    )
    for record in records:
        replay_record(opened.image, record)
    opened.image.header = HEADER
    opened.flush()
    yield opened
    opened.abandon()


def written(store: Store, root: Path, now_ms: int = 1_763_600_000_000) -> Path:
    with store.reader() as reader:
        return snapshot.write(reader, root, cluster_id=CLUSTER, raft=RAFT, now_ms=now_ms)


def loaded(root: Path, header: ImageHeader, found: list[Row]) -> Store:
    """A store with a snapshot's rows as its image."""
    opened = Store.open(root, sync=False)
    opened.put_rows(1, found)
    opened.flip(1, header)
    return opened


# -- the law -----------------------------------------------------------------------------------------------


@settings(max_examples=examples(40))
@given(histories)
def test_what_is_loaded_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step]
) -> None:
    root = tmp_path_factory.mktemp("law")
    store = Store.open(root / "store", sync=False)
    live_through(store.image, history)
    store.flush()
    manifest, found = snapshot.load(written(store, root / "snapshots"))
    copy = loaded(root / "copy", manifest.header, found)
    assert rows(copy.image) == rows(store.image)
    assert copy.image.header == store.image.header
    assert image_digest(copy) == image_digest(store) == manifest.digest
    copy.abandon()
    store.abandon()


@pytest.mark.row("447.5")
def test_it_holds_what_was_assigned_to_the_producers_of_a_group(tmp_path: Path) -> None:
    store, world = Store.open(tmp_path / "store", sync=False), LoopCoordinator((0, 1), ())
    world.init_for(world.said(0, 1, by=A))
    for record in world.written:
        replay_record(store.image, record)
    store.image.header = HEADER
    store.flush()
    manifest, found = snapshot.load(written(store, tmp_path / "snapshots"))
    copy = loaded(tmp_path / "copy", manifest.header, found)
    assert list(copy.image.items(ASSIGNMENTS)) == list(world.view.items(ASSIGNMENTS)) != []
    assert list(copy.image.items(OWNERS)) == list(world.view.items(OWNERS)) != []
    copy.abandon()
    store.abandon()


def test_many_rows_come_back_in_order(tmp_path: Path) -> None:
    """More than one chunk of the state file."""
    store = Store.open(tmp_path / "store", sync=False)
    for number in range(2500):
        replay_record(store.image, level(f"f{number}", 1 + number))
    store.image.header = HEADER
    store.flush()
    with store.reader() as reader:
        expected = list(reader.rows())
    assert len(expected) == 2500
    assert snapshot.load(written(store, tmp_path / "snapshots"))[1] == expected
    store.abandon()


# -- what is in it -----------------------------------------------------------------------------------------


def test_a_snapshot_is_a_directory_named_as_kafka_names_checkpoints(store: Store, tmp_path: Path) -> None:
    directory = written(store, tmp_path / "snapshots")
    assert directory.name == NAME
    assert {path.name for path in directory.iterdir()} == {"state", "manifest", f"{NAME}.checkpoint"}


def test_the_manifest_says_what_it_is(store: Store, tmp_path: Path) -> None:
    manifest = snapshot.verify(written(store, tmp_path / "snapshots"))
    assert (manifest.cluster_id, manifest.raft_index, manifest.raft_term) == (CLUSTER, 50, 3)
    assert (manifest.header, manifest.name) == (HEADER, NAME)
    assert manifest.digest == image_digest(store)


def test_the_checkpoint_is_kafkas(store: Store, tmp_path: Path) -> None:
    """Control records around data, offsets from 0, one epoch; metadata.version first."""
    checkpoint = written(store, tmp_path / "snapshots", now_ms=77) / f"{NAME}.checkpoint"
    first, data, last = iter_batches(checkpoint.read_bytes())
    assert [first.is_control, data.is_control, last.is_control] == [True, False, True]
    assert {batch.leader_epoch for batch in (first, data, last)} == {3}
    offsets = [record.offset for batch in (first, data, last) for record in batch.records]
    assert offsets == list(range(len(offsets)))
    opening = decode_control(first.records[0].key, first.records[0].value)
    assert opening == SnapshotHeader(last_contained_log_timestamp=77)
    assert decode_control(last.records[-1].key, last.records[-1].value) == SnapshotFooter()
    records = list(snapshot.checkpoint_records(checkpoint))
    assert isinstance(records[0], FeatureLevelRecord)
    assert records[0].name == "metadata.version"
    assert [type(record) for record in records] == [
        FeatureLevelRecord,
        FeatureLevelRecord,
        RegisterBrokerRecord,
        RegisterBrokerRecord,
        AllocateProducerIdsRecord,
    ]


def test_it_holds_the_latest_block_with_who_got_it_and_no_earlier_one(store: Store, tmp_path: Path) -> None:
    """Row 730.6; Kafka's snapshot forgets the broker."""
    directory = written(store, tmp_path / "snapshots")
    blocks = [
        record
        for record in snapshot.checkpoint_records(directory / f"{NAME}.checkpoint")
        if isinstance(record, AllocateProducerIdsRecord)
    ]
    assert blocks == [allocated(3000, broker_id=2, epoch=11)]
    _, found = snapshot.load(directory)
    latest = [PRODUCER_IDS.decode_value(value) for table, _, value in found if table == PRODUCER_IDS.name]
    assert latest == [ProducerIds(BrokerId(2), BrokerEpoch(11), ProducerId(1000), ProducerId(3000))]


def test_the_checkpoint_alone_rebuilds_what_kafka_knows(store: Store, tmp_path: Path) -> None:
    """Brokers and features as they are; of the ids where the next block begins."""
    directory = written(store, tmp_path / "snapshots")
    view = Overlay(EmptyView())
    for record in snapshot.checkpoint_records(directory / f"{NAME}.checkpoint"):
        replay_record(view, record)
    rebuilt, original = rows(view), rows(store.image)
    assert rebuilt["brokers"] == original["brokers"]
    assert rebuilt["features"] == original["features"]
    assert producer_ids.latest(view).end == producer_ids.latest(store.image).end == 3000


def test_topics_are_in_the_checkpoint_as_kafkas_records(store: Store, tmp_path: Path) -> None:
    """More than one batch of them; together they make the very topics, partitions and settings."""
    new = NewTopic("many", 1500, 1), NewTopic("a.b", 2, 1, configs=(("retention.ms", "5"),))
    for record in decide_create(store.image, CreateTopics(new), TopicRules(), Random(1)).records:
        replay_record(store.image, record)
    for name in ("", "2"):
        of_brokers = ConfigRecord(resource_type=4, resource_name=name, name="log.retention.ms", value="7")
        replay_record(store.image, of_brokers)
    store.image.header = ImageHeader(ImageVersion(9), Term(3), NodeId(1), (42, 7, 0))
    store.flush()
    checkpoint = written(store, tmp_path / "snapshots") / f"{NAME}.checkpoint"
    batches = list(iter_batches(checkpoint.read_bytes()))
    assert len(batches) == 4
    offsets = [record.offset for batch in batches for record in batch.records]
    assert offsets == list(range(len(offsets)))
    view = Overlay(EmptyView())
    for record in snapshot.checkpoint_records(checkpoint):
        replay_record(view, record)
    rebuilt, original = rows(view), rows(store.image)
    of_topics = topics.TOPICS, topics.TOPIC_NAMES, topics.PARTITIONS, topics.HOSTED, topics.COLLIDING
    for name in (*(each.name for each in of_topics), broker_configs.BROKER_CONFIGS.name):
        assert rebuilt[name] == original[name] != []


def test_an_empty_image_has_a_checkpoint_too(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    store.flush()
    directory = written(store, tmp_path / "snapshots")
    assert list(snapshot.checkpoint_records(directory / f"{directory.name}.checkpoint")) == []
    assert snapshot.load(directory)[1] == []
    store.abandon()


def test_voters_are_in_the_opening_batch(store: Store, tmp_path: Path) -> None:
    replay_record(store.image, voters.voters_record({NodeId(1): HERE}))
    store.image.header = msgspec.structs.replace(HEADER, version=ImageVersion(9))
    store.flush()
    directory = written(store, tmp_path / "snapshots")
    opening = next(iter_batches((directory / f"{NAME}.checkpoint").read_bytes()))
    records = [decode_control(record.key, record.value) for record in opening.records]
    assert [type(record) for record in records] == [SnapshotHeader, KRaftVersion, Voters], "in Kafka's order"
    assert isinstance(records[-1], Voters)
    assert [voter.voter_id for voter in records[-1].voters] == [1]


# -- what is refused ---------------------------------------------------------------------------------------


def positions(size: int) -> list[int]:
    """First, last, and some between."""
    return sorted({0, 1, size // 3, size // 2, size - 2, size - 1})


@pytest.mark.parametrize("file", ["state", f"{NAME}.checkpoint", "manifest"])
def test_one_flipped_byte_is_refused_by_the_name_of_its_file(store: Store, tmp_path: Path, file: str) -> None:
    path = written(store, tmp_path / "snapshots") / file
    sound = path.read_bytes()
    for position in positions(len(sound)):
        for bit in (0x01, 0x80):
            raw = bytearray(sound)
            raw[position] ^= bit
            path.write_bytes(raw)
            with pytest.raises(CorruptSnapshot, match=f"{path.parent.name}/{file}"):
                snapshot.load(path.parent)
    path.write_bytes(sound)
    snapshot.load(path.parent)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, grow, empty, Path.unlink])
@pytest.mark.parametrize("file", ["state", f"{NAME}.checkpoint", "manifest"])
def test_a_file_that_is_cut_grown_empty_or_gone_is_refused_by_name(
    store: Store, tmp_path: Path, file: str, damage: Callable[[Path], object]
) -> None:
    directory = written(store, tmp_path / "snapshots")
    damage(directory / file)
    with pytest.raises(CorruptSnapshot, match=file):
        snapshot.load(directory)


def test_a_snapshot_under_another_name_is_refused(store: Store, tmp_path: Path) -> None:
    directory = written(store, tmp_path / "snapshots")
    moved = directory.rename(directory.with_name(f"{43:020d}-{3:010d}"))
    with pytest.raises(CorruptSnapshot, match=NAME):
        snapshot.verify(moved)


def manifest_of(store: Store, tmp_path: Path) -> Manifest:
    return snapshot.read_manifest(written(store, tmp_path / "snapshots"))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"format": 2}, id="a-format-of-the-future"),
        pytest.param({"files": {}}, id="no-files"),
        pytest.param({"files": {"state": (1, ""), "../../etc/passwd": (1, "")}}, id="a-file-elsewhere"),
        pytest.param({"log_ends": (41, 7, 0)}, id="another-name-than-its-checkpoints"),
    ],
)
def test_a_manifest_of_something_else_is_refused(
    store: Store, tmp_path: Path, change: dict[str, object]
) -> None:
    manifest = msgspec.structs.replace(manifest_of(store, tmp_path), **change)
    with pytest.raises(CorruptSnapshot, match="here: format"):
        snapshot.decode_manifest(snapshot.encode_manifest(manifest), "here")


def test_a_manifest_comes_back(store: Store, tmp_path: Path) -> None:
    manifest = manifest_of(store, tmp_path)
    assert snapshot.decode_manifest(snapshot.encode_manifest(manifest), "here") == manifest


@pytest.mark.parametrize("raw", [b"", b"\x80\x04N.", b"[]", b"{}", b"\xff" * 100, b'{"format": "x"}'])
def test_bytes_that_are_no_manifest_are_refused(raw: bytes) -> None:
    with pytest.raises(CorruptSnapshot, match="there: not a snapshot manifest"):
        snapshot.decode_manifest(raw, "there")


def test_rows_that_do_not_make_the_digest_are_refused(store: Store, tmp_path: Path) -> None:
    """Sizes and hashes agree, and still the image is another one: the digest is of the image itself."""
    directory = written(store, tmp_path / "snapshots")
    manifest = snapshot.read_manifest(directory)
    other = msgspec.structs.replace(manifest, version=ImageVersion(9))
    (directory / "manifest").write_bytes(snapshot.encode_manifest(other))
    with pytest.raises(CorruptSnapshot, match="digest"):
        snapshot.load(directory)


# -- the folder they lie in --------------------------------------------------------------------------------


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_the_newest_is_listed_first_and_only_published_ones(tmp_path: Path) -> None:
    for name in ("1-1", "3-1", "2-9", "4-1.part", "5-1.refused"):
        (tmp_path / name).mkdir()
    assert [path.name for path in snapshot.listed(tmp_path)] == ["3-1", "2-9", "1-1"]
    assert snapshot.listed(tmp_path / "nowhere") == []


def test_tidying_keeps_the_newest_and_what_is_not_published(tmp_path: Path) -> None:
    for name in ("1-1", "3-1", "2-9", "4-1.part", "5-1.refused"):
        (tmp_path / name).mkdir()
    snapshot.tidy(tmp_path, kept=2)
    assert names(tmp_path) == ["2-9", "3-1", "4-1.part", "5-1.refused"]


def test_a_start_sweeps_what_a_crash_left(tmp_path: Path) -> None:
    for name in ("1-1", "4-1.part", "4-1.received.part"):
        (tmp_path / name).mkdir()
    snapshot.sweep(tmp_path)
    assert names(tmp_path) == ["1-1"]
    snapshot.sweep(tmp_path / "nowhere")


def test_a_snapshot_of_the_same_name_is_replaced(store: Store, tmp_path: Path) -> None:
    """Only barriers lie between them: same offsets, same rows, another moment."""
    root = tmp_path / "snapshots"
    first = snapshot.read_manifest(written(store, root, now_ms=1))
    second = snapshot.read_manifest(written(store, root, now_ms=2))
    assert (first.name, first.timestamp_ms, second.timestamp_ms) == (second.name, 1, 2)
    assert names(root) == [NAME]
    snapshot.load(root / NAME)


def test_killed_before_it_was_published_leaves_nothing_that_is_listed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(snapshot, "publish", die)
    with pytest.raises(Killed):
        written(store, tmp_path / "snapshots")
    assert snapshot.listed(tmp_path / "snapshots") == []
    monkeypatch.undo()
    snapshot.load(written(store, tmp_path / "snapshots"))


def test_what_is_refused_is_set_aside_and_its_bytes_stay(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "snapshots"
    for _ in range(2):
        aside = snapshot.set_aside(written(store, root))
        assert names(root) == [f"{NAME}.refused"]
    assert (aside / "state").exists()


def test_the_tables_are_those_of_the_store() -> None:
    assert set(TABLES) >= {"brokers", "features", "producer_ids", "quorum"}
