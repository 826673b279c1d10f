"""An archive that is written, images and their digests: at each of their bounds, and one beyond."""

import os
from contextlib import closing
from pathlib import Path

import lmdb
import msgspec
import pytest
from crc32c import crc32c

from fencepost.controller.cluster_version import CLUSTER_VERSION
from fencepost.controller.view import ImageHeader, Overlay, View
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import ImageVersion, Log, LogIndex, Offset
from fencepost.snapshots import archive, digests, segments
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.checksums import (
    load_sums,
)
from fencepost.snapshots.digests import DIGEST_EVERY, ChangedRows
from fencepost.snapshots.file_sums import Summed
from fencepost.snapshots.reader import APPLIED, JOURNAL_KEY, JOURNAL_TERM
from fencepost.snapshots.rows import decode_generation
from fencepost.snapshots.segments import (
    Hole,
    list_segments,
)
from fencepost.snapshots.store import Store, StoreInUse, require_unused
from tests.snapshots.archives import ALL, BATCH_BYTES, CLUSTER, batch, filled, flip, offsets, opened, segment
from tests.together import table


def summed(content: bytes) -> Summed:
    return Summed(len(content), crc32c(content))


# -- the archive --------------------------------------------------------------------------------


def test_a_batch_that_fills_a_segment_belongs_into_it_and_the_next_one_not(tmp_path: Path) -> None:
    found = filled(tmp_path, 5, per_segment=2)
    assert [each.base for each in list_segments(tmp_path / Log.METADATA.directory)] == [0, 2, 4]
    assert found.start == 0


def test_what_is_buffered_is_written_at_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "BUFFERED_BYTES_MAX", 2 * BATCH_BYTES)
    found = opened(tmp_path)
    found.append(batch(0))
    assert (found.buffered_bytes, segment(tmp_path, 0).stat().st_size) == (BATCH_BYTES, 0)
    found.append(batch(1))
    assert (found.buffered_bytes, segment(tmp_path, 0).stat().st_size) == (0, 2 * BATCH_BYTES)


def test_what_is_only_buffered_is_not_durable(tmp_path: Path) -> None:
    found = opened(tmp_path)
    found.append(batch(0))
    assert found.sync() == 0
    found.write()
    found.append(batch(1))
    assert found.sync() == found.durable_end == 1
    assert found.end == 2
    assert load_sums(segment(tmp_path, 0)).batches == summed(batch(0))


@table(
    ("bytes_max", "below", "start"),
    [
        (12, ALL, 0),
        (11, ALL, 4),
        (8, ALL, 4),
        (7, ALL, 8),
        (0, ALL, 8),  # the last one is not sealed
        (0, 8, 8),
        (0, 7, 4),
        (0, 4, 4),
        (0, 3, 0),
    ],
)
def test_the_oldest_segments_go_while_there_is_too_much(
    tmp_path: Path, bytes_max: int, below: int, start: int
) -> None:
    """Three of four batches each; the last one is open."""
    found = filled(tmp_path, 12)
    assert found.retain(bytes_max * BATCH_BYTES, Offset(below)) == found.start == start
    assert offsets(tmp_path)[0] == start


def test_holes_before_the_first_segment_go_with_what_was_there(tmp_path: Path) -> None:
    found = filled(tmp_path, 4)
    found.start_at(Offset(8))
    for offset in range(8, 17):
        found.append(batch(offset))
    found.write()
    found.sync()
    assert found.retain(9 * BATCH_BYTES, ALL) == 8
    assert found.holes() == ()
    found.start_at(Offset(30))
    assert found.holes() == (Hole(Offset(17), Offset(30)),)
    found.start_at(Offset(30))
    assert found.retain(0, ALL) == 16, "the last segment stays"
    assert found.holes() == (Hole(Offset(17), Offset(30)),)


def test_a_hole_behind_a_hole_is_one_and_there_are_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "HOLES_MAX", 2)
    found = opened(tmp_path)
    found.start_at(Offset(3))
    found.start_at(Offset(5))
    assert found.holes() == (Hole(Offset(0), Offset(5)),)
    found.append(batch(5))
    found.start_at(Offset(9))
    found.start_at(Offset(10))
    assert found.holes() == (Hole(Offset(0), Offset(5)), Hole(Offset(6), Offset(10)))
    found.append(batch(10))
    with pytest.raises(InvariantViolation, match="too many holes"):
        found.start_at(Offset(20))
    with pytest.raises(InvariantViolation, match="would go back"):
        found.start_at(Offset(10))


def test_an_empty_segment_that_is_left_is_no_segment(tmp_path: Path) -> None:
    """A snapshot comes before its first batch is written."""
    found = filled(tmp_path, 4)
    found.append(batch(4))
    assert segment(tmp_path, 4).stat().st_size == 0
    again = opened(tmp_path)
    assert again.end == 4
    again.start_at(Offset(9))
    assert [each.base for each in list_segments(tmp_path / Log.METADATA.directory)] == [0]
    assert again.holes() == (Hole(Offset(4), Offset(9)),)
    assert opened(tmp_path).end == 9


