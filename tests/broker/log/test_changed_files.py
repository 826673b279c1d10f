"""Files of a log that a crash or a disk changed: every byte of one, a file that is gone, an old one."""

import os
import struct
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.broker.log.checkpoints import EPOCHS_FILE, LeaderEpochs
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.log_starts import LogStarts
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import cut, inspect
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import SUFFIX as SUMS
from tests.broker.log.builders import (
    NOW_MS,
    UNVERIFIED,
    append,
    batch,
    end_transaction,
    open_log,
    read_all,
)
from tests.broker.log.test_recovery import SMALL, start
from tests.together import table

EPOCH_IN_BATCH = 12  # partitionLeaderEpoch, which no checksum covers


def two_epochs(directory: Path) -> PartitionLog:
    """Two batches of six records of epoch 0, two of epoch 9 from offset 12 on, killed."""
    log = open_log(directory)
    append(log, batch(7, 0, count=6), batch(7, 6, count=6))
    for sequence in (12, 18):
        log.append(batch(7, sequence, count=6), NOW_MS, Term(9))
    log._let_go()
    return log


def opened(log: PartitionLog, *, went_down: bool) -> PartitionLog:
    return PartitionLog.open(log.directory, UNVERIFIED, NOW_MS, machine_went_down=went_down)


@table("went_down", [False, True])
def test_a_file_of_epochs_that_ends_early_takes_no_partition_offline(tmp_path: Path, went_down: bool) -> None:
    """It is replaced without a flush: a crash of the machine may leave any part of it."""
    log = two_epochs(tmp_path)
    path = log.directory / EPOCHS_FILE
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        again = opened(log, went_down=went_down)
        assert (again.end, again.epoch_at(again.end), path.read_bytes()) == (24, 9, raw)
        again._let_go()


def test_a_number_that_is_cut_short_is_no_offset(tmp_path: Path) -> None:
    """The log begins at offset 50: it does not lack those from 5 on."""
    log = PartitionLog.open(tmp_path / "topic-0", UNVERIFIED, NOW_MS, UUID(int=5), start=Offset(50))
    append(log, batch(7, 0, count=6))
    log._let_go()
    path = log.directory / EPOCHS_FILE
    path.write_bytes(path.read_bytes().removesuffix(b"0\n"))
    again = opened(log, went_down=True)
    assert [each for each in again.repairs if "no segment has" in each] == []
    assert again.start == 50
    again._let_go()


def test_an_epoch_that_the_file_settles_is_not_taken_from_the_batch(tmp_path: Path) -> None:
    """After a crash of the machine, too: a later epoch was written down, so this one had been."""
    log = two_epochs(tmp_path)
    path = log.directory / f"{0:020d}.log"
    raw = path.read_bytes()
    second = len(raw) // 4
    for begin in (0, second):
        changed = raw[:begin] + raw[begin : begin + EPOCH_IN_BATCH] + struct.pack(">i", 3)
        path.write_bytes(changed + raw[len(changed) :])
        for went_down in (False, True):
            with pytest.raises(DamagedLog, match="a batch of epoch 3"):
                opened(log, went_down=went_down)
        assert path.read_bytes() == changed + raw[len(changed) :]


@table("went_down", [False, True])
def test_records_that_were_deleted_are_of_no_epoch_that_is_known(tmp_path: Path, went_down: bool) -> None:
    """A log begins inside a segment, whose first batches are read again: the file begins behind them."""
    log = open_log(tmp_path, LogConfig(verification=False, segment_bytes=1000, retention_ms=1000))
    append(log, *(batch() for _ in range(40)))
    log.first_kept = Offset(log._segments[1].base + 3)
    LogStarts(tmp_path).raise_to({log.directory.name: log.first_kept})
    append(log, batch(timestamp_ms=NOW_MS + 5000))
    log.flush()
    assert log.retain(NOW_MS + 1)
    log.close()
    assert (log.directory / EPOCHS_FILE).read_text() == f"0\n1\n0 {log.first_kept}\n"
    min(log.directory.glob("*.index")).unlink()
    again = opened(log, went_down=went_down)
    assert (again.end, len(again.repairs)) == (41, 1)
    again._let_go()
    assert inspect(log.directory, machine_went_down=went_down).damage is None


