"""A field of a batch's header, which the batch's own checksum does not cover, put back if it alone changed.

Proof    with the field as it must have been, the batch is sound, and the segment has the sum that was saved
         (segment_sums.py): another value has it once in 2^32 times. Without a sum nothing is proven.
Must     have been: the offset at which the batch before it ends; a leader epoch of the file of epochs or of a
         neighbour; a length up to the next whole batch, or to the end; format 2; the checksum of the rest.
One      field of one batch. Of two that changed in a segment nothing is proven.
Killed   while it is written: the same is proven again, or there is nothing to do.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from fencepost.broker.log.checkpoints import LeaderEpochs
from fencepost.broker.log.damage import Damage
from fencepost.broker.log.segment import Segment
from fencepost.records.batch import BATCH_BYTES_MAX, checked_header
from fencepost.records.batch_layout import (
    AT,
    CHECKED_AT,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LENGTH_COUNTS_FROM,
    MAGIC,
    field,
    size_at,
)
from fencepost.records.invariant import CorruptData
from fencepost.records.named_errors import naming
from fencepost.records.types import Offset
from fencepost.records.whole_batches import first_whole
from fencepost.snapshots.checksums import load_sums
from fencepost.snapshots.file_sums import NOT_SUMMED, read_sum

_LEADER_EPOCH: Final = field("leader_epoch")


class Changed(NamedTuple):
    """A field of the batch at ``position`` that is not as it was written."""

    segment: Path
    position: int
    field: str
    found: int
    written: int


def proven(damage: Damage, epochs: LeaderEpochs | None) -> Changed | None:
    """The field that alone changed where the damage is; None: none is proven to. Raises OSError."""
    path, position = damage.segment, damage.position
    known = load_sums(path).batches
    if not path.exists() or known.size < position + HEADER_BYTES or path.stat().st_size < known.size:
        return None
    before = read_sum(path, NOT_SUMMED, position)
    with naming(path), path.open("rb") as file:
        file.seek(position)
        raw = file.read(BATCH_BYTES_MAX)
    for name, value in _as_it_must_have_been(damage, raw, epochs):
        layout = field(name)
        if layout.unpack_from(raw, AT[name])[0] == value:
            continue  # it is as it was written: something else is wrong, such as whose segment it is
        batch = bytearray(raw)
        layout.pack_into(batch, AT[name], value)
        if not _is_sound(batch, damage.offset):
            continue
        mended = before.followed_by(batch[: known.size - position])
        if read_sum(path, mended, known.size) == known:
            return Changed(path, position, name, layout.unpack_from(raw, AT[name])[0], value)
    return None


def put_back(changed: Changed) -> None:
    """Write the field as it was written, durably. Raises OSError."""
    with naming(changed.segment), changed.segment.open("r+b", buffering=0) as file:
        file.seek(changed.position + AT[changed.field])
        file.write(field(changed.field).pack(changed.written))
        os.fsync(file.fileno())


def _is_sound(batch: bytearray, expected: Offset) -> bool:
    try:
        return checked_header(batch).base_offset == expected
    except CorruptData:
        return False


def _as_it_must_have_been(
    damage: Damage, raw: bytes, epochs: LeaderEpochs | None
) -> Iterator[tuple[str, int]]:
    """Names of fields, and a value of each."""
    yield "base_offset", damage.offset
    for epoch in sorted(_epochs_near(damage, raw, epochs)):
        yield "leader_epoch", epoch
    yield "magic", MAGIC
    end = size_at(raw, 0)
    if HEADER_BYTES <= end <= len(raw):
        yield "crc", crc32c(memoryview(raw)[CHECKED_AT:end])
    yield "length", _next_begins(damage) - damage.position - LENGTH_COUNTS_FROM


def _epochs_near(damage: Damage, raw: bytes, epochs: LeaderEpochs | None) -> set[int]:
    """Of the file of epochs, and of the batches before it and behind it."""
    found: set[int] = set() if epochs is None else {epochs.at(damage.offset)}
    segment = Segment(damage.segment.parent, Offset(int(damage.segment.stem)))
    try:
        for placed in segment.walk(segment.floor(damage.offset)):
            if placed.position >= damage.position:
                break
            found.add(placed.leader_epoch)
    except (CorruptData, struct.error):
        pass  # an index that leads nowhere, too: the next start makes it again
    finally:
        segment.close()
    end = size_at(raw, 0)
    if 0 < end <= len(raw) - HEADER_BYTES:
        found.add(_LEADER_EPOCH.unpack_from(raw, end + LEADER_EPOCH_AT)[0])
    return found


def _next_begins(damage: Damage) -> int:
    """Where the next whole batch of the segment begins; its end without one."""
    with damage.segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = first_whole(content, damage.position + 1, damage.offset)
        return len(content) if found is None else found[0]
