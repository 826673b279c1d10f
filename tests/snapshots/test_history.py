"""History: the archives of several nodes are one log; what no one has is named, what differs is refused."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.records.batch import BatchRecord, encode_batch, stamp
from fencepost.records.control import LeaderChange, encode_control
from fencepost.records.frame import encode_frame
from fencepost.records.invariant import CorruptData
from fencepost.records.schema import AllocateProducerIdsRecord, NoOpRecord
from fencepost.records.types import BrokerEpoch, BrokerId, Log, NodeId, Offset, ProducerId, Term
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.history import ARCHIVE_FOLDER, Allocation, producer_id_history
from fencepost.snapshots.segments import Hole
from tests.examples import examples
from tests.snapshots.archives import ALL, BATCH_BYTES, batch, flip, opened, segment
from tests.together import table


def node(directory: Path, *runs: tuple[int, int], per_segment: int = 4) -> Path:
    """A node's directory whose archive holds these half-open runs of offsets, with holes between."""
    archive = opened(directory / ARCHIVE_FOLDER, per_segment=per_segment)
    for first, end in runs:
        archive.start_at(Offset(first))
        for offset in range(first, end):
            archive.append(batch(offset))
    archive.close()
    return directory


def allocation(offset: int, *, first_known: bool = True) -> Allocation:
    """What ``batch(offset)`` says."""
    first = ProducerId(1000 * offset) if first_known else None
    return Allocation(
        Offset(offset), Term(1), 5, BrokerId(1), BrokerEpoch(7), first, ProducerId(1000 * (offset + 1))
    )


def told(*items: int | tuple[int, int]) -> list[Allocation | Hole]:
    """Allocations by offset, holes by bounds; after a hole the first id is not known."""
    history: list[Allocation | Hole] = []
    for item in items:
        if isinstance(item, tuple):
            history.append(Hole(Offset(item[0]), Offset(item[1])))
        else:
            known = not history or isinstance(history[-1], Allocation)
            history.append(allocation(item, first_known=known))
    return history


Runs = list[tuple[int, int]]
MERGES = [
    pytest.param([[]], told(), id="empty"),
    pytest.param([[(0, 6)]], told(*range(6)), id="one-node"),
    pytest.param([[(0, 6)], [(0, 6)], [(0, 6)]], told(*range(6)), id="three-equal-nodes"),
    pytest.param([[(0, 3)], [(0, 9)]], told(*range(9)), id="one-is-behind"),
    pytest.param([[(3, 6)]], told((0, 3), 3, 4, 5), id="begins-with-a-hole"),
    pytest.param([[(0, 2), (7, 9)]], told(0, 1, (2, 7), 7, 8), id="a-hole-no-one-fills"),
    pytest.param([[(0, 2), (7, 9)], [(1, 8)]], told(*range(9)), id="a-hole-another-fills"),
    pytest.param(
        [[(0, 2), (7, 9)], [(3, 5)]], told(0, 1, (2, 3), 3, 4, (5, 7), 7, 8), id="a-hole-half-filled"
    ),
    pytest.param(
        [[(0, 2), (7, 9)], [(0, 1), (4, 6)]], told(0, 1, (2, 4), 4, 5, (6, 7), 7, 8), id="holes-overlap"
    ),
    pytest.param([[(0, 2), (7, 7)]], told(0, 1, (2, 7)), id="ends-with-a-hole"),
    pytest.param([[(0, 2), (7, 7)], [(0, 9)]], told(*range(9)), id="ends-with-a-hole-another-fills"),
    pytest.param([[], [(0, 2)]], told(0, 1), id="one-has-nothing-yet"),
]


