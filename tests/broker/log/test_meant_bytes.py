"""What is saved is the sum of the bytes that were meant: one that changes before it is saved is found."""

import errno
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from crc32c import crc32c

from fencepost.broker.log import segment_sums
from fencepost.broker.log.cleaner import CleanerPass
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.index_file import INDEX_SUFFIXES
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import is_summed
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.batch_layout import LEADER_EPOCH_AT
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import SUFFIX, load_sums
from fencepost.snapshots.file_sums import Summed
from tests.broker.log.builders import NOW_MS, append, batch, crash, open_log
from tests.broker.log.sums import everything, opened, scrub, segments
from tests.broker.log.test_cleaner import CONFIG as COMPACTED
from tests.broker.log.test_cleaner import clean, play
from tests.broker.log.test_recovery import SMALL, transactions
from tests.together import table

ONE_SEGMENT = LogConfig(verification=False, index_interval_bytes=100)


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1 << at % 8
    path.write_bytes(raw)


def killed(log: PartitionLog, tmp_path: Path) -> PartitionLog:
    return opened(crash(log, tmp_path / "killed") / log.directory.name, log.config)


def closed(log: PartitionLog, _: Path) -> PartitionLog:
    log.close()
    return opened(log.directory, log.config)


def cut(log: PartitionLog, _: Path) -> PartitionLog:
    """Inside the segment, and its sums are gone: a sum cannot be cut. The scrub reads the batches."""
    log.close()
    log = opened(log.directory, log.config)
    append(log, *(batch() for _ in range(5)))
    log.truncate_to(Offset(log.end - 3), NOW_MS)
    scrub(log)
    return log


def torn(log: PartitionLog, tmp_path: Path) -> PartitionLog:
    """By a crash: the last batch is cut at the start."""
    copy = crash(log, tmp_path / "torn") / log.directory.name
    path = segments(copy)[-1]
    path.write_bytes(path.read_bytes()[:-1])
    again = opened(copy, log.config)
    assert again.repairs
    return again


def unsummed(log: PartitionLog, _: Path) -> PartitionLog:
    """As an earlier version leaves it: the scrub reads the batches."""
    log.close()
    for each in log.directory.glob(f"*{SUFFIX}"):
        each.unlink()
    log = opened(log.directory, log.config)
    scrub(log)
    return log


def same(log: PartitionLog, _: Path) -> PartitionLog:
    return log


LIVES = (same, killed, closed, cut, torn, unsummed)


@table("life", LIVES)
def test_in_the_segment_that_is_appended_to(
    tmp_path: Path, life: Callable[[PartitionLog, Path], PartitionLog]
) -> None:
    """In each byte, in what is newly appended and in what was there: the next start names it."""
    log = life(transactions(open_log(tmp_path / "a", ONE_SEGMENT), 2), tmp_path)
    append(log, *(batch() for _ in range(3)))
    answers = everything(log)
    (path,) = segments(log.directory)
    size = path.stat().st_size
    newest = range(size - len(batch()), size, 1 if life is same else 9)
    for at in (*range(0, newest.start, 71), *newest):
        flip(path, at)
        log._request_snapshot()
        log.flush()
        with pytest.raises(DamagedLog, match=path.name):
            opened(log.directory, ONE_SEGMENT)
        flip(path, at)
    log._let_go()
    again = opened(log.directory, ONE_SEGMENT)
    assert everything(again) == answers
    again._let_go()


@table("life", LIVES)
def test_in_full_segments(tmp_path: Path, life: Callable[[PartitionLog, Path], PartitionLog]) -> None:
    """Each is summed as it was meant, and what changed meanwhile is found by the scrub of any life."""
    log = life(transactions(open_log(tmp_path / "a", SMALL), 6), tmp_path)
    if life is not same:
        log._request_snapshot()
        log.flush()  # the next one is of what comes now alone
    append(log, *(batch() for _ in range(20)))
    changed = segments(log.directory)[-2]
    for at in range(0, changed.stat().st_size, 31):
        flip(changed, at)
        log._request_snapshot()
        log.flush()
        with pytest.raises(CorruptData, match=changed.name):
            scrub(log)
        flip(changed, at)
    flip(changed, -20)
    log._request_snapshot()
    log.close()
    assert all(map(is_summed, segments(log.directory)))
    again = opened(log.directory)
    with pytest.raises(DamagedLog, match=changed.name):
        scrub(again)
    again._let_go()
    flip(changed, -20)
    for each in segments(log.directory):
        raw = each.read_bytes()
        assert load_sums(each).batches == Summed(len(raw), crc32c(raw))


@table("life", LIVES)
def test_in_an_index(tmp_path: Path, life: Callable[[PartitionLog, Path], PartitionLog]) -> None:
    log = life(transactions(open_log(tmp_path / "a", SMALL), 6), tmp_path)
    transactions(log, 4, 6)
    for number, suffix in enumerate(INDEX_SUFFIXES):
        copy = crash(log, tmp_path / str(number)) / log.directory.name
        again = opened(copy)
        transactions(again, 3, 10)
        answers = everything(again)
        path = [each for each in sorted(copy.glob(f"*{suffix}")) if each.stat().st_size][-1]
        flip(path, path.stat().st_size - 1)
        again.close()
        again = opened(copy)
        assert any("indexes made again" in each for each in again.repairs)
        assert everything(again) == answers
        again._let_go()
    log._let_go()


