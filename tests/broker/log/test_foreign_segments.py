"""Sound files of another partition, or of another time, in the place of a log's own."""

import struct
import uuid
from pathlib import Path
from shutil import copyfile, copytree

import pytest
from crc32c import crc32c

from fencepost.broker.log.checkpoints import PARTITION_FILE
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import cut, inspect
from fencepost.broker.log.segment import SUFFIXES
from fencepost.broker.log.segment_sums import save_sums
from fencepost.broker.log.swaps import SWAP, write_swap_sums
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import NOTHING, SUFFIX, Owner, read_content, write_content
from fencepost.snapshots.file_sums import Summed
from tests.broker.log.builders import NOW_MS, append, batch
from tests.broker.log.sums import everything, opened, scrub, segments
from tests.broker.log.test_recovery import SMALL, transactions

TOPIC_ID, OTHER_ID = uuid.UUID(int=7), uuid.UUID(int=8)


def a_log(directory: Path, topic_id: uuid.UUID) -> PartitionLog:
    """Of three segments and more. Segments of all such logs begin and end at the same offsets."""
    return transactions(PartitionLog.open(directory, SMALL, NOW_MS, topic_id), 6)


def of_version_1(path: Path) -> None:
    """A file of sums as earlier versions wrote it."""
    raw = path.read_bytes()
    raw = struct.pack(">h", 1) + raw[2:10] + raw[-52:-4]
    path.write_bytes(raw + struct.pack(">I", crc32c(raw)))


def put_in_place(segment: Path, other: Path) -> None:
    for suffix in (*SUFFIXES, SUFFIX):
        source = other.parent / segment.with_suffix(suffix).name
        target = segment.with_suffix(suffix)
        target.unlink(missing_ok=True)
        if source.exists():
            copyfile(source, target)


def two_logs(tmp_path: Path, name: str, topic_id: uuid.UUID) -> tuple[PartitionLog, PartitionLog]:
    """The first one is open, after a start; the other was closed."""
    log, stranger = a_log(tmp_path / "a-0", TOPIC_ID), a_log(tmp_path / name, topic_id)
    log.close()
    stranger.close()
    return opened(log.directory), stranger


OTHERS = pytest.mark.parametrize("other", [("a-1", TOPIC_ID), ("b-0", OTHER_ID)], ids=["partition", "topic"])


@OTHERS
@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "second", "last"])
def test_a_segment_of_another_partition_takes_the_log_offline(
    tmp_path: Path, other: tuple[str, uuid.UUID], number: int
) -> None:
    """Whole, with its indexes and its sums: at a start, by the scrub, and by `storage verify`."""
    log, stranger = two_logs(tmp_path, *other)
    segment = segments(log.directory)[number]
    put_in_place(segment, segments(stranger.directory)[number])
    with pytest.raises(CorruptData, match="another partition's"):
        scrub(log)
    log._let_go()
    with pytest.raises(DamagedLog, match="another partition's") as found:
        opened(log.directory)
    assert found.value.damage.segment == segment
    seen = inspect(log.directory, machine_went_down=False)
    assert seen.damage is not None
    assert (seen.damage.segment, seen.damage.position) == (segment, 0)
    assert (seen.restorable, seen.end) == (None, int(segment.stem)), "no field of it changed"
    cut(seen.damage)
    log = opened(log.directory)
    assert (log.end, log.repairs) == (int(segment.stem), ())
    log._let_go()


@pytest.mark.parametrize(
    "content", [b"", b"version: 0\ntopic_id: ?\n", b"\xff"], ids=["empty", "no-id", "no-text"]
)
def test_a_log_whose_partition_file_says_nothing_is_inspected_all_the_same(
    tmp_path: Path, content: bytes
) -> None:
    """`storage repair` ended with a traceback: whose segments are, is not known then."""
    log = a_log(tmp_path / "a-0", TOPIC_ID)
    log.close()
    (log.directory / PARTITION_FILE).write_bytes(content)
    assert inspect(log.directory, machine_went_down=False).damage is None


def test_sums_alone_of_another_partition_take_nothing_offline(tmp_path: Path) -> None:
    """They do not fit these batches: the segment is read again, and summed anew."""
    log, stranger = two_logs(tmp_path, "a-1", TOPIC_ID)
    answers = everything(log)
    log._let_go()
    path = segments(log.directory)[0]
    other = sums_of_others(stranger, path)
    copyfile(other, path.with_suffix(SUFFIX))
    log = opened(log.directory)
    scrub(log)
    assert everything(log) == answers
    assert inspect(log.directory, machine_went_down=False).damage is None