def test_an_epoch_that_was_cut_off_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written at its offsets is of another one: the file without it is flushed first."""
    log = two_epochs(tmp_path)
    path = log.directory / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[: 2 * len(read_all(log)) // 4 + 1])
    flushed: list[str] = []
    original = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    again = opened(log, went_down=True)
    assert again.end == 12
    assert flushed == [f"{EPOCHS_FILE}.tmp", log.directory.name]
    again._let_go()


def test_a_last_segment_that_is_gone_is_named(tmp_path: Path) -> None:
    """Its indexes say that there was one, unless the machine went down: names come back in any order."""
    log = start(tmp_path)
    log._let_go()
    for snapshot in log.directory.glob("*.snapshot"):
        snapshot.unlink()
    last = max(log.directory.glob("*.log"))
    last.unlink()
    base = int(last.stem)
    with pytest.raises(DamagedLog, match=f"{last.name}.*offset {base}.*its batches are not"):
        PartitionLog.open(log.directory, SMALL, NOW_MS, machine_went_down=False)
    assert last.with_suffix(".index").exists(), "nothing is tidied away"
    for suffix in (".index", ".timeindex"):  # each of them alone says so
        last.with_suffix(suffix).unlink()
        with pytest.raises(DamagedLog, match="its batches are not"):
            PartitionLog.open(log.directory, SMALL, NOW_MS, machine_went_down=False)
    again = PartitionLog.open(log.directory, SMALL, NOW_MS, machine_went_down=True)
    assert again.end == base
    again._let_go()


def test_a_last_segment_that_is_gone_is_repaired_on_demand(tmp_path: Path) -> None:
    log = start(tmp_path)
    log._let_go()
    last = max(log.directory.glob("*.log"))
    last.unlink()
    found = inspect(log.directory, machine_went_down=False)
    assert found.damage is not None
    assert (found.damage.segment, found.damage.offset) == (last, int(last.stem))
    cut(found.damage)
    mended = PartitionLog.open(log.directory, SMALL, NOW_MS, machine_went_down=False)
    assert mended.end == int(last.stem)
    append(mended, batch())
    mended._let_go()


def test_a_deletion_that_is_killed_leaves_no_index_without_its_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = start(tmp_path)
    original = Path.unlink
    gone: list[str] = []

    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        gone.append(path.name)
        original(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    log._segments[0].delete()
    assert gone == [f"{0:020d}{suffix}" for suffix in (".txnindex", ".timeindex", ".index", ".log", SUMS)]


def test_open_transactions_are_restored_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    """The last stable offset is the least of them, whatever order a snapshot lists producers in."""
    log = open_log(tmp_path)
    append(log, batch(3, 0), batch(9, 0, transactional=True), batch(3, 1, transactional=True))
    append(log, batch(9, 1, transactional=True))
    assert log.last_stable_offset == 1
    log.close()
    again = opened(log, went_down=False)
    assert again.last_stable_offset == 1
    end_transaction(again, 9, version=1)
    assert again.last_stable_offset == 2
    again.close()


def test_an_epoch_that_goes_back_is_damage_where_no_file_says_which_is_right(tmp_path: Path) -> None:
    log = two_epochs(tmp_path)
    path = log.directory / f"{0:020d}.log"
    raw = path.read_bytes()
    third = len(raw) * 3 // 4
    path.write_bytes(raw[: third + EPOCH_IN_BATCH] + struct.pack(">i", 3) + raw[third + EPOCH_IN_BATCH + 4 :])
    for went_down in (False, True):
        (log.directory / EPOCHS_FILE).unlink(missing_ok=True)
        with pytest.raises(DamagedLog, match="a batch of epoch 3 follows 9"):
            opened(log, went_down=went_down)


def test_a_full_segment_without_a_time_is_indexed_again(tmp_path: Path) -> None:
    """Its last entry says how late its records are: retention believes it."""
    log = start(tmp_path)
    before = [segment.max_timestamp_ms for segment in log._segments]
    log.close()
    first = min(log.directory.glob("*.timeindex"))
    first.write_bytes(b"")
    first.with_suffix(SUMS).unlink()  # which would say so, too
    again = PartitionLog.open(log.directory, SMALL, NOW_MS)
    assert [segment.max_timestamp_ms for segment in again._segments] == before
    assert first.stat().st_size
    again.close()


def test_each_segment_keeps_the_snapshot_that_its_indexes_are_made_again_from(tmp_path: Path) -> None:
    """Else what is aborted in it, and began before, would not be found again."""
    log = open_log(tmp_path, SMALL)
    for number in range(120):
        append(log, batch(7, number))
        if log.flush_wanted:
            log.flush()
    bases = {int(path.stem) for path in log.directory.glob("*.log")} - {0}
    assert len(bases) > 3
    assert {int(path.stem) for path in log.directory.glob("*.snapshot")} >= bases
    log.close()


def test_a_killed_append_leaves_no_epoch_that_looks_like_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the new epoch before the batch is written, not after it."""
    log = open_log(tmp_path)
    append(log, batch(7, 0))

    segment, save = log._segments[-1], LeaderEpochs.save
    size = segment.size

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def saved(epochs: LeaderEpochs) -> None:
        if segment.size > size:
            killed()
        save(epochs)

    monkeypatch.setattr(Segment, "index", killed)
    monkeypatch.setattr(LeaderEpochs, "save", saved)
    with pytest.raises(KeyboardInterrupt):
        log.append(batch(7, 1), NOW_MS, Term(4))
    monkeypatch.undo()
    log._let_go()
    again = opened(log, went_down=False)
    assert again.end == 2
    again._let_go()


