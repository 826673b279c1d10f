"""Checksums beside a segment: an index that changed is made again, a segment that shrank is damage."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest
from crc32c import crc32c

from fencepost.broker.log import durability, segment_sums
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.index_file import INDEX_SUFFIXES, IndexFile
from fencepost.broker.log.repair import cut, inspect
from fencepost.broker.log.segment import SUFFIXES, Segment
from fencepost.broker.log.segment_sums import Extent, is_summed, save_sums, sum_segment
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import MADE_AGAIN, NOTHING, SUFFIX, SegmentSums, load_sums
from fencepost.snapshots.file_sums import NOT_SUMMED, Summed
from tests.broker.log.builders import NOW_MS, append, batch
from tests.broker.log.sums import everything, opened, scrub, segments
from tests.broker.log.test_recovery import transactions

EPOCH_AT = 15  # the last byte of a batch's leader epoch


def changed(raw: bytes) -> Iterator[bytes]:
    for position in range(0, len(raw), 7):
        yield raw[:position] + bytes((raw[position] ^ 0x01,)) + raw[position + 1 :]
    if raw:
        yield raw[: -(34 if len(raw) % 34 == 0 else 12 if len(raw) % 12 == 0 else 8)]
        yield b""


@pytest.mark.parametrize("suffix", INDEX_SUFFIXES)
def test_an_index_that_changed_is_made_again_before_it_is_used(
    tmp_path: Path, closed: tuple[Path, tuple[object, ...]], suffix: str
) -> None:
    """In a full segment and in the last one, whatever byte it is, and if entries are missing at its end."""
    directory, answers = closed
    for path in sorted(directory.glob(f"*{suffix}")):
        for raw in changed(path.read_bytes()):
            copy = tmp_path / "copy"
            copytree(directory, copy)
            (copy / path.name).write_bytes(raw)
            log = opened(copy)
            assert log.repairs, (path.name, raw)
            assert everything(log) == answers, (path.name, raw)
            log._let_go()
            log = opened(copy)
            assert log.repairs == (), "made again once"
            log._let_go()
            rmtree(copy)


def test_killed_while_indexes_are_made_again_they_are_not_believed(
    tmp_path: Path, closed: tuple[Path, tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each entry that is written: also where no sums were, as in an earlier version's directory."""
    directory, answers = closed
    for path in directory.glob(f"*{SUFFIX}"):
        path.unlink()
    (directory / segments(directory)[0].with_suffix(".index").name).unlink()
    original, left = IndexFile.append, 0

    def append_entry(self: IndexFile, *entry: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        original(self, *entry)

    killed = 0
    for count in range(1000):
        copy = tmp_path / "copy"
        copytree(directory, copy)
        left = count
        with monkeypatch.context() as patch:
            patch.setattr(IndexFile, "append", append_entry)
            patch.setattr("fencepost.broker.log.aborted.AbortedIndex.append", append_entry)
            try:
                opened(copy)._let_go()
            except KeyboardInterrupt:
                killed += 1
            else:
                break
        log = opened(copy)
        assert everything(log) == answers
        log._let_go()
        rmtree(copy)
    assert killed > 20


def test_a_log_with_sums_opens_without_a_repair(closed: tuple[Path, tuple[object, ...]]) -> None:
    directory, answers = closed
    assert all(is_summed(segment) for segment in segments(directory))
    log = opened(directory)
    assert log.repairs == ()
    assert everything(log) == answers
    append(log, *(batch() for _ in range(40)))
    again = everything(log)
    log.close()
    assert all(is_summed(segment) for segment in segments(directory))
    log = opened(directory)
    assert (log.repairs, everything(log)) == ((), again)
    log.close()


def test_a_full_segment_that_shrank_is_damage_and_repaired_on_demand(
    tmp_path: Path, closed: tuple[Path, tuple[object, ...]]
) -> None:
    """Also where a batch ends: no checksum of a batch says that another one followed."""
    directory, _ = closed
    first = segments(directory)[0]
    raw = first.read_bytes()
    size = int.from_bytes(raw[8:12], "big") + 12
    for length in (0, 10, size, len(raw) - 1):
        copy = tmp_path / "copy"
        copytree(directory, copy)
        (copy / first.name).write_bytes(raw[:length])
        with pytest.raises(DamagedLog, match="bytes of it were on the disk"):
            opened(copy)
        found = inspect(copy, machine_went_down=False)
        assert found.damage is not None
        assert found.end == found.damage.offset, "what is behind it is not sound before it"
        cut(found.damage)
        assert inspect(copy, machine_went_down=False).changed is None, "what was cut is not missed"
        mended = opened(copy, LogConfig(verification=False))
        append(mended, *(batch() for _ in range(40)))
        mended.close()
        found = inspect(copy, machine_went_down=False)
        assert (found.damage, found.changed) == (None, None)
        rmtree(copy)


def test_bytes_that_no_batch_checks_are_named_by_a_look_at_all(
    closed: tuple[Path, tuple[object, ...]],
) -> None:
    """The leader epoch of a segment's last batch: no checksum of its own covers it; a file of epochs does."""
    directory, _ = closed
    assert inspect(directory, machine_went_down=False).changed is None
    path = segments(directory)[0]
    *_, last = Segment(directory, Offset(0)).walk()
    raw = bytearray(path.read_bytes())
    raw[last.position + EPOCH_AT] ^= 0x01
    path.write_bytes(raw)
    found = inspect(directory, machine_went_down=False)
    assert found.damage is not None
    assert (found.damage.segment, found.damage.position) == (path, last.position)
    assert path.name in str(found.changed)


def test_a_directory_of_an_earlier_version_opens_and_is_summed_with_the_next_snapshots(
    closed: tuple[Path, tuple[object, ...]],
) -> None:
    """After a scrub, which reads them: a flush and an end read none of many old logs."""
    directory, answers = closed
    for path in directory.glob(f"*{SUFFIX}"):
        path.unlink()
    log = opened(directory)
    assert (log.repairs, everything(log)) == ((), answers)
    scrub(log)  # before it nothing is summed that no one has read
    append(log, batch())
    log._request_snapshot()
    log.flush()
    assert all(is_summed(segment) for segment in segments(directory))
    log.close()
    assert inspect(directory, machine_went_down=False).changed is None


@pytest.mark.parametrize("flushes", [False, True], ids=["before-the-flush", "in-it"])
def test_an_old_segment_is_deleted_while_its_sums_are_due(
    closed: tuple[Path, tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, flushes: bool
) -> None:
    """An earlier version's are summed with the next snapshot: one that is gone by then is no error."""
    directory, _ = closed
    for path in directory.glob(f"*{SUFFIX}"):
        path.unlink()
    log = opened(directory, LogConfig(verification=False, segment_bytes=1500, retention_ms=1000))
    scrub(log)
    gone = segments(directory)[0]
    append(log, batch(timestamp_ms=NOW_MS + 5000), now_ms=NOW_MS + 5000)
    log._request_snapshot()
    if flushes:
        summed = iter([lambda: log.retain(NOW_MS + 5000)])

        def sum_later(*words: Any) -> OSError | None:
            next(summed, bool)()
            return sum_segment(*words)

        monkeypatch.setattr(durability, "sum_segment", sum_later)
    else:
        assert log.retain(NOW_MS + 5000)
    log.flush()
    append(log, batch())
    log.close()
    assert not gone.exists()
    assert {path.stem for path in directory.glob(f"*{SUFFIX}")} == {path.stem for path in segments(directory)}


def test_sums_that_are_written_beside_a_deletion_do_not_stay(
    closed: tuple[Path, tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step of either side."""
    directory, _ = closed
    path = segments(directory)[0]
    files = {each: each.read_bytes() for each in directory.glob(f"{path.stem}*")}
    original = save_sums

    for steps in range(len(SUFFIXES) + 2):
        for each, raw in files.items():
            each.write_bytes(raw)
        order = [*(path.with_suffix(suffix) for suffix in reversed(SUFFIXES)), path.with_suffix(SUFFIX)]

        def save(segment: Path, sums: SegmentSums, _: None, first: list[Path] = order[:steps]) -> None:
            for each in first:
                each.unlink(missing_ok=True)
            original(segment, sums)

        monkeypatch.setattr(segment_sums, "save_sums", save)
        segment_sums.sum_segment(path, Extent((len(files[path]), 0, 0, 0), NOTHING), None)
        for each in order[steps:]:
            each.unlink(missing_ok=True)
        assert not list(directory.glob(f"{path.stem}.[!s]*")), steps


def test_sums_that_cannot_be_saved_of_a_segment_that_is_deleted_meanwhile_are_the_failure(
    closed: tuple[Path, tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = closed
    path = segments(directory)[0]
    full = OSError(errno.ENOSPC, "no room")

    def save(*_: object) -> None:
        for each in directory.glob(f"{path.stem}.*"):
            each.unlink()
        raise full

    monkeypatch.setattr(segment_sums, "save_sums", save)
    assert sum_segment(path, Extent((path.stat().st_size, 0, 0, 0), NOTHING), None) is full


def test_the_sums_of_a_replaced_segment_are_forgotten_first_and_made_anew(
    closed: tuple[Path, tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a log cleaner replaces it: a smaller one, with a gap behind it."""
    directory, _ = closed
    log = opened(directory)
    path = segments(directory)[0]
    raw = path.read_bytes()
    size = int.from_bytes(raw[8:12], "big") + 12
    synced: list[str] = []
    original = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with log._durability.locked():
        log._durability.replaced(path)
        assert load_sums(path) == NOTHING
        assert synced == [str(directory)], "no crash brings them back beside the new files"
        path.write_bytes(raw[:size])
        for suffix in INDEX_SUFFIXES:
            path.with_suffix(suffix).write_bytes(b"")
    append(log, batch())
    log._segments[0].size = size
    log._segments[0].take_sums(SegmentSums(Summed(size, crc32c(raw[:size])), *[NOT_SUMMED] * 3))
    for index in (log._segments[0].offsets, log._segments[0].times, log._segments[0].aborts):
        index.refresh()
    log._request_snapshot()
    log.flush()
    assert is_summed(path)
    log._let_go()
    assert ".checksums" not in str(inspect(directory, machine_went_down=False).changed)


def test_a_cut_forgets_sums_durably_before_it_cuts(
    closed: tuple[Path, tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = closed
    segment = Segment(directory, Offset(int(segments(directory)[0].stem)))
    steps: list[str] = []
    for call in ("fsync", "ftruncate", "unlink"):
        original = getattr(os, call)

        def noted(
            *of: object, original: Callable[..., None] = original, call: str = call, **by: object
        ) -> None:
            steps.append(call)
            original(*of, **by)

        monkeypatch.setattr(os, call, noted)
    segment.cut(100)
    assert steps == ["unlink", "fsync", "ftruncate"]
    segment.close()


def test_a_file_of_sums_that_changed_says_nothing(closed: tuple[Path, tuple[object, ...]]) -> None:
    directory, answers = closed
    path = min(directory.glob(f"*{SUFFIX}"))
    for raw in changed(path.read_bytes()):
        path.write_bytes(raw)
        assert load_sums(path) == NOTHING
    log = opened(directory)
    assert (log.repairs, everything(log)) == ((), answers)
    log._let_go()


def test_segments_made_while_snapshots_are_written_are_summed_to_their_ends(tmp_path: Path) -> None:
    """A snapshot is requested, the segment gets more and is full, and only then the flush runs."""
    log = opened(tmp_path / "topic-0")
    for number in range(5):
        log._request_snapshot()
        log.flush()
        transactions(log, 3, number * 3)
        log.flush()
    log.close()
    assert len(segments(log.directory)) > 4
    assert all(is_summed(segment) for segment in segments(log.directory))


def test_sums_come_back(tmp_path: Path) -> None:
    sums = SegmentSums(Summed(5, 6), Summed(0, 0), Summed(2**40, 2**32 - 1), MADE_AGAIN)
    save_sums(tmp_path / "1.log", sums)
    assert load_sums(tmp_path / "1.log") == sums
    assert load_sums(tmp_path / "2.log") == NOTHING
