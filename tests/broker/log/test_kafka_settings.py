"""Settings of a topic that a log obeys: sizes of indexes, jitter, the times of records, levels of codecs."""

import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.retention import jitter_ms
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.shapes import LogConfig
from fencepost.controller.errors import InvalidTimestamp
from fencepost.records.batch import batch_header
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.compression import BY_NAME, GZIP, LZ4, LZ4_LEVEL_FAST, ZSTD, compress, decompress
from fencepost.records.filtered import opened, recompressed
from fencepost.records.types import Offset
from tests.broker.log.builders import CODECS, NOW_MS, append, batch, compressed, open_log
from tests.broker.log.test_validation import in_slices, records
from tests.together import table

CONFIG = LogConfig(verification=False)


def bases(log: PartitionLog) -> list[int]:
    return [int(path.stem) for path in sorted(log.directory.glob("*.log"))]


def test_a_segment_is_full_when_an_index_of_it_is(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(CONFIG, index_interval_bytes=0, index_bytes_max=24))
    for _ in range(9):
        append(log, batch())
    assert bases(log) == [0, 4, 8], "a segment's first batch has no entry, and three have eight bytes each"
    log.config = replace(log.config, index_bytes_max=4)
    append(log, batch())
    append(log, batch())
    assert bases(log) == [0, 4, 8, 9, 10], "an empty segment takes a batch, whatever its indexes may have"


def test_an_empty_segment_takes_a_batch_that_is_larger_than_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(CONFIG, segment_bytes=10))
    append(log, batch(), batch())
    assert [each.base for each in log._segments] == [0, 1]


def test_entries_of_an_index_are_as_far_apart_as_is_set(tmp_path: Path) -> None:
    sizes = []
    for interval in (0, 1_000):
        log = open_log(tmp_path / str(interval), replace(CONFIG, index_interval_bytes=interval))
        for _ in range(40):
            append(log, batch())
        sizes.append((Segment(log.directory, Offset(0)).path.with_suffix(".index")).stat().st_size)
    assert sizes[0] > 3 * sizes[1] > 0


def test_a_batch_has_an_entry_if_more_than_the_interval_lies_before_it(tmp_path: Path) -> None:
    size = len(batch())
    log = open_log(tmp_path, replace(CONFIG, index_interval_bytes=2 * size))
    for _ in range(10):
        append(log, batch())
    positions = [position for _, position in Segment(log.directory, Offset(0)).offsets.entries()]
    assert positions == [3 * size, 6 * size, 9 * size]


def test_a_time_is_found_at_any_of_its_entries(tmp_path: Path) -> None:
    """Each batch but the first has an entry in both indexes."""
    log = open_log(tmp_path, replace(CONFIG, index_interval_bytes=0))
    for number in range(5):
        append(log, batch(timestamp_ms=NOW_MS + 10 * number))
    found = [log.offset_for_time(NOW_MS + after) for after in (-1, 0, 1, 10, 11, 20, 21, 39, 40)]
    assert [each and each.offset for each in found] == [0, 0, 1, 1, 2, 2, 3, 4, 4]


def segment(directory: Path, base: int) -> Segment:
    (directory / f"{base:020}.log").touch()
    return Segment(directory, Offset(base))


def test_jitter_is_of_the_segment_and_less_than_is_set(tmp_path: Path) -> None:
    config = replace(CONFIG, segment_ms=10_000, segment_jitter_ms=8_000)
    found = [jitter_ms(segment(tmp_path, base), config) for base in range(50)]
    assert found == [jitter_ms(segment(tmp_path, base), config) for base in range(50)]
    assert all(0 <= each < 8_000 for each in found)
    assert len(set(found)) > 40
    beyond = replace(config, segment_jitter_ms=2**63 - 1)
    assert max(jitter_ms(segment(tmp_path, base), beyond) for base in range(50)) < 10_000
    assert {jitter_ms(segment(tmp_path, base), CONFIG) for base in range(50)} == {0}


def test_a_segment_is_rolled_sooner_by_its_jitter(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(CONFIG, segment_ms=10_000, segment_jitter_ms=8_000))
    append(log, batch())
    sooner = jitter_ms(Segment(log.directory, Offset(0)), log.config)
    assert sooner > 0
    log.roll_overdue(NOW_MS + 10_000 - sooner)
    assert bases(log) == [0]
    log.roll_overdue(NOW_MS + 10_001 - sooner)
    assert bases(log) == [0, 1]


OLD = records("0e 00 cf0f 00 01 00 00")  # one second before the batch's first time
TIMES = [
    pytest.param(batch(timestamp_ms=NOW_MS - 500), True, id="within"),
    pytest.param(batch(timestamp_ms=NOW_MS - 501, count=3), False, id="before"),
    pytest.param(OLD, False, id="a-record-before-its-batch"),
    *(pytest.param(compressed(OLD, codec), False, id=f"packed-{codec}") for codec in CODECS),
    pytest.param(batch(timestamp_ms=-1), True, id="without-a-time"),
]


@table(("sent", "is_taken"), TIMES)
def test_a_record_may_be_so_old_and_no_older(sent: bytes, is_taken: bool) -> None:
    config = replace(CONFIG, timestamp_before_ms_max=500)
    if is_taken:
        in_slices(sent, config, NOW_MS)
    else:
        with pytest.raises(InvalidTimestamp, match=r"message\.timestamp\.before\.max\.ms is 500"):
            in_slices(sent, config, NOW_MS)
    in_slices(sent, CONFIG, NOW_MS)
    in_slices(sent, replace(config, log_append_time=True), NOW_MS)


def test_a_record_may_be_so_new_and_no_newer() -> None:
    config = replace(CONFIG, timestamp_after_ms_max=500)
    in_slices(batch(timestamp_ms=NOW_MS + 500), config, NOW_MS)
    with pytest.raises(InvalidTimestamp, match=r"message\.timestamp\.after\.max\.ms"):
        in_slices(batch(timestamp_ms=NOW_MS + 501), config, NOW_MS)


BODY = b"".join(b"%d," % (each * each % 9_973) for each in range(20_000))
LEVELS = [(GZIP, 1, 9), (LZ4, LZ4_LEVEL_FAST, 17), (ZSTD, 1, 19)]


@pytest.mark.parametrize(("codec", "low", "high"), LEVELS)
def test_a_codec_works_as_hard_as_is_set(codec: int, low: int, high: int) -> None:
    fast, small = compress(codec, BODY, low), compress(codec, BODY, high)
    assert len(small) < len(fast)
    assert bytes(decompress(codec, fast)) == bytes(decompress(codec, small)) == BODY


def test_a_batch_is_compressed_at_the_level_of_its_topic() -> None:
    sent = batch(value=BODY)
    header = batch_header(sent)
    levels = {"gzip": replace(CONFIG, gzip_level=1), "zstd": replace(CONFIG, zstd_level=19)}
    for name, config in levels.items():
        codec = BY_NAME[name]
        level = replace(config, codec=codec).level
        packed = bytes(recompressed(sent, header, codec, level))
        assert packed[HEADER_BYTES:] == compress(codec, sent[HEADER_BYTES:], level)
        assert bytes(opened(packed, batch_header(packed))) == sent[HEADER_BYTES:]
    assert zlib.decompress(compress(GZIP, b"x", -1), wbits=31) == b"x"
    assert replace(CONFIG, codec=BY_NAME["snappy"]).level is None