@table("went_down", [False, True])
def test_behind_a_recovery_point_every_flipped_byte_is_named_and_kept(
    tmp_path: Path, went_down: bool
) -> None:
    """And a torn end is cut at each byte of the last batch, and nothing else."""
    log = open_log(tmp_path)
    append(log, batch(7, 0), batch(7, 1))
    log.close()
    log = open_log(tmp_path)
    append(log, *(batch(7, sequence) for sequence in (2, 3, 4)))
    raw, size = read_all(log), len(read_all(log)) // 5
    log._let_go()
    path = log.directory / f"{0:020d}.log"
    for position in range(2 * size, (4 if went_down else 5) * size):
        changed = raw[:position] + bytes((raw[position] ^ 0x10,)) + raw[position + 1 :]
        path.write_bytes(changed)
        with pytest.raises(DamagedLog):
            opened(log, went_down=went_down)
        assert path.read_bytes() == changed
    for length in range(4 * size + 1, 5 * size):
        path.write_bytes(raw[:length])
        again = opened(log, went_down=went_down)
        assert (again.end, path.read_bytes()) == (4, raw[: 4 * size])
        again._let_go()


def test_many_batches_behind_a_recovery_point_are_read_again(tmp_path: Path) -> None:
    """In pieces that begin somewhere in the segment, each read once."""
    log = open_log(tmp_path)
    append(log, batch(7, 0), batch(7, 1))
    log.close()
    log = open_log(tmp_path)
    append(log, *(batch(7, sequence) for sequence in range(2, 60)))
    log._let_go()
    again = opened(log, went_down=False)
    assert (again.end, again.repairs) == (60, ())
    again._let_go()


def test_a_segment_is_read_again_in_large_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    append(log, *(batch(7, sequence, value=b"v" * 20_000) for sequence in range(120)))
    log._let_go()
    pieces: list[int] = []
    original = Segment.bytes_at

    def bytes_at(segment: Segment, position: int, size: int) -> bytes:
        pieces.append(position)
        return original(segment, position, size)

    monkeypatch.setattr(Segment, "bytes_at", bytes_at)
    again = opened(log, went_down=False)
    assert again.end == 120
    assert 2 < len(pieces) < 8, "2.4 MB, a mebibyte at a time"
    again._let_go()