@table(
    ("harm", "is_cut"),
    [("a torn tail", True), ("a flipped byte", False), ("a tear inside", False), ("a later segment", False)],
)
def test_before_the_flushed_end_nothing_is_cut_but_a_torn_tail(
    tmp_path: Path, harm: str, is_cut: bool
) -> None:
    archive = filled(tmp_path, 6)
    path = segment(tmp_path, 4)
    archive.close()
    if harm == "a flipped byte":
        flip(path, BATCH_BYTES + 80)
    elif harm == "a tear inside":  # a whole batch lies behind it
        path.write_bytes(batch(4)[:-5] + batch(5))
    else:
        os.truncate(path, 2 * BATCH_BYTES - 5)
    if harm == "a later segment":
        segment(tmp_path, 6).write_bytes(batch(6))
    again = Archive.open(tmp_path, Log.METADATA, CLUSTER, flushed_end=Offset(8))
    assert (again.cut is not None, again.damage is None) == (is_cut, is_cut)
    again.close()


def test_archives_of_one_cluster_have_one_owner_each(tmp_path: Path) -> None:
    found = {segments.archive_owner(cluster, log) for cluster in (CLUSTER, "other") for log in Log}
    assert len(found) == 2 * len(Log)
    assert {each.partition for each in found} == {int(log) for log in Log}


def test_the_first_damage_is_named(tmp_path: Path) -> None:
    filled(tmp_path, 12).close()
    flip(segment(tmp_path, 8), 30)
    (segment(tmp_path, 4)).chmod(0o644)
    flip(segment(tmp_path, 4), 30)
    again = Archive.open(tmp_path, Log.METADATA, CLUSTER, flushed_end=Offset(12))
    assert again.damage is not None
    assert again.damage.path == segment(tmp_path, 4)
    again.close()


# -- images -------------------------------------------------------------------------------------


@table(
    ("raw", "expected"),
    [(None, 0), (0, 0), (5, 5), (2**32 - 2, 2**32 - 2), (2**32 - 1, 0), (-1, 0), ("x", 0)],
)
def test_a_generation_is_a_number_that_has_a_next_one(raw: object, expected: int) -> None:
    assert decode_generation(None if raw is None else msgspec.msgpack.encode(raw)) == expected


def note(changed: ChangedRows, store: Store, keys: range) -> None:
    """An entry that writes so many rows."""
    overlay = Overlay(store.image)
    for key in keys:
        overlay.put(CLUSTER_VERSION, key, key)
    changed.note(overlay)
    overlay.write_to(store.image)


def at_version(store: Store, version: int) -> View:
    store.image.header = ImageHeader(version=ImageVersion(version))
    return store.image


def test_what_a_digest_has_is_bounded_and_begins_where_all_nodes_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "ROWS_MAX", 4)
    with closing(Store.open(tmp_path / "store", sync=False)) as store:
        found: dict[tuple[int, ...], bytes | None] = {}
        for sizes in ((3,), (3, 5), (4,), (4, 5), (0,)):
            changed = ChangedRows()
            changed.begin(DIGEST_EVERY)
            first = 0
            for size in sizes:
                note(changed, store, range(first, first + size))
                first += size
            assert changed.take(at_version(store, 2 * DIGEST_EVERY - 1)) is None
            found[sizes] = changed.take(at_version(store, 2 * DIGEST_EVERY))
            note(changed, store, range(1))
            assert changed.take(at_version(store, 3 * DIGEST_EVERY)) is not None
        assert found[3,] != found[3, 5], "below the bound one entry more is in it"
        assert found[4,] == found[4, 5], "at the bound none is"
        assert len({*found.values()}) == 4
        changed = ChangedRows()
        assert changed.take(at_version(store, DIGEST_EVERY)) is None, "what came before is not known"
        assert changed.take(at_version(store, 2 * DIGEST_EVERY)) is not None
        changed.begin(DIGEST_EVERY + 1)
        assert changed.take(at_version(store, 2 * DIGEST_EVERY)) is None


@table(("index", "expected"), [(0, None), (4, [b"a", b"b", b"c"]), (5, [b"b", b"c"]), (7, []), (9, [])])
def test_the_journal_is_read_behind_an_index(
    tmp_path: Path, index: int, expected: list[bytes] | None
) -> None:
    with closing(Store.open(tmp_path / "store", sync=False)) as store:
        with store.reader() as reader:
            assert reader.journal_end() == reader.applied() == (1, 0)
            assert list(reader.journal_after(LogIndex(0))) == []
        for number, command in enumerate((b"a", b"b", b"c"), 5):
            store.txn.put(JOURNAL_KEY.pack(number), JOURNAL_TERM.pack(3) + command, db=store.journal_db)
        store.meta_put(APPLIED, msgspec.msgpack.encode((6, 2)))
        store.flush()
        with store.reader() as reader:
            assert (reader.journal_end(), reader.applied()) == ((7, 3), (6, 2))
            if expected is None:
                with pytest.raises(CorruptData, match="expected index 1, found 5"):
                    list(reader.journal_after(LogIndex(index)))
            else:
                assert list(reader.journal_after(LogIndex(index))) == expected


def test_an_error_of_the_database_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path / "store", sync=False)

    def failing(*_: object) -> None:
        raise lmdb.Error("broken")

    monkeypatch.setattr(store.scrub, "step", failing)
    with pytest.raises(lmdb.Error, match=r"store/data\.mdb: broken"):
        store.scrub_rows(1)
    store.abandon()


def test_a_store_in_use_costs_no_descriptor_for_each_attempt(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    for attempt in (lambda: Store.open(tmp_path / "store"), lambda: require_unused(tmp_path / "store")):
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            with pytest.raises(StoreInUse, match="stop that one first"):
                attempt()
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    store.abandon()
    require_unused(tmp_path / "store")
    require_unused(tmp_path / "nowhere")
