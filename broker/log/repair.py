"""The repair of a damaged partition log, on demand: what a cut would lose, and the cut.

Whole log   is read, batch by batch, checksums included, also what an opening does not read again.
Cut         the bytes before the damage are kept, and nothing behind it: a log has no holes. The next start
            makes the indexes again, and reads the producers from the snapshot before the cut. Where the
            log would end before the offset up to which its records were deleted, it is empty from there on.
Put back    is a header field that alone changed, where the segment's sum proves it (put_back.py): no cut.
Holes       before the newest snapshot are no damage: a crash of the machine may undo half of a deletion.
Killed here at any line: the damage is still found, and the same cut goes on.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.broker.log.checkpoints import EPOCHS_FILE, LeaderEpochs, load_topic_id
from fencepost.broker.log.cleaned_end import load_cleaned_end, read_cleaned_end
from fencepost.broker.log.damage import Damage, damage_at, missing, no_end_at, too_short, whole_batches
from fencepost.broker.log.epoch_check import difference
from fencepost.broker.log.foreign import foreign_segment, owner_of
from fencepost.broker.log.producer_snapshot import snapshot_path, snapshots_in
from fencepost.broker.log.put_back import Changed, proven
from fencepost.broker.log.read_ahead import ReadAhead
from fencepost.broker.log.recovery import lost_segment
from fencepost.broker.log.segment import SUFFIXES, Segment
from fencepost.broker.log.segment_sums import are_batches_changed
from fencepost.broker.log.side_files import changed_side_files
from fencepost.broker.log.swaps import changed_swaps
from fencepost.broker.log.unchecked import header_in_place
from fencepost.records.batch import BatchHeader
from fencepost.records.invariant import CorruptData
from fencepost.records.named_errors import naming
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import SUFFIX as SUMS
from fencepost.snapshots.checksums import Owner, forget_sums, is_as_summed, load_sums, torn_sums
from fencepost.snapshots.flushes import sync_path
from fencepost.snapshots.segments import LOG_START, list_segments

_INDEXES: Final = SUFFIXES[1:]


@dataclass(frozen=True, slots=True)
class Lost:
    """What lies at and behind a damage: bytes, and of them the batches that are whole."""

    size: int
    batches: int
    first: Offset | None  # of the whole ones
    last: Offset | None


@dataclass(frozen=True, slots=True)
class Inspected:
    """A log as its bytes are: sound from ``start`` up to ``end``; ``torn``: the next start cuts its end."""

    directory: Path
    segments: int
    start: Offset
    end: Offset
    torn: str | None
    damage: Damage | None
    lost: Lost | None
    changed: str | None = None  # bytes that are sound, and not those that were written
    restorable: Changed | None = None  # all that is wrong with the batch at the damage
    not_compared: str | None = None  # files of sums that are torn, where a crash may have torn them


def inspect(directory: Path, *, machine_went_down: bool, deleted_before: Offset = LOG_START) -> Inspected:
    """Read a whole log, whose records before ``deleted_before`` were deleted; nothing is changed.

    Raises OSError.
    """
    segments = [Segment(directory, each.base) for each in list_segments(directory)]
    start = segments[0].base if segments else LOG_START
    point = max(snapshots_in(directory), default=start)
    epochs = _epochs(directory, segments, point, machine_went_down=machine_went_down)
    known = _Known(point, load_cleaned_end(directory), epochs, machine_went_down)
    end = start
    torn: str | None = None
    damage: Damage | None = None
    for number, segment in enumerate(segments):
        if end < segment.base <= point:
            end = segment.base
        elif segment.base != end:
            reason = f"it begins at offset {segment.base}, expected {end}"
            damage = Damage(segment.path, 0, segment.size, end, reason)
            break
        position, end, error = _read(segment, end, known)
        if error is None:
            continue
        if any(later.size for later in segments[number + 1 :]):
            damage = Damage(
                segment.path, position, segment.size, end, f"{error}; later segments have batches"
            )
        else:
            damage = damage_at(segment.path, position, end, str(error), machine_went_down=machine_went_down)
            torn = None if damage is not None else f"{segment.path.name} from position {position} on: {error}"
        break
    if damage is None and end < point:
        last = segments[-1] if segments else None
        path = directory / f"{point:020d}.log" if last is None else last.path
        reason = (
            "the segments are gone"
            if last is None
            else f"the log ends here, though everything before offset {point} was on the disk"
        )
        size = 0 if last is None else last.size
        damage = Damage(path, size, size, point if last is None else end, reason)
    if damage is None and end < deleted_before:
        path = segments[-1].path if segments else directory / f"{end:020d}.log"
        size = segments[-1].size if segments else 0
        reason = f"the log ends here, and its records before offset {deleted_before} were deleted"
        damage = Damage(path, size, size, end, reason)
    damage = _of_files(directory, segments, damage, machine_went_down=machine_went_down)
    changed = _changed(directory, segments, known, is_damaged=damage is not None)
    not_compared = torn_sums(each.path for each in segments) if machine_went_down else None
    for segment in segments:
        segment.close()
    end = end if damage is None else min(end, damage.offset)
    lost = None if damage is None else _lost(damage, segments)
    restorable = None if damage is None else proven(damage, epochs)
    return Inspected(
        directory, len(segments), start, end, torn, damage, lost, changed, restorable, not_compared
    )


def cut(damage: Damage, *, deleted_before: Offset = LOG_START) -> None:
    """Give up what lies at and behind the damage. Raises OSError."""
    directory = damage.segment.parent
    if damage.offset < deleted_before:
        _begin_again(directory, deleted_before)
        return
    for offset in snapshots_in(directory):
        if offset > damage.offset:
            snapshot_path(directory, offset).unlink()
    base = int(damage.segment.stem)
    kept_base = base if damage.position or base == damage.offset else base - 1
    for each in reversed(list_segments(directory)):
        if each.base > kept_base:
            for suffix in (*reversed(SUFFIXES), SUMS):
                each.path.with_suffix(suffix).unlink(missing_ok=True)
    if kept_base == base:
        forget_sums(damage.segment)
        if damage.segment.exists():
            with naming(damage.segment), damage.segment.open("r+b") as file:
                file.truncate(damage.position)
            sync_path(damage.segment)
            for suffix in _INDEXES:
                damage.segment.with_suffix(suffix).unlink(missing_ok=True)
        else:
            Segment.create(directory, Offset(base))
    sync_path(directory)


def _begin_again(directory: Path, start: Offset) -> None:
    for offset in snapshots_in(directory):
        snapshot_path(directory, offset).unlink()
    (directory / EPOCHS_FILE).unlink(missing_ok=True)
    for each in reversed(list_segments(directory)):
        for suffix in (*reversed(SUFFIXES), SUMS):
            each.path.with_suffix(suffix).unlink(missing_ok=True)
    Segment.create(directory, start)
    sync_path(directory)


def _of_files(
    directory: Path, segments: list[Segment], found: Damage | None, *, machine_went_down: bool
) -> Damage | None:
    """``found`` in the batches, or the first segment that is another's, gone or too short. Raises OSError."""
    foreign = foreign_segment(segments, _owner(directory))
    lost = None if machine_went_down else lost_segment(directory)
    for each in (foreign, lost):
        if each is not None and (found is None or each.offset <= found.offset):
            return each
    if found is None:
        shorter = (too_short(segment, following.base) for segment, following in pairwise(segments))
        found = next((each for each in shorter if each is not None), None)
    if found is not None or machine_went_down:
        return found
    epochs = LeaderEpochs(directory)
    if not segments and epochs.load() and epochs.begins:
        path = directory / f"{LOG_START:020d}.log"
        return Damage(path, 0, 0, LOG_START, "the segments are gone")
    return None


