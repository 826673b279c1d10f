"""A header field that alone changed is put back where the segment's sum proves it: nothing is cut."""

from itertools import pairwise
from pathlib import Path

import pytest

from fencepost.broker.log.damage import Damage, DamagedLog
from fencepost.broker.log.put_back import Changed, proven, put_back
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.segment import Segment
from fencepost.records.batch import batch_header, stamp
from fencepost.records.batch_layout import AT, CRC_AT, HEADER_BYTES, LEADER_EPOCH_AT, field
from fencepost.records.filtered import empty_batch
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import SUFFIX, Content, SegmentSums, sums_path, write_content
from fencepost.snapshots.file_sums import NOT_SUMMED
from tests.broker.log.builders import NOW_MS, batch, open_log
from tests.broker.log.sums import everything, opened, scrub, segments
from tests.broker.log.test_recovery import SMALL, transactions
from tests.together import table

FIELDS = ("base_offset", "length", "leader_epoch", "magic", "crc")


def summed(directory: Path) -> Path:
    """A closed log of several segments and leader epochs."""
    log = open_log(directory, SMALL)
    transactions(log, 2)
    for number in range(22):
        log.append(batch(count=2, timestamp_ms=NOW_MS + number), NOW_MS, Term(number // 4))
    log.close()
    return log.directory


def flip(path: Path, at: int, bits: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= bits
    path.write_bytes(raw)


def restorable(directory: Path) -> Changed | None:
    found = inspect(directory, machine_went_down=False)
    assert found.damage is not None
    return found.restorable


@table("name", FIELDS)
def test_of_a_field_in_every_batch_any_bit(tmp_path: Path, name: str) -> None:
    directory = summed(tmp_path)
    files = {each: each.read_bytes() for each in directory.iterdir()}
    layout = field(name)
    for path in segments(directory):
        for placed in list(Segment(directory, Offset(int(path.stem))).walk()):
            at = placed.position + AT[name]
            for bit in range(placed.position % 8, 8 * layout.size, 16):
                flip(path, at + bit // 8, 1 << bit % 8)
                (found,) = layout.unpack_from(path.read_bytes(), at)
                (written,) = layout.unpack_from(files[path], at)
                changed = restorable(directory)
                assert changed == Changed(path, placed.position, name, found, written)
                put_back(changed)
                assert path.read_bytes() == files[path]
    sound = inspect(directory, machine_went_down=False)
    assert (sound.damage, sound.restorable, sound.changed) == (None, None, None)
    assert {each: each.read_bytes() for each in directory.iterdir()} == files


def test_after_it_the_log_answers_as_before(tmp_path: Path) -> None:
    directory = summed(tmp_path)
    log = opened(directory)
    answers = everything(log)
    log.close()
    path = segments(directory)[-1]
    flip(path, LEADER_EPOCH_AT + 3, 0x40)
    with pytest.raises(DamagedLog, match="epoch"):
        opened(directory)
    changed = restorable(directory)
    assert changed is not None
    put_back(changed)
    log = opened(directory)
    assert everything(log) == answers
    scrub(log)
    log._let_go()


def test_what_is_not_proven_is_not_put_back(tmp_path: Path) -> None:
    """Two batches of a segment changed, or two fields, or a record, or there is no sum."""
    directory = summed(tmp_path)
    path = segments(directory)[1]
    raw = path.read_bytes()
    first, second, *_ = Segment(directory, Offset(int(path.stem))).walk()
    epochs = [first.position + LEADER_EPOCH_AT + 3, second.position + LEADER_EPOCH_AT + 3]
    for places in (epochs, [epochs[0], first.position + CRC_AT], [second.position - 1], [len(raw) - 1]):
        for at in places:
            flip(path, at, 0x10)
        assert restorable(directory) is None
        path.write_bytes(raw)
    flip(path, epochs[0], 0x10)
    path.with_suffix(SUFFIX).unlink()
    assert restorable(directory) is None


def test_what_a_cut_would_lose_is_counted_in_later_segments_from_their_first_batch_on(tmp_path: Path) -> None:
    directory = summed(tmp_path)
    paths = segments(directory)
    batches = [list(Segment(directory, Offset(int(path.stem))).walk()) for path in paths]
    second = batches[0][1]
    flip(paths[0], second.position + second.size - 1, 0x10)
    found = inspect(directory, machine_went_down=False)
    assert found.lost is not None
    assert (found.lost.first, found.lost.last) == (batches[0][2].base_offset, batches[-1][-1].end - 1)
    assert found.lost.batches == sum(map(len, batches)) - 2


def test_behind_the_sum_nothing_is_proven(tmp_path: Path) -> None:
    """A killed process has appended there since the last snapshot."""
    directory = summed(tmp_path)
    log = opened(directory)
    log.append(batch(count=2), NOW_MS, Term(9))
    size = log.scrubbable.segments()[-1].size
    log._let_go()
    path = segments(directory)[-1]
    assert path.stat().st_size == size
    flip(path, size - len(batch(count=2)), 0x10)
    assert restorable(directory) is None


def test_without_the_file_of_epochs_a_neighbour_says_which_it_was(tmp_path: Path) -> None:
    """Or where the log begins before its first line, as after records were deleted."""
    directory = summed(tmp_path)
    path = segments(directory)[-2]
    *_, last = Segment(directory, Offset(int(path.stem))).walk()
    raw = path.read_bytes()
    epochs = directory / "leader-epoch-checkpoint"
    epochs.unlink()
    flip(path, last.position + LEADER_EPOCH_AT + 3, last.leader_epoch)  # 0: lower than the one before
    assert last.leader_epoch > 0
    changed = restorable(directory)
    assert changed == Changed(path, last.position, "leader_epoch", 0, last.leader_epoch)
    path.write_bytes(raw)
    batches = list(Segment(directory, Offset(int(path.stem))).walk())
    alike = next(each for each, behind in pairwise(batches[1:]) if each.leader_epoch == behind.leader_epoch)
    flip(path, alike.position + LEADER_EPOCH_AT + 3, 0x40)
    damage = Damage(path, alike.position, len(raw), alike.base_offset, "of no epoch that is known")
    written = Changed(path, alike.position, "leader_epoch", alike.leader_epoch ^ 0x40, alike.leader_epoch)
    assert proven(damage, None) == written


@table("name", FIELDS)
def test_of_a_batch_of_a_header_alone(tmp_path: Path, name: str) -> None:
    """A cleaner leaves one, for a producer's sequence."""
    segment = Segment.create(tmp_path, Offset(0))
    raw = b"".join(stamp(empty_batch(batch_header(batch(7, 0))), Offset(n), Term(0)) for n in range(3))
    segment.append(raw)
    sums = SegmentSums(segment.sum, *[NOT_SUMMED] * 3)
    write_content(sums_path(segment.path), 0, Content(sums), durable=False)
    at = HEADER_BYTES + AT[name]
    flip(segment.path, at + field(name).size - 1, 0x04)
    damage = Damage(segment.path, HEADER_BYTES, len(raw), Offset(1), "changed")
    changed = proven(damage, None)
    assert changed is not None
    assert changed.field == name
    put_back(changed)
    assert segment.path.read_bytes() == raw