def test_in_an_index_that_was_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = transactions(open_log(tmp_path, SMALL), 6)
    answers = everything(log)
    log.close()
    path = segments(log.directory)[0].with_suffix(".index")
    raw = path.read_bytes()
    path.write_bytes(b"")
    original = Segment.sync_indexes

    def changed(segment: Segment) -> None:
        original(segment)
        if segment.offsets.path == path:
            path.write_bytes(raw[:-1] + bytes((raw[-1] ^ 1,)))  # another position, in the same order

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "sync_indexes", changed)
        opened(log.directory)._let_go()
    assert path.read_bytes() != raw
    again = opened(log.directory)
    assert again.repairs
    assert everything(again) == answers
    assert path.read_bytes() == raw
    again._let_go()


@table("is_torn", [False, True])
def test_where_the_newest_snapshot_is_lost_what_it_summed_counts_unless_it_is_cut(
    tmp_path: Path, is_torn: bool
) -> None:
    """By a crash of the machine. More was summed than a start compares."""
    log = open_log(tmp_path, ONE_SEGMENT)
    append(log, *(batch() for _ in range(4)))
    log.close()
    (kept,) = log.directory.glob("*.snapshot")
    content = kept.read_bytes()
    log = opened(log.directory, ONE_SEGMENT)
    append(log, *(batch(timestamp_ms=NOW_MS + 1) for _ in range(4)))
    log.close()
    for each in log.directory.glob("*.snapshot"):
        each.unlink()
    kept.write_bytes(content)
    (path,) = segments(log.directory)
    if is_torn:
        flip(path, path.stat().st_size - 1)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("segment_sums", "unchecked"):
            patch.setattr(f"fencepost.broker.log.{module}.COMPARED_BYTES_MAX", 10)
        log = opened(log.directory, ONE_SEGMENT, went_down=True)
        assert bool(log.repairs) == is_torn
        append(log, batch(timestamp_ms=NOW_MS + 2))
        log.close()
    raw = path.read_bytes()
    assert load_sums(path).batches == (Summed(0, 0) if is_torn else Summed(len(raw), crc32c(raw)))


def test_sums_that_were_due_when_a_cleaner_came_are_not_those_of_its_segment(tmp_path: Path) -> None:
    """They could not be saved before: the disk was full. The next flush comes in the middle of the swap."""
    log = open_log(tmp_path, COMPACTED)
    play(log, 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_sums, "save_sums", full)
        log._request_snapshot()
        log.flush()
    dirt = log.cleanable.dirt(Offset(0), log.last_stable_offset, log.config, NOW_MS)
    work = CleanerPass(log.cleanable.begin(dirt, log.config), NOW_MS, lambda: None)
    work.begin()
    group = work.next_group()
    assert group is not None
    log._request_snapshot()
    log.cleanable.swap_in(group)
    work.remove_old(group)
    log.cleanable.settle(group)
    log.flush()
    raw = (log.directory / f"{group.bases[0]:020d}.log").read_bytes()
    known = load_sums(log.directory / f"{group.bases[0]:020d}.log").batches
    assert known in (Summed(0, 0), Summed(len(raw), crc32c(raw)))
    log.cleanable.settled(group)
    log.close()


def full(segment: Path, *_: object) -> None:
    raise OSError(errno.ENOSPC, "no space", str(segment))


def test_in_what_a_cleaner_wrote(tmp_path: Path) -> None:
    """An offset, which no checksum of the batch covers, and where offsets may be left out."""
    log = open_log(tmp_path, COMPACTED)
    play(log, 30)
    log.flush()
    clean(log)
    path, second = next(
        (path, behind)
        for path in segments(log.directory)
        for before, behind in pairwise(Segment(log.directory, Offset(int(path.stem))).walk())
        if behind.base_offset > before.end
    )
    raw = bytearray(path.read_bytes())
    raw[second.position : second.position + 8] = (second.base_offset - 1).to_bytes(8, "big")
    path.write_bytes(raw)
    log._request_snapshot()
    log.flush()
    with pytest.raises(CorruptData, match=path.name):
        scrub(log)
    log._let_go()


def test_what_is_appended_while_the_scrub_reads_has_no_sum_until_the_segment_is_full(tmp_path: Path) -> None:
    log = unsummed(transactions(open_log(tmp_path, SMALL), 1), tmp_path)
    log._let_go()
    for each in log.directory.glob(f"*{SUFFIX}"):
        each.unlink()
    log = opened(log.directory)
    active = log.scrubbable.segments()[-1]
    part = log.scrubbable.part(active)
    assert part is not None
    found = log.scrubbable.scrub(part, lambda _: None)
    append(log, batch())
    log.scrubbable.scrubbed(part, found)
    again = log.scrubbable.part(active)
    assert again is not None
    assert log.scrubbable.scrub(again, lambda _: None) is None, "not in each round"
    append(log, batch())
    log._request_snapshot()
    log.flush()
    assert not load_sums(active.path).batches.size
    append(log, *(batch() for _ in range(12)))
    assert segments(log.directory)[-1] != active.path
    for _ in range(2):
        scrub(log)
        log._request_snapshot()
        log.flush()
    assert all(map(is_summed, segments(log.directory)))
    log.close()


def test_a_leader_epoch_that_changed_before_it_was_summed_is_found(tmp_path: Path) -> None:
    """The four bytes that no checksum of a batch covers, of the last batch."""
    log = open_log(tmp_path, ONE_SEGMENT)
    append(log, *(batch() for _ in range(4)))
    (path,) = segments(log.directory)
    *_, last = Segment(log.directory, Offset(0)).walk()
    flip(path, last.position + LEADER_EPOCH_AT + 3)
    log.close()
    with pytest.raises(DamagedLog, match="epoch"):
        opened(log.directory, ONE_SEGMENT)
