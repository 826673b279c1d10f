"""The files are Kafka's: an independent reader (kio for batches, ``struct`` by the tables of Kafka's sources)
finds in them what was written, and agrees with the log on what is aborted and stable."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.producer_snapshot import decode_producers, encode_producers
from fencepost.broker.log.producer_state import CachedBatch, Producer
from fencepost.broker.log.shapes import NO_OFFSET, LogConfig
from fencepost.records.batch import decode_batch
from fencepost.records.end_marker import EndMarker, encode_end_marker, end_marker
from fencepost.records.invariant import CorruptData
from fencepost.records.types import ImageVersion, Offset, ProducerId, Term
from tests.broker.log.builders import NOW_MS, append, batch, compressed, end_transaction, open_log

CONFIG = LogConfig(verification=False, segment_bytes=3000, index_interval_bytes=300)


class Seen(NamedTuple):
    """A batch as the independent reader sees it."""

    segment: int
    position: int
    base: int
    last: int
    producer: int
    epoch: int
    sequence: int
    max_timestamp: int
    is_transactional: bool
    marker: str  # "COMMIT", "ABORT" or ""


@dataclass
class Files:
    """A log's directory, read without any of its code."""

    directory: Path

    def batches(self) -> list[Seen]:
        return [seen for path in sorted(self.directory.glob("*.log")) for seen in self._segment(path)]

    def entries(self, suffix: str, form: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Base offset of the segment, and each entry."""
        for path in sorted(self.directory.glob(f"*{suffix}")):
            assert len(path.stem) == 20
            for entry in struct.iter_unpack(form, path.read_bytes()):
                yield int(path.stem), entry

    def _segment(self, path: Path) -> Iterator[Seen]:
        raw = path.read_bytes()
        position = 0
        while position < len(raw):
            size = struct.unpack_from(">i", raw, position + 8)[0] + 12
            one, _ = read_batch(io.BytesIO(raw[position : position + size]).getvalue(), 0)
            marker = ""
            if one.attributes & 0x20:
                marker = {0: "ABORT", 1: "COMMIT"}[struct.unpack(">hh", one.records[0].key or b"")[1]]
            yield Seen(
                int(path.stem), position, one.base_offset, one.base_offset + one.last_offset_delta,
                one.producer_id, one.producer_epoch, one.base_sequence, one.max_timestamp,
                bool(one.attributes & 0x10), marker,
            )  # fmt: skip
            position += size


def written(directory: Path) -> PartitionLog:
    """A log with everything in it."""
    log = open_log(directory, CONFIG)
    for number in range(60):
        append(log, batch(number % 4, number // 4, transactional=True, timestamp_ms=NOW_MS + number * 7 % 30))
        append(log, batch(count=3, timestamp_ms=NOW_MS + number))
        if number % 3 == 2:
            end_transaction(log, (number - 1) % 4, committed=number % 2 == 0, version=number)
    return log


def test_batches_follow_each_other(tmp_path: Path) -> None:
    log = written(tmp_path)
    batches = Files(log.directory).batches()
    assert len({seen.segment for seen in batches}) > 3
    expected = 0
    for seen in batches:
        assert seen.base == expected
        assert (seen.position == 0) == (seen.base == seen.segment)
        expected = seen.last + 1
    assert expected == log.end


def test_the_offset_index_names_batches(tmp_path: Path) -> None:
    log = written(tmp_path)
    files = Files(log.directory)
    places = {(seen.segment, seen.last - seen.segment): seen.position for seen in files.batches()}
    entries = list(files.entries(".index", ">ii"))
    assert len(entries) > 20
    assert all(places[base, offset] == position for base, (offset, position) in entries)
    assert entries == sorted(set(entries))


def test_the_time_index_has_the_greatest_time_so_far(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.close()
    files = Files(log.directory)
    batches = files.batches()
    entries = list(files.entries(".timeindex", ">qi"))
    for base, (time, offset) in entries:
        before = [
            seen.max_timestamp for seen in batches if seen.segment == base and seen.last <= base + offset
        ]
        assert max(before) == time == before[-1]
    for base in {seen.segment for seen in batches}:
        times = [seen.max_timestamp for seen in batches if seen.segment == base]
        assert max(time for of, (time, _) in entries if of == base) == max(times)


def test_the_transaction_index_has_the_aborted_transactions(tmp_path: Path) -> None:
    log = written(tmp_path)
    files = Files(log.directory)
    opened: dict[int, int] = {}
    expected = []
    for seen in files.batches():
        if seen.marker:
            first = opened.pop(seen.producer, None)
            if first is not None and seen.marker == "ABORT":
                stable = min(opened.values(), default=seen.last + 1)
                expected.append((seen.segment, (0, seen.producer, first, seen.last, stable)))
        elif seen.is_transactional:
            opened.setdefault(seen.producer, seen.base)
    assert len(expected) > 5
    assert list(files.entries(".txnindex", ">hqqqq")) == expected
    assert log.last_stable_offset == min(opened.values())


def test_the_producer_snapshot_is_kafkas(tmp_path: Path) -> None:
    log = written(tmp_path)
    rows = log.producers()
    log.close()
    path = log.directory / f"{log.end:020d}.snapshot"
    raw = path.read_bytes()
    version, crc, count = struct.unpack_from(">hIi", raw)
    assert (version, crc) == (1, crc32c(raw[6:]))
    entries = sorted(struct.unpack_from(">qhiqiqiq", raw, 10 + 46 * number) for number in range(count))
    assert [(e[0], e[1], e[2], e[5], e[6], e[7]) for e in entries] == [tuple(row) for row in rows]
    last = {seen.producer: seen for seen in Files(log.directory).batches() if not seen.marker}
    assert all(entry[3] == last[entry[0]].last for entry in entries)


def test_segments_begin_where_they_say_and_are_not_too_large(tmp_path: Path) -> None:
    log = written(tmp_path)
    for path in log.directory.glob("*.log"):
        assert 0 < path.stat().st_size <= CONFIG.segment_bytes
        assert {path.with_suffix(suffix).exists() for suffix in (".index", ".timeindex", ".txnindex")} == {
            True
        }


def test_kio_does_not_need_to_open_what_is_compressed(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    sent = compressed(batch(7, 0, count=5), "zstd")
    append(log, sent)
    raw = (log.directory / f"{0:020d}.log").read_bytes()
    assert raw[16:] == sent[16:]


producers = st.builds(
    Producer,
    epoch=st.integers(-1, 32_767),
    batches=st.lists(
        st.builds(
            CachedBatch,
            last_sequence=st.integers(0, 2**31 - 1),
            last_offset=st.integers(0, 2**63 - 1).map(Offset),
            offset_delta=st.integers(0, 2**31 - 1),
            timestamp_ms=st.integers(-1, 2**63 - 1),
        ),
        max_size=5,
    ).map(tuple),
    coordinator_epoch=st.integers(-1, 2**31 - 1),
    last_timestamp_ms=st.integers(-1, 2**63 - 1),
    transaction_first=st.integers(-1, 2**63 - 1).map(Offset),
    marker_version=st.integers(0, 2**64 - 1).map(ImageVersion),
    seen_ms=st.integers(-1, 2**63 - 1),
)
tables = st.dictionaries(st.integers(0, 2**63 - 1).map(ProducerId), producers, max_size=6)


@given(tables)
def test_a_producer_snapshot_comes_back(table: dict[ProducerId, Producer]) -> None:
    assert decode_producers(encode_producers(table)) == table


def test_a_producer_without_batches_has_kafkas_values_for_none() -> None:
    """ProducerStateEntry: sequence -1, offset -1, delta 0."""
    raw = encode_producers({ProducerId(7): Producer(3, (), 5, NOW_MS, NO_OFFSET, ImageVersion(0), NOW_MS)})
    assert struct.unpack_from(">iqhiqiqiq", raw, 6) == (1, 7, 3, -1, -1, 0, NOW_MS, 5, -1)


@given(tables, st.data())
def test_a_damaged_producer_snapshot_is_refused(
    table: dict[ProducerId, Producer], drawn: st.DataObject
) -> None:
    raw = encode_producers(table)
    position = drawn.draw(st.integers(0, len(raw) - 1))
    damaged = raw[:position] + bytes((raw[position] ^ drawn.draw(st.integers(1, 255)),)) + raw[position + 1 :]
    for bad in (damaged, raw[:position]):
        try:
            decode_producers(bad)
        except CorruptData:
            continue
        raise AssertionError(f"taken: {bad!r}")


@given(st.binary(max_size=300), st.integers(-3, 300))
def test_bytes_with_a_right_crc_that_are_no_snapshot_are_refused(body: bytes, count: int) -> None:
    body = struct.pack(">i", count) + body
    try:
        decode_producers(struct.pack(">hI", 1, crc32c(body)) + body)
    except CorruptData:
        pass


@given(
    st.integers(0, 2**63 - 1), st.integers(0, 32_767), st.booleans(), st.integers(0, 2**31 - 1),
    st.integers(0, 2**64 - 1),
)  # fmt: skip
def test_a_marker_comes_back(
    producer: int, epoch: int, committed: bool, coordinator_epoch: int, version: int
) -> None:
    marker = EndMarker(
        producer_id=ProducerId(producer),
        producer_epoch=epoch,
        committed=committed,
        coordinator_epoch=coordinator_epoch,
        version=ImageVersion(version),
    )
    raw = encode_end_marker(marker, base_offset=Offset(9), leader_epoch=Term(2), now_ms=NOW_MS)
    assert end_marker(decode_batch(raw)[0]) == marker