def sums_of_others(stranger: PartitionLog, path: Path) -> Path:
    """The sums of the other log's first segment, of other batches than ``path`` has."""
    there = stranger.directory / path.name
    there.write_bytes(there.read_bytes()[:-1] + b"x")
    content = read_content(there.with_suffix(SUFFIX), int(path.stem))
    batches = Summed(there.stat().st_size, crc32c(there.read_bytes()))
    write_content(
        there.with_suffix(SUFFIX),
        int(path.stem),
        content._replace(sums=content.sums._replace(batches=batches)),
        durable=False,
    )
    return there.with_suffix(SUFFIX)


@pytest.mark.parametrize("is_of_both", [True, False], ids=["both", "the-other's"])
def test_files_of_an_earlier_version_have_sums_and_no_owner(tmp_path: Path, is_of_both: bool) -> None:
    """Their log is opened without a repair, and what changed is found; whose a segment is, no file says."""
    log, stranger = two_logs(tmp_path, "a-1", TOPIC_ID)
    log._let_go()
    for directory in (stranger.directory, log.directory)[: 1 + is_of_both]:
        for path in directory.glob(f"*{SUFFIX}"):
            of_version_1(path)
    log = opened(log.directory)
    assert log.repairs == ()
    log._let_go()
    segment = segments(log.directory)[0]
    put_in_place(segment, segments(stranger.directory)[0])
    log = opened(log.directory)
    assert log.repairs == ()
    scrub(log)
    log._let_go()
    index = segment.with_suffix(".index")
    index.write_bytes(index.read_bytes()[:-1] + b"x")
    assert opened(log.directory).repairs


def test_sums_that_an_earlier_version_wrote_get_their_owner_with_the_next_snapshot(tmp_path: Path) -> None:
    log, _ = two_logs(tmp_path, "a-1", TOPIC_ID)
    path = segments(log.directory)[-1]
    of_version_1(path.with_suffix(SUFFIX))
    append(log, batch())
    log.close()
    assert read_content(path.with_suffix(SUFFIX), int(path.stem)).owner == Owner(TOPIC_ID, 0)


def test_a_copy_of_a_folder_under_another_name_is_read(tmp_path: Path) -> None:
    """A restored backup, the audit's: its name says no partition."""
    log, _ = two_logs(tmp_path, "a-1", TOPIC_ID)
    log.close()
    copytree(log.directory, tmp_path / "copy")
    assert opened(tmp_path / "copy").repairs == ()


def test_a_cleaned_segment_keeps_its_owner(tmp_path: Path) -> None:
    log, _ = two_logs(tmp_path, "a-1", TOPIC_ID)
    path = segments(log.directory)[0]
    write_swap_sums(log.directory, Offset(int(path.stem)), NOTHING)
    swapped = path.with_name(f"{path.stem}{SUFFIX}{SWAP}")
    assert read_content(swapped, int(path.stem)).owner == Owner(TOPIC_ID, 0)


def test_sums_that_are_written_again_keep_what_else_the_file_says(tmp_path: Path) -> None:
    log = a_log(tmp_path / "a-0", TOPIC_ID)
    log.close()
    path = segments(log.directory)[-1]
    before = read_content(path.with_suffix(SUFFIX), int(path.stem))
    save_sums(path, NOTHING)
    assert before.owner == Owner(TOPIC_ID, 0)
    assert before.snapshot is not None
    assert read_content(path.with_suffix(SUFFIX), int(path.stem)) == before._replace(sums=NOTHING)


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "closed"])
def test_an_older_snapshots_producers_under_the_newest_name_are_not_taken(
    tmp_path: Path, is_killed: bool
) -> None:
    """They lack what the last batches did: a repeated batch would be appended a second time."""
    log = a_log(tmp_path / "a-0", TOPIC_ID)
    log.flush()
    transactions(log, 8, 6)
    answers = everything(log)
    if is_killed:
        log.flush()
        log._let_go()
    else:
        log.close()
    older, newest = sorted(log.directory.glob("*.snapshot"))[-2:]
    assert older.read_bytes() != newest.read_bytes()
    copyfile(older, newest)
    log = opened(log.directory)
    assert [each for each in log.repairs if newest.name in each]
    assert everything(log) == answers
    log.close()
    assert opened(log.directory).repairs == ()