def _changed(directory: Path, segments: list[Segment], known: "_Known", *, is_damaged: bool) -> str | None:
    """What is sound, and not as it was written. Raises OSError."""
    changed = [segment.path.name for segment in segments if not _is_as_written(segment)]
    if changed:
        return (
            f"{', '.join(changed)}: other bytes than were written, by the file .checksums beside each. If an "
            "earlier version of fencepost cut this log ('storage repair'), it left these files as they were: "
            "remove them"
        )
    wrong = read_cleaned_end(directory).wrong
    if wrong:
        return f"{wrong}; the next start writes it again"
    swaps = changed_swaps(directory)
    if swaps:
        return swaps
    went_down = known.machine_went_down
    if not is_damaged:
        beside = changed_side_files(directory, segments, known.point, machine_went_down=went_down)
        made_again = "; ".join(f"{each}; the next start makes it again" for each in beside)
        if made_again:
            return made_again
    begins = () if known.epochs is None else known.epochs.begins
    return "; ".join(missing(segments, known.point, begins)) or None  # they are looked for in the indexes


def _owner(directory: Path) -> Owner | None:
    try:
        return owner_of(directory, load_topic_id(directory))
    except CorruptData:  # the broker mends the file, or takes the log offline for it
        return None


class _Known(NamedTuple):
    """What the files beside the segments say of the log."""

    point: Offset  # everything before it is on the disk
    cleaned_end: Offset
    epochs: LeaderEpochs | None  # None: the next start makes the file again
    machine_went_down: bool


