"""Batches that a start does not read: no client is given one that changed, and the scrub finds it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from fencepost.broker.log import search, segment_sums
from fencepost.broker.log.cleaned_end import save_cleaned_end
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.index_file import INDEX_SUFFIXES
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import is_summed, save_sums
from fencepost.records.batch_layout import LEADER_EPOCH_AT
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import SUFFIX, load_sums, sums_path
from fencepost.snapshots.file_sums import Summed
from tests.broker.log.builders import NOW_MS, batch, open_log
from tests.broker.log.sums import opened, scrub, segments
from tests.broker.log.test_recovery import SMALL, transactions
from tests.together import table


def add(log: PartitionLog, count: int = 1) -> None:
    for _ in range(count):
        log.append(batch(), NOW_MS, Term(2))


def flipped(raw: bytes, step: int) -> Iterator[bytes]:
    for position in range(0, len(raw), step):
        yield raw[:position] + bytes((raw[position] ^ 1 << position % 8,)) + raw[position + 1 :]


def full(directory: Path) -> Path:
    """A closed log of three segments and two leader epochs; its second segment."""
    log = open_log(directory, SMALL)
    transactions(log, 2)
    for number in range(22):
        log.append(batch(count=2, timestamp_ms=NOW_MS + 20 + number), NOW_MS, Term(1 if number < 10 else 2))
    log.close()
    paths = segments(log.directory)
    assert len(paths) >= 3
    assert all(map(is_summed, paths))
    return paths[1]


def answers(log: PartitionLog) -> Iterator[object]:
    """By offset, a batch each and all of a segment; by time. Or the damage that is named instead."""
    for number in range(2 * log.end + 50):
        try:
            if number < 2 * log.end:
                yield log.read(Offset(number // 2), 10_000 * (number % 2), log.end)
            else:
                yield log.offset_for_time(NOW_MS + number - 2 * log.end)
        except CorruptData as error:
            yield error


def test_no_answer_has_a_flipped_bit_of_a_full_segment(tmp_path: Path) -> None:
    """Of each byte of one batch, and some of the others: the damage is named, or the answer is right."""
    path = full(tmp_path)
    raw = path.read_bytes()
    log = opened(path.parent)
    sound = list(answers(log))
    log._let_go()
    fourth = list(Segment(path.parent, Offset(int(path.stem))).walk())[3]
    inside = range(fourth.position, fourth.position + fourth.size)
    by_reading = 0
    for position in sorted({*inside, *range(0, len(raw), 29)}):
        path.write_bytes(raw[:position] + bytes((raw[position] ^ 1 << position % 8,)) + raw[position + 1 :])
        try:
            log = opened(path.parent)
        except DamagedLog:  # a start looks where an epoch begins or ends
            continue
        assert log.repairs == ()
        found = list(answers(log))
        damage = [each for each in found if isinstance(each, CorruptData)]
        assert all(path.name in str(each) for each in damage)
        by_reading += bool(damage)
        wrong = [each for each in zip(found, sound, strict=True) if each[0] != each[1]]
        assert len(wrong) == len(damage), position
        with pytest.raises(DamagedLog, match=f"{path.name}: damaged at position"):
            scrub(log)
        log._let_go()
        assert inspect(path.parent, machine_went_down=False).damage is not None, (
            "what is named can be repaired"
        )
    assert by_reading > 70


def test_what_was_compared_or_written_is_not_checked_again(tmp_path: Path) -> None:
    path = full(tmp_path)
    log = opened(path.parent)
    *before, last = log.scrubbable.segments()
    assert [each.unchecked_end for each in before] == [each.size for each in before]
    assert last.unchecked_end == 0, "a start compares it with its sum"
    scrub(log)
    add(log, 30)
    assert {each.unchecked_end for each in log.scrubbable.segments()} == {0}
    log._let_go()


def test_more_than_a_start_compares_is_checked_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the segment that is appended to: what is appended after the start is not."""
    path = full(tmp_path)
    active = segments(path.parent)[-1]
    monkeypatch.setattr(segment_sums, "COMPARED_BYTES_MAX", 10)
    monkeypatch.setattr("fencepost.broker.log.unchecked.COMPARED_BYTES_MAX", 10)
    size = active.stat().st_size
    for position in (20, size - 1):
        raw = active.read_bytes()
        active.write_bytes(raw[:position] + bytes((raw[position] ^ 4,)) + raw[position + 1 :])
        log = opened(path.parent)
        assert log.scrubbable.segments()[-1].unchecked_end == size
        add(log)
        assert len(log.read(Offset(log.end - 1), 1000, log.end)) == len(batch())
        found = [str(each) for each in answers(log) if isinstance(each, CorruptData)]
        assert found
        assert all(active.name in each for each in found)
        with pytest.raises(DamagedLog, match=active.name):
            scrub(log)
        log._let_go()
        active.write_bytes(raw)


