"""The file of leader epochs has no checksum: a bit of it flips, and no answer comes from it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker.log import epoch_check
from fencepost.broker.log.checkpoints import EPOCHS_FILE, LeaderEpochs
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.log_starts import LogStarts
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.shapes import EpochEnd, LogConfig
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import SUFFIX
from tests.broker.log.builders import NOW_MS, batch, open_log
from tests.broker.log.sums import opened, segments
from tests.broker.log.test_cleaner import CONFIG as COMPACTED
from tests.broker.log.test_cleaner import clean, play
from tests.together import table

SMALL = LogConfig(verification=False, segment_bytes=1000, index_interval_bytes=100)
EPOCHS = (Term(1), Term(4), Term(6), Term(8))
BATCHES = 8  # of each epoch, of three records
EPOCH_AT = 15  # the last byte of a batch's leader epoch


def four_epochs(directory: Path) -> PartitionLog:
    """A log of several segments."""
    log = open_log(directory, SMALL)
    for epoch in EPOCHS:
        for _ in range(BATCHES):
            log.append(batch(count=3), NOW_MS, epoch)
    return log


def known(log: PartitionLog) -> tuple[list[Term], list[EpochEnd]]:
    """What clients and brokers are answered of epochs."""
    return (
        [log.epoch_at(Offset(offset)) for offset in range(log.end)],
        [log.offset_for_epoch(Term(epoch)) for epoch in range(11)],
    )


def flips(raw: bytes, step: int) -> Iterator[bytes]:
    for at in range(0, len(raw) * 8, step):
        position, bit = divmod(at, 8)
        yield raw[:position] + bytes((raw[position] ^ 1 << bit,)) + raw[position + 1 :]


@table("went_down", [False, True])
@table("is_summed", [True, False])
def test_whichever_bit_of_the_file_flips_epochs_are_those_of_the_batches(
    tmp_path: Path, went_down: bool, is_summed: bool
) -> None:
    log = four_epochs(tmp_path)
    answers = known(log)
    log.close()
    assert len(segments(log.directory)) > 3
    if not is_summed:  # as in an earlier version's directory
        for path in log.directory.glob(f"*{SUFFIX}"):
            path.unlink()
    path = log.directory / EPOCHS_FILE
    raw = path.read_bytes()
    files = {each: each.read_bytes() for each in log.directory.iterdir()}
    for changed in flips(raw, 2 if is_summed and not went_down else 7):
        path.write_bytes(changed)
        assert inspect(log.directory, machine_went_down=went_down).damage is None
        again = opened(log.directory, SMALL, went_down=went_down)
        assert known(again) == answers, changed
        assert again.append(batch(), NOW_MS, EPOCHS[-1]).base_offset == log.end
        again._let_go()
        for each, content in files.items():
            each.write_bytes(content)


@table("went_down", [False, True])
def test_whichever_bit_flips_of_the_file_of_a_log_that_was_killed(tmp_path: Path, went_down: bool) -> None:
    """No recovery point says what was on the disk, but the batches outnumber the file."""
    log = four_epochs(tmp_path)
    answers = known(log)
    log._let_go()
    path = log.directory / EPOCHS_FILE
    files = {each: each.read_bytes() for each in log.directory.iterdir()}
    for changed in flips(files[path], 3):
        path.write_bytes(changed)
        assert inspect(log.directory, machine_went_down=went_down).damage is None
        again = opened(log.directory, SMALL, went_down=went_down)
        assert known(again) == answers, changed
        again._let_go()
        for each in log.directory.iterdir():
            each.unlink()
        for each, content in files.items():
            each.write_bytes(content)


@table("start", [0, 5, 24, 30])
def test_the_file_says_of_which_epoch_the_first_record_is_that_is_kept(tmp_path: Path, start: int) -> None:
    """Where records were deleted the file may begin there, as retention leaves it; not later."""
    log = four_epochs(tmp_path)
    log.close()
    starts = LogStarts(tmp_path)
    starts.load((log.directory.name,))
    starts.raise_to({log.directory.name: Offset(start)})
    epochs = LeaderEpochs(log.directory)
    for later in (0, 1, 3):
        epochs.load()
        epochs.forget_before(Offset(start + later))
        epochs.save()
        again = opened(log.directory, SMALL)
        assert again.repairs == ((f"{EPOCHS_FILE}: made again from the batches",) if later else ())
        assert again.epoch_at(Offset(start)) == EPOCHS[start // (3 * BATCHES)]
        again._let_go()


def test_a_file_without_lines_is_made_again(tmp_path: Path) -> None:
    """It had one for each epoch before the recovery point."""
    log = four_epochs(tmp_path)
    answers = known(log)
    log.close()
    (log.directory / EPOCHS_FILE).write_text("0\n0\n")
    again = opened(log.directory, SMALL)
    assert known(again) == answers
    again._let_go()


def test_a_cleaned_logs_file_made_again_says_the_epoch_of_what_was_left_out(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    play(log)
    log.flush()
    clean(log)
    log.close()
    assert next(log._segments[0].walk()).base_offset > log.start == 0
    (log.directory / EPOCHS_FILE).unlink()
    again = opened(log.directory, COMPACTED)
    assert again.epoch_at(Offset(0)) == 0
    again._let_go()


def test_a_batch_that_changed_is_not_taken_for_a_file_that_did(tmp_path: Path) -> None:
    """The last batch of an epoch is of a later one, or the first of one before: still in order."""
    log = four_epochs(tmp_path)
    log.close()
    positions = [(segment, placed) for segment in log._segments for placed in segment.walk()]
    for number in (BATCHES - 1, BATCHES, 4 * BATCHES - 1):
        segment, placed = positions[number]
        raw = segment.path.read_bytes()
        epoch = EPOCHS[0] if number == BATCHES else EPOCHS[number // BATCHES] + 3
        at = placed.position + EPOCH_AT
        segment.path.write_bytes(raw[:at] + bytes((epoch,)) + raw[at + 1 :])
        with pytest.raises(DamagedLog, match=f"a batch of epoch {epoch}, by {EPOCHS_FILE} it is of"):
            opened(log.directory, SMALL)
        segment.path.write_bytes(raw)
        opened(log.directory, SMALL)._let_go()


def test_a_start_looks_at_so_many_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = four_epochs(tmp_path)
    log.close()
    path = log.directory / EPOCHS_FILE
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"\n4 24\n", b"\n5 24\n"))
    for lines, repairs in ((1, 0), (2, 1)):
        monkeypatch.setattr(epoch_check, "LINES_MAX", lines)
        again = opened(log.directory, SMALL)
        assert len(again.repairs) == repairs
        again._let_go()
