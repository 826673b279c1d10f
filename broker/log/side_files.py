"""The files beside a log's batches that are not as they were written: the next start makes them again.

Indexes      by their sums; not those that are being made again.
Sums         by the checksum of their file.
Snapshots    of the producers by their checksum, the newest one by the last segment's sums, too.
Epochs       by the batches (epoch_check.py).
Torn         files of sums, after a crash of the machine, are no finding, for they are not flushed:
             ``checksums.torn_sums`` says them apart. Nor is the file of epochs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fencepost.broker.log.checkpoints import EPOCHS_FILE, LeaderEpochs
from fencepost.broker.log.epoch_check import difference
from fencepost.broker.log.producer_snapshot import decode_producers, snapshot_path, snapshots_in
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import changed_index
from fencepost.broker.log.sound_snapshot import from_offset, read_sound
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import MADE_AGAIN, is_torn, load_sums, sums_path
from fencepost.snapshots.reads import read_bytes


def changed_side_files(
    directory: Path, segments: Sequence[Segment], point: Offset, *, machine_went_down: bool
) -> Iterator[str]:
    """A sentence for each. ``point``: the recovery point. Raises OSError."""
    for segment in segments:
        sums = load_sums(segment.path)
        suffix = None if MADE_AGAIN in sums else changed_index(segment.path, sums)
        if suffix is not None:
            yield f"{segment.path.with_suffix(suffix).name} is not as it was written"
        if is_torn(segment.path) and not machine_went_down:
            yield f"{sums_path(segment.path).name} is not as it was written: its checksum is wrong"
    yield from _snapshots(directory, segments)
    if any(segment.size for segment in segments):
        yield from _epochs(directory, segments, point, machine_went_down=machine_went_down)


def _snapshots(directory: Path, segments: Sequence[Segment]) -> Iterator[str]:
    offsets = snapshots_in(directory)
    for offset in offsets:
        path = snapshot_path(directory, offset)
        try:
            if offset == offsets[-1]:
                read_sound(directory, offset, from_offset(segments, offset))
            else:
                decode_producers(read_bytes(path))
        except CorruptData as error:
            yield f"{path.name}: {error}"


def _epochs(
    directory: Path, segments: Sequence[Segment], point: Offset, *, machine_went_down: bool
) -> Iterator[str]:
    epochs = LeaderEpochs(directory)
    if not epochs.load():
        if not machine_went_down:
            yield f"{EPOCHS_FILE} is not there, or makes no sense"
        return
    found = difference(epochs, segments, point, machine_went_down=machine_went_down)
    if found is not None and found.is_of_the_file:
        yield f"{EPOCHS_FILE} is not as it was written: at offset {found.placed.base_offset} {found.reason}"