def test_a_scrub_finds_what_changes_while_the_log_is_in_use(tmp_path: Path) -> None:
    """Also a second time, in each full segment and in what was summed of the last; indexes, too."""
    path = full(tmp_path)
    log = opened(path.parent)
    scrub(log)
    scrub(log)
    for segment in segments(path.parent):
        for suffix in (".log", *INDEX_SUFFIXES):
            file = segment.with_suffix(suffix)
            raw = file.read_bytes()
            for changed in flipped(raw, 40):
                file.write_bytes(changed)
                with pytest.raises(CorruptData, match=file.name):
                    scrub(log)
            file.write_bytes(raw)
    *_, last = Segment(path.parent, Offset(int(path.stem))).walk()
    path.write_bytes(path.read_bytes()[: last.position])  # where a batch ends
    with pytest.raises(DamagedLog, match=path.name):
        scrub(log)
    log._let_go()


def test_behind_the_end_of_an_epoch_no_batch_is_of_it(tmp_path: Path) -> None:
    path = full(tmp_path)
    placed = list(Segment(path.parent, Offset(int(path.stem))).walk())
    border = next(n for n, each in enumerate(placed) if each.leader_epoch == 2)
    raw = bytearray(path.read_bytes())
    raw[placed[border].position + LEADER_EPOCH_AT + 3] = 1
    log = opened(path.parent)
    path.write_bytes(raw)
    with pytest.raises(DamagedLog, match="a batch of epoch 1"):
        log.read(placed[0].base_offset, 10_000, log.end)
    log._let_go()


def test_only_so_many_bytes_are_checked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "CHECKED_AT_ONCE_BYTES", 200)
    path = full(tmp_path)
    log = opened(path.parent)
    first = Offset(int(path.stem))
    assert 0 < len(log.read(first, 10_000, log.end)) <= 200
    scrub(log)
    assert log.read(first, 10_000, log.end) == path.read_bytes()
    log._let_go()


@table("went_down", [False, True])
def test_a_segment_that_was_not_summed_is_read_and_only_then_summed(tmp_path: Path, went_down: bool) -> None:
    """As an earlier version leaves it. A changed batch never gets a right sum."""
    path = full(tmp_path / "a")
    for each in path.parent.glob(f"*{SUFFIX}"):
        each.unlink()
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes((raw[-1] ^ 1,)))
    log = opened(path.parent, went_down=went_down)
    add(log)
    log.close()
    assert not sums_path(path).exists(), "no snapshot sums what no one has read"
    log = opened(path.parent, went_down=went_down)
    with pytest.raises(DamagedLog, match=path.name):
        scrub(log)
    log._let_go()
    path.write_bytes(raw)
    log = opened(path.parent, went_down=went_down)
    scrub(log)
    add(log)
    log.close()
    assert all(map(is_summed, segments(path.parent)))


def test_sums_of_other_bytes_are_made_anew_if_each_batch_is_sound(tmp_path: Path) -> None:
    path = full(tmp_path)
    known = load_sums(path)
    save_sums(path, known._replace(batches=Summed(known.batches.size, known.batches.crc ^ 1)))
    log = opened(path.parent)
    scrub(log)
    add(log)
    log.close()
    assert load_sums(path) == known
    assert inspect(path.parent, machine_went_down=False).changed is None


def test_in_a_cleaned_log_a_changed_offset_is_named(tmp_path: Path) -> None:
    """Offsets may be left out there: only the sum shows that they are other ones now."""
    path = full(tmp_path)
    first, second, *_, last = Segment(path.parent, Offset(int(path.stem))).walk()
    save_cleaned_end(path.parent, last.end)
    raw = bytearray(path.read_bytes())
    del raw[first.position : first.position + first.size]
    path.write_bytes(raw)
    known = load_sums(path)
    save_sums(path, known._replace(batches=Summed(len(raw), crc32c(raw))))
    moved = second.base_offset - 1
    log = opened(path.parent)
    assert log.read(first.base_offset, 10_000, log.end) == bytes(raw)
    scrub(log)
    path.write_bytes(moved.to_bytes(8, "big") + raw[8:])
    with pytest.raises(CorruptData, match="an offset may have changed"):
        scrub(log)
    log._let_go()
