"""What a cleaner reads: a batch of which a byte changed ends its pass; no file stays open; it may wait."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from fencepost.broker.log.cleaner import CleanerPass
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.segment_sums import save_sums
from fencepost.records.batch import batch_header
from fencepost.records.batch_layout import AT, CHECKED_AT, size_at
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import NOTHING
from fencepost.snapshots.file_sums import Summed
from tests.broker.log.builders import NOW_MS, open_log, read_all
from tests.broker.log.test_cleaner import CONFIG, clean, play
from tests.broker.log.test_open_files import open_under


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    """A log with dirty segments, flushed."""
    made = open_log(tmp_path / "log", CONFIG)
    play(made)
    made.flush()
    yield made
    made.close()


def test_a_pass_leaves_no_file_open_that_is_not_the_logs(log: PartitionLog) -> None:
    """What it replaces is read before, and what takes its place before that has its name."""
    expected = read_all(log, 500)
    dirt = log.cleanable.dirt(Offset(0), log.last_stable_offset, CONFIG, NOW_MS)
    work = CleanerPass(log.cleanable.begin(dirt, CONFIG), NOW_MS, lambda: None)
    work.begin()
    while (group := work.next_group()) is not None:
        log.cleanable.swap_in(group)
        assert len(read_all(log, 500)) < len(expected)
        work.remove_old(group)
        log.cleanable.settle(group)
        log.cleanable.settled(group)
    log.close()
    assert open_under(log.directory) == 0


def test_a_pass_may_wait_after_each_batch(log: PartitionLog) -> None:
    paced: list[None] = []
    dirt = log.cleanable.dirt(Offset(0), log.last_stable_offset, CONFIG, NOW_MS)
    work = CleanerPass(log.cleanable.begin(dirt, CONFIG), NOW_MS, lambda: paced.append(None))
    work.begin()
    assert len(paced) == sum(1 for each in log._segments if each.base < dirt.end for _ in each.walk()) > 0
    learned = len(paced)
    assert work.next_group() is not None
    assert len(paced) > learned


def test_changed_bytes_end_a_pass_and_nothing_is_replaced(log: PartitionLog) -> None:
    """Of a header's those, too, which no checksum covers: what is left of a batch is summed as it is then."""
    victim = sorted(log.directory.glob("*.log"))[2]
    sound = victim.read_bytes()
    before = {path.name for path in log.directory.glob("*.log")}
    for at in (*range(CHECKED_AT), size_at(sound, 0) - 1):
        content = bytearray(sound)
        content[at] ^= 1
        victim.write_bytes(content)
        with pytest.raises(CorruptData, match=rf"{victim.name}, position \d+: "):
            clean(log)
        assert {path.name for path in log.directory.glob("*.log")} == before
        assert not list(log.directory.glob("*.cleaned"))
    victim.write_bytes(sound)
    clean(log)


def test_a_changed_offset_where_some_may_be_missing_ends_the_next_pass(log: PartitionLog) -> None:
    """It lies behind the one before it: where its segment ends tells, or the segment's sum."""
    clean(log)
    victim, at = next(each for path in sorted(log.directory.glob("*.log")) for each in before_gaps(path))
    sound = victim.read_bytes()
    save_sums(victim, NOTHING._replace(batches=Summed(len(sound), crc32c(sound))))
    for by, why in ((100, "its segment at"), (1, "other bytes than were written")):
        content = bytearray(sound)
        content[at + AT["base_offset"] + 7] += by
        victim.write_bytes(content)
        with pytest.raises(CorruptData, match=rf"{victim.name}, position \d+: .*{why}"):
            clean(log)
    victim.write_bytes(sound)
    clean(log)


def test_where_no_offset_is_missing_a_batch_proves_itself(log: PartitionLog) -> None:
    """The segment's sum is another one, as an earlier version left it that cut a log: the pass ends well."""
    first = min(log.directory.glob("*.log"))
    content = first.read_bytes()
    save_sums(first, NOTHING._replace(batches=Summed(len(content), crc32c(content) ^ 1)))
    clean(log)


def before_gaps(path: Path) -> Iterator[tuple[Path, int]]:
    """Where batches begin behind which an offset is missing."""
    content, at = path.read_bytes(), 0
    while at < len(content):
        header = batch_header(content, at)
        if (
            at + header.size < len(content)
            and batch_header(content, at + header.size).base_offset > header.end
        ):
            yield path, at
        at += header.size