@table(("nodes", "history"), MERGES)
def test_archives_are_merged_by_offset(
    tmp_path: Path, nodes: list[Runs], history: list[Allocation | Hole]
) -> None:
    directories = [node(tmp_path / str(number), *runs) for number, runs in enumerate(nodes)]
    assert list(producer_id_history(directories)) == history
    assert list(producer_id_history(directories[::-1])) == history


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_what_anyone_has_is_told_and_what_no_one_has_is_named(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("nodes")
    offsets = st.sets(st.integers(0, 30), max_size=20)
    held = [data.draw(offsets) for _ in range(data.draw(st.integers(1, 3)))]
    directories = [
        node(root / str(number), *((offset, offset + 1) for offset in sorted(each)))
        for number, each in enumerate(held)
    ]
    seen: set[int] = set()
    missing: set[int] = set()
    at = 0
    for item in producer_id_history(directories):
        if isinstance(item, Hole):
            assert item.first == at < item.end
            missing |= set(range(item.first, item.end))
            at = item.end
        else:
            assert item.offset == at
            seen.add(item.offset)
            at += 1
    assert seen == set().union(*held)
    assert missing == set(range(max(seen, default=-1) + 1)) - seen


def test_the_record_says_who_when_and_in_which_epoch(tmp_path: Path) -> None:
    """Other records and control batches take offsets, and are passed over."""
    record = AllocateProducerIdsRecord(
        broker_id=BrokerId(3), broker_epoch=BrokerEpoch(12), producer_id_end=ProducerId(5000)
    )
    leader = encode_batch(
        [BatchRecord(*encode_control(LeaderChange(leader_id=NodeId(1))))], timestamp_ms=1, control=True
    )
    data = encode_batch(
        [BatchRecord(None, encode_frame(each)) for each in (NoOpRecord(), record)], timestamp_ms=77
    )
    archive = Archive.open(tmp_path / ARCHIVE_FOLDER, Log.METADATA, "one")
    archive.append(stamp(leader, Offset(0), Term(9)))
    archive.append(stamp(data, Offset(1), Term(9)))
    archive.close()
    assert list(producer_id_history([tmp_path])) == [
        Allocation(Offset(2), Term(9), 77, BrokerId(3), BrokerEpoch(12), ProducerId(0), ProducerId(5000))
    ]


def test_retention_leaves_a_hole_at_the_beginning(tmp_path: Path) -> None:
    node(tmp_path, (0, 10))
    archive = opened(tmp_path / ARCHIVE_FOLDER)
    archive.retain(5 * BATCH_BYTES, ALL)
    archive.close()
    assert list(producer_id_history([tmp_path])) == told((0, 8), 8, 9)


@pytest.mark.parametrize("file", ["segment", "holes"])
def test_where_one_archive_is_damaged_the_others_are_read(tmp_path: Path, file: str) -> None:
    """A whole segment is compared before any of it is given out; without another node it is a hole."""
    nodes = [node(tmp_path / str(number), (0, 6), (7, 12)) for number in range(2)]
    bad = nodes[1] / ARCHIVE_FOLDER
    path = segment(bad, 4) if file == "segment" else segment(bad, 4).parent / "holes.json"
    path.chmod(0o600)
    flip(path, 20)
    found: list[Exception] = []
    assert list(producer_id_history(nodes, found.append)) == told(*range(6), (6, 7), *range(7, 12))
    assert [str(path) in str(each) for each in found] == [True]
    with pytest.raises(CorruptData, match=path.name):
        list(producer_id_history(nodes))
    found.clear()
    alone = told(*range(4), (4, 11)) if file == "segment" else []
    assert list(producer_id_history(nodes[1:], found.append)) == alone
    assert len(found) == 1


def test_archives_that_disagree_are_both_named(tmp_path: Path) -> None:
    one, other = node(tmp_path / "1", (0, 6)), tmp_path / "2"
    archive = opened(other / ARCHIVE_FOLDER)
    for offset in range(6):
        archive.append(batch(offset, epoch=1 if offset < 5 else 2))
    archive.close()
    reading = producer_id_history([one, other])
    assert [next(reading) for _ in range(5)] == told(*range(5))
    with pytest.raises(CorruptData) as raised:
        next(reading)
    assert "disagree at offset 5" in str(raised.value)
    for directory in (one, other):
        assert f"{segment(directory / ARCHIVE_FOLDER, 4)}, position {BATCH_BYTES}" in str(raised.value)


def test_archives_with_other_batches_at_the_same_offsets_disagree(tmp_path: Path) -> None:
    one, other = node(tmp_path / "1", (0, 6)), tmp_path / "2"
    archive = opened(other / ARCHIVE_FOLDER)
    archive.append(batch(0))
    archive.append(batch(1, records=2))
    archive.close()
    with pytest.raises(CorruptData, match="disagree at offset 1"):
        list(producer_id_history([one, other]))


def test_archives_whose_batches_overlap_half_disagree(tmp_path: Path) -> None:
    one, other = tmp_path / "1", tmp_path / "2"
    for directory, first in ((one, 0), (other, 1)):
        archive = opened(directory / ARCHIVE_FOLDER)
        archive.start_at(Offset(first))
        archive.append(batch(first, records=2))
        archive.close()
    with pytest.raises(CorruptData, match="disagree at offset 1"):
        list(producer_id_history([one, other]))


def test_a_corrupt_file_is_named_even_if_another_node_has_it_whole(tmp_path: Path) -> None:
    """Leaving the bad directory out is the operator's decision, not ours."""
    one, other = node(tmp_path / "1", (0, 12)), node(tmp_path / "2", (0, 12))
    bad = segment(one / ARCHIVE_FOLDER, 4)
    flip(bad, 30)
    with pytest.raises(CorruptData, match=f"{bad}, position 0: .*CRC"):
        list(producer_id_history([one, other]))
    assert list(producer_id_history([other])) == told(*range(12))


def test_an_unknown_record_is_named_with_its_offset(tmp_path: Path) -> None:
    archive = opened(tmp_path / ARCHIVE_FOLDER)
    archive.append(batch(0))
    unknown = encode_batch([BatchRecord(None, b"\x01\x63\x00\x00")], timestamp_ms=5)
    archive.append(stamp(unknown, Offset(1), Term(1)))
    archive.close()
    with pytest.raises(CorruptData, match=f"position {BATCH_BYTES}, offset 1: unknown .* key 99"):
        list(producer_id_history([tmp_path]))


def test_a_torn_tail_is_told_as_far_as_it_goes(tmp_path: Path) -> None:
    node(tmp_path, (0, 6))
    os.truncate(segment(tmp_path / ARCHIVE_FOLDER, 4), BATCH_BYTES + 50)
    assert list(producer_id_history([tmp_path])) == told(*range(5))


def test_a_running_nodes_history_grows(tmp_path: Path) -> None:
    archive = opened(tmp_path / ARCHIVE_FOLDER)
    for end in range(1, 7):
        archive.append(batch(end - 1))
        archive.write()
        assert list(producer_id_history([tmp_path])) == told(*range(end))
    archive.close()


def test_a_directory_without_an_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"{tmp_path} has no archive"):
        list(producer_id_history([tmp_path]))
