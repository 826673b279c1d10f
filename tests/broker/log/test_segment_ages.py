"""Which segments are full, past their time or to be cleaned: at each bound and one beyond it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.log.cleanable import Dirt
from fencepost.broker.log.cleaner import Group
from fencepost.broker.log.producer_snapshot import snapshots_in
from fencepost.broker.log.retention import count_past, is_expired, is_full, is_overdue, jitter_ms, waited_ms
from fencepost.broker.log.shapes import NEVER, NO_TIMESTAMP, LogConfig
from fencepost.records.batch import batch_header
from fencepost.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import NOTHING
from tests.broker.log.builders import NOW_MS, append, batch, filled, open_log
from tests.together import table

CONFIG = LogConfig(verification=False, retention_ms=1_000, segment_ms=1_000, retention_bytes=100)


@dataclass
class Segment:
    """As far as ages and sizes are looked at."""

    base: Offset = Offset(0)
    size: int = 40
    first_ms: int = 10_000
    max_timestamp_ms: int = 10_000
    path: Path = Path("/logs/topic-0/00000000000000000000.log")


def of(**fields: Any) -> Any:
    return Segment(**fields)


@table(("first_ms", "now_ms", "expected"), [(NO_TIMESTAMP, 5, 0), (0, 5, 5), (3, 5, 2), (7, 5, -2)])
def test_a_segment_waits_since_its_first_record(first_ms: int, now_ms: int, expected: int) -> None:
    assert waited_ms(of(first_ms=first_ms), now_ms) == expected


@table(
    ("config", "now_ms", "expected"),
    [
        (CONFIG, 11_000, False),
        (CONFIG, 11_001, True),
        (replace(CONFIG, max_compaction_lag_ms=10), 11_000, False),
        (replace(CONFIG, max_compaction_lag_ms=10, compact=True), 10_010, False),
        (replace(CONFIG, max_compaction_lag_ms=10, compact=True), 10_011, True),
        (replace(CONFIG, max_compaction_lag_ms=NEVER, compact=True), 11_001, True),
    ],
)
def test_an_active_segment_is_overdue(config: LogConfig, now_ms: int, expected: bool) -> None:
    assert is_overdue(of(), config, now_ms) == expected


def test_jitter_is_less_than_the_lower_of_its_bounds() -> None:
    assert jitter_ms(of(), replace(CONFIG, segment_jitter_ms=0)) == 0
    assert jitter_ms(of(), replace(CONFIG, segment_jitter_ms=1)) == 0
    for bounds in ((500, 1_000), (1_000, 500)):
        config = replace(CONFIG, segment_jitter_ms=bounds[0], segment_ms=bounds[1])
        found = {jitter_ms(of(base=Offset(base)), config) for base in range(2_000)}
        assert (min(found), max(found)) == (0, 499)
    config = replace(CONFIG, segment_jitter_ms=1_000)
    assert jitter_ms(of(), config) == 241, "it is the same at each start, on each machine"


@table(
    ("config", "newest_ms", "now_ms", "expected"),
    [
        (CONFIG, 10_000, 11_000, False),
        (CONFIG, 10_000, 11_001, True),
        (CONFIG, NO_TIMESTAMP, 11_001, False),
        (CONFIG, 0, 1_001, True),
        (replace(CONFIG, delete=False), 10_000, 11_001, False),
        (replace(CONFIG, retention_ms=-1), 10_000, 11_001, False),
        (replace(CONFIG, retention_ms=0), 10_000, 10_000, False),
        (replace(CONFIG, retention_ms=0), 10_000, 10_001, True),
    ],
)
def test_a_segment_is_past_its_time(config: LogConfig, newest_ms: int, now_ms: int, expected: bool) -> None:
    assert is_expired(of(max_timestamp_ms=newest_ms), config, now_ms) == expected


FOUR = [of(base=Offset(10 * n), max_timestamp_ms=10_000 + n) for n in range(4)]


@table(
    ("config", "now_ms", "start", "restored_from", "expected"),
    [
        (CONFIG, 0, 0, 99, 1),  # 160 bytes, of which 100 are kept
        (replace(CONFIG, retention_bytes=120), 0, 0, 99, 1),
        (replace(CONFIG, retention_bytes=121), 0, 0, 99, 0),
        (replace(CONFIG, retention_bytes=80), 0, 0, 99, 2),
        (replace(CONFIG, retention_bytes=0), 0, 0, 99, 3),  # the last one never goes
        (replace(CONFIG, retention_bytes=0), 0, 0, 10, 1),
        (replace(CONFIG, retention_bytes=0), 0, 0, 9, 0),
        (replace(CONFIG, retention_bytes=0, delete=False), 0, 0, 99, 0),
        (replace(CONFIG, retention_bytes=-1), 0, 0, 99, 0),
        (replace(CONFIG, retention_bytes=-1), 11_001, 0, 99, 1),
        (replace(CONFIG, retention_bytes=-1), 11_002, 0, 99, 2),
        (replace(CONFIG, retention_bytes=-1, delete=False), 0, 20, 99, 2),
        (replace(CONFIG, retention_bytes=-1), 0, 19, 99, 1),
        (replace(CONFIG, retention_bytes=-1), 0, 99, 20, 2),
    ],
)
def test_so_many_segments_are_past(
    config: LogConfig, now_ms: int, start: int, restored_from: int, expected: int
) -> None:
    assert count_past(FOUR, config, now_ms, Offset(start), Offset(restored_from)) == expected


def test_of_segments_of_other_sizes_those_go_that_are_too_much() -> None:
    sizes = [of(base=Offset(n), size=size) for n, size in enumerate((10, 50, 10, 10, 10))]
    config = replace(CONFIG, retention_ms=-1)
    for kept, expected in ((90, 0), (80, 1), (31, 1), (30, 2), (20, 3), (9, 4)):
        found = count_past(sizes, replace(config, retention_bytes=kept), 0, Offset(0), Offset(99))
        assert found == expected, kept


@table(
    ("dirty", "clean", "overdue_ms", "is_due"),
    [
        (0, 100, 5, False),
        (1, 0, 0, True),
        (50, 50, 0, False),
        (51, 50, 0, True),
        (1, 99, 0, False),
        (1, 99, 1, True),
    ],
)
def test_a_pass_is_due_for_enough_dirt_or_old_dirt(
    dirty: int, clean: int, overdue_ms: int, is_due: bool
) -> None:
    dirt = Dirt(Offset(0), Offset(9), dirty, clean, overdue_ms)
    assert dirt.is_due(LogConfig()) == is_due
    assert dirt.ratio == (dirty / (dirty + clean) if dirty else 0)


def test_what_may_be_cleaned_and_what_not_yet(tmp_path: Path) -> None:
    """Segments of twelve batches of two records, one millisecond apart; the last one is active."""
    log = filled(tmp_path, replace(CONFIG, segment_bytes=1_000, index_interval_bytes=100, segment_ms=NEVER))
    bases = [each.base for each in log.scrubbable.segments()]
    size = log.scrubbable.segments()[0].size
    config = log.config
    assert len(bases) > 4

    def dirt(clean_end: int = 0, stable: int = log.end, now_ms: int = NOW_MS, **settings: Any) -> Dirt:
        config = replace(log.config, **settings)
        return log.cleanable.dirt(Offset(clean_end), Offset(stable), config, now_ms)

    assert dirt() == Dirt(Offset(0), Offset(0), 0, 0, 0), "nothing of it is on the disk"
    log.flush()
    whole = Dirt(Offset(0), bases[-1], size * (len(bases) - 1), 0, 0)
    assert dirt() == whole
    assert dirt(stable=bases[-1]) == whole
    assert dirt(stable=bases[-1] - 1).end == bases[-2]
    assert dirt(stable=bases[1]).end == bases[1]
    assert dirt(stable=bases[1] - 1) == Dirt(Offset(0), Offset(0), 0, 0, 0)
    newest_ms = log.scrubbable.segments()[1].max_timestamp_ms
    assert dirt(min_compaction_lag_ms=5, now_ms=newest_ms + 5).end == bases[2]
    assert dirt(min_compaction_lag_ms=5, now_ms=newest_ms + 4).end == bases[1]
    assert dirt(min_compaction_lag_ms=1, now_ms=newest_ms).end == bases[1]
    assert dirt(min_compaction_lag_ms=0, now_ms=0) == whole
    assert dirt(max_compaction_lag_ms=5, now_ms=NOW_MS + 5).overdue_ms == 0
    assert dirt(max_compaction_lag_ms=5, now_ms=NOW_MS + 9).overdue_ms == 4
    assert dirt(clean_end=bases[2]) == whole, "what says so may be another log's, which had the name"
    log.cleanable.begin(Dirt(Offset(0), bases[2], 0, 0, 0), config)
    assert dirt(clean_end=bases[1]) == Dirt(bases[1], bases[-1], whole.dirty_bytes - size, size, 0)
    assert dirt(clean_end=bases[3]) == Dirt(bases[2], bases[-1], whole.dirty_bytes - 2 * size, 2 * size, 0)
    late_ms = log.scrubbable.segments()[2].first_ms
    assert dirt(clean_end=bases[2], max_compaction_lag_ms=5, now_ms=late_ms + 6).overdue_ms == 1
    log.close()


def test_a_pass_knows_the_segments_before_its_end_and_those_behind(tmp_path: Path) -> None:
    log = filled(tmp_path, replace(CONFIG, segment_bytes=1_000, segment_ms=NEVER))
    bases = tuple(each.base for each in log.scrubbable.segments())
    log.flush()
    dirty = log.cleanable.begin(Dirt(bases[1], bases[3], 0, 0, 0), log.config)
    assert min(snapshots_in(log.directory)) >= bases[3]
    assert (dirty.bases, dirty.end, dirty.later) == (bases[:3], bases[3], bases[3:])
    assert (dirty.first_dirty, list(dirty.producers)) == (bases[1], [7])


def test_segments_that_went_while_they_were_cleaned_are_not_replaced(tmp_path: Path) -> None:
    log = filled(tmp_path, replace(CONFIG, segment_bytes=1_000, segment_ms=NEVER))
    bases = tuple(each.base for each in log.scrubbable.segments())
    for group in ((bases[0], bases[2]), (*bases, Offset(999))):
        with pytest.raises(InvariantViolation, match="went while"):
            log.cleanable.swap_in(Group(group, bases[3], NOTHING))
    assert tuple(each.base for each in log.scrubbable.segments()) == bases


def test_a_segment_is_full_by_bytes_by_indexes_or_by_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(CONFIG, segment_bytes=1_000))
    append(log, batch())
    active = log.scrubbable.segments()[0]
    headers = [batch_header(batch(timestamp_ms=NOW_MS + after_ms)) for after_ms in (1_000, 1_001)]
    assert not is_full(active, 1_000 - active.size, headers[0], log.config)
    assert is_full(active, 1_001 - active.size, headers[0], log.config)
    assert is_full(active, 1, headers[1], log.config)
    assert is_full(active, 1, headers[0], replace(log.config, index_bytes_max=11))
    assert not is_full(active, 1, headers[0], replace(log.config, index_bytes_max=12))


@table(("codec", "level"), [(None, None), (GZIP, 1), (LZ4, 2), (ZSTD, 3), (SNAPPY, None)])
def test_the_level_of_a_codec(codec: int | None, level: int | None) -> None:
    assert LogConfig(codec=codec, gzip_level=1, lz4_level=2, zstd_level=3).level == level
