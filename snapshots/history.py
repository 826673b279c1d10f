"""Which producer ids were given to which brokers, when, in which epoch: the audit log that KIP-730 describes.

The archives of several nodes are one log seen from several places. They are merged by offset: what one
lacks (a hole, old segments deleted, damage) another may have, and what no one has is named, never skipped
in silence. Where two have the same offset they must have the same bytes: committed records do not differ.

Invariant   items come in the order of offsets, and a Hole stands wherever offsets are missing.
Source      KIP-730; docs/design.md 3 (the archive); rows 730.10, 730.13.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from fencepost.records.batch import decode_batch
from fencepost.records.frame import decode_frame
from fencepost.records.invariant import CorruptData
from fencepost.records.schema import AllocateProducerIdsRecord
from fencepost.records.types import BrokerEpoch, BrokerId, Log, Offset, ProducerId, Term
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.segments import LOG_START, ArchiveReader, Hole, StoredBatch

ARCHIVE_FOLDER: Final = "archive"

Damaged: TypeAlias = Callable[[CorruptData | OSError], None]


class Allocation(NamedTuple):
    """A broker was given the producer ids from ``first`` up to, not including, ``end``.

    ``first`` is None if the allocation before it is in a hole: the ids then reach back to an unknown one.
    Broker -1 with epoch -1: ids that brokers took from ZooKeeper themselves (controller/migration.py).
    """

    offset: Offset
    leader_epoch: Term
    timestamp_ms: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    first: ProducerId | None
    end: ProducerId


def producer_id_history(
    directories: Sequence[Path], damaged: Damaged | None = None
) -> Iterator[Allocation | Hole]:
    """Every allocation that the archives of some nodes of one cluster hold, and what is missing.

    In       node directories (``log.dirs``), of running nodes too.
    damaged  is given what makes an archive unreadable; it is read no further, and the others go on.
    Raises   FileNotFoundError for a directory without an archive. CorruptData naming both files where two
             archives disagree; without ``damaged`` also, and OSError, for an archive that cannot be read.
    """
    readers = [reader for each in directories if (reader := _open(each, damaged)) is not None]
    sources = [_read(reader, damaged) for reader in readers]
    expected = LOG_START
    first: ProducerId | None = ProducerId(0)
    for stored in _merge(sources):
        if stored.header.base_offset > expected:
            yield Hole(expected, stored.header.base_offset)
            first = None
        expected = stored.header.end
        for allocation in _allocations(stored):
            yield allocation._replace(first=first)
            first = allocation.end
    ends = [end for reader in readers for end in (*(hole.end for hole in reader.holes), *_bases(reader))]
    known_end = max(ends, default=LOG_START)
    if known_end > expected:
        yield Hole(expected, known_end)


def _open(directory: Path, damaged: Damaged | None) -> ArchiveReader | None:
    folder = directory / ARCHIVE_FOLDER / Log.METADATA.directory
    if not folder.is_dir():
        raise FileNotFoundError(f"{directory} has no archive: {folder} is not a directory")
    try:
        return Archive.read_only(directory / ARCHIVE_FOLDER, Log.METADATA)
    except (CorruptData, OSError) as error:
        if damaged is None:
            raise
        damaged(error)
        return None


def _bases(reader: ArchiveReader) -> Iterator[Offset]:
    """Where segments begin: behind a damaged one nothing was read."""
    return (segment.base for segment in reader.segments)


def _read(reader: ArchiveReader, damaged: Damaged | None) -> Iterator[StoredBatch]:
    try:
        yield from reader.read()
    except (CorruptData, OSError) as error:
        if damaged is None:
            raise
        damaged(error)


def _merge(sources: Sequence[Iterator[StoredBatch]]) -> Iterator[StoredBatch]:
    """Each batch once, by offset. Raises CorruptData if two sources disagree."""
    heads = {number: batch for number, source in enumerate(sources) if (batch := next(source, None))}
    while heads:
        chosen = min(heads.values(), key=lambda batch: batch.header.base_offset)
        for number, batch in tuple(heads.items()):
            if batch.header.base_offset >= chosen.header.end:
                continue
            _check_same(chosen, batch)
            following = next(sources[number], None)
            if following is None:
                del heads[number]
            else:
                heads[number] = following
        yield chosen


def _check_same(one: StoredBatch, other: StoredBatch) -> None:
    if one.content != other.content:
        raise CorruptData(
            f"two archives disagree at offset {other.header.base_offset}: "
            f"{one.path}, position {one.position}, and {other.path}, position {other.position}"
        )


def _allocations(stored: StoredBatch) -> Iterator[Allocation]:
    """The allocations of one batch; ``first`` is not known here."""
    batch, _ = decode_batch(stored.content)
    if batch.is_control:
        return
    for offset, timestamp_ms, _, value, _ in batch.records:
        try:
            record = decode_frame(value or b"")
        except CorruptData as error:
            raise CorruptData(
                f"{stored.path}, position {stored.position}, offset {offset}: {error}"
            ) from error
        if isinstance(record, AllocateProducerIdsRecord):
            yield Allocation(
                offset, batch.leader_epoch, timestamp_ms, record.broker_id, record.broker_epoch, None,
                record.producer_id_end,
            )  # fmt: skip
