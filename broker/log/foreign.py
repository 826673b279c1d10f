"""Segments of another partition: sound, with their indexes and sums, in the place of a log's own.

Found     by what the file of sums says of its owner, where the batches are as they were summed in it. A file
          of sums alone that is another's says nothing: the batches do not fit it.
Unknown   the owner of a segment whose file was written by an earlier version, or is not there; and that of a
          folder whose name has no partition, as of a copy.
Source    none: no file of a partition's folder but ``partition.metadata`` says whose it is, in Kafka.
"""

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from fencepost.broker.log.damage import Damage, DamagedLog
from fencepost.broker.log.segment import Segment
from fencepost.snapshots.checksums import Owner, is_as_summed, read_content, sums_path
from fencepost.snapshots.file_sums import NOT_SUMMED


def owner_of(directory: Path, topic_id: UUID | None) -> Owner | None:
    """Of a folder ``<topic>-<partition>``; None: it is not known."""
    partition = directory.name.rpartition("-")[2]
    if topic_id is None or not (partition.isascii() and partition.isdigit()):
        return None
    return Owner(topic_id, int(partition))


def foreign_segment(segments: Iterable[Segment], owner: Owner | None) -> Damage | None:
    """The first segment that is another partition's. Raises OSError."""
    for segment in segments if owner is not None else ():
        said = read_content(sums_path(segment.path), segment.base)
        if said.owner is None or said.owner == owner or said.sums.batches == NOT_SUMMED:
            continue
        if is_as_summed(segment.path, said.sums.batches):
            reason = f"it is another partition's, {said.owner}, by {sums_path(segment.path).name}"
            return Damage(segment.path, 0, segment.size, segment.base, reason)
    return None


def require_own(segments: Iterable[Segment], owner: Owner | None) -> None:
    """Raises DamagedLog, OSError."""
    damage = foreign_segment(segments, owner)
    if damage is not None:
        raise DamagedLog(damage)