def _epochs(
    directory: Path, segments: list[Segment], point: Offset, *, machine_went_down: bool
) -> LeaderEpochs | None:
    """As the file has them; None: the next start makes it again from the batches."""
    epochs = LeaderEpochs(directory)
    if not segments or not epochs.load():
        return None
    found = difference(epochs, segments, point, machine_went_down=machine_went_down)
    return None if found is not None and found.is_of_the_file else epochs


def _read(segment: Segment, expected: Offset, known: _Known) -> tuple[int, Offset, CorruptData | None]:
    """How far the segment is sound: position, the offset that follows, and what is wrong there."""
    ahead, position, epoch = ReadAhead(segment), 0, Term(-1)
    try:
        while position < segment.size:
            header = header_in_place(ahead.batch_at(position), 0, expected, known.cleaned_end)
            if _begins_behind(known.point, expected, header, segment):
                raise CorruptData(no_end_at(known.point))
            if header.leader_epoch < epoch:
                raise CorruptData(f"a batch of epoch {header.leader_epoch} follows {epoch}")
            epoch = header.leader_epoch
            if known.epochs is not None:
                is_written = header.base_offset < known.point or not known.machine_went_down
                why = known.epochs.contradicted(epoch, header.base_offset, is_written=is_written)
                if why is not None:
                    raise CorruptData(why)
            position += header.size
            expected = header.end
    except CorruptData as error:
        return position, expected, error
    return position, expected, None


def _begins_behind(point: Offset, expected: Offset, header: BatchHeader, segment: Segment) -> bool:
    """The recovery point lies before the batch, or in it where that is not as it was summed."""
    if not expected < point < header.end:
        return False
    return point <= header.base_offset or are_batches_changed(segment.path)


def _is_as_written(segment: Segment) -> bool:
    """As far as it was summed. What no batch's own checksum covers: offsets, lengths, leader epochs."""
    return is_as_summed(segment.path, load_sums(segment.path).batches)


def _lost(damage: Damage, segments: list[Segment]) -> Lost:
    """What a cut at the damage gives up."""
    base = int(damage.segment.stem)
    size = max(0, damage.size - damage.position)
    behind = [] if not damage.segment.exists() else [(damage.segment, damage.position)]
    for later in segments:
        if later.base > base:
            size += later.size
            behind.append((later.path, 0))
    found = [each for path, position in behind for each in whole_batches(path, position, damage.offset)]
    first = found[0][0] if found else None
    last = Offset(found[-1][1] - 1) if found else None
    return Lost(size, len(found), first, last)
