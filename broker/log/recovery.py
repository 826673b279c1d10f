"""Opening a partition's log: what a crash, or a disk, left of it.

Recovery point  the offset of the newest sound producer snapshot. It is written only after everything before
                it is on the disk (durability.py), so only what follows it is read again, CRCs included.
Tail            a torn end is cut to its last whole batch. Anything else that makes no sense is damage: the
                log is not opened, and its bytes are kept (damage.py).
Indexes         are written again from the recovery point on. If one before it is missing or senseless, the
                log is read again from the snapshot before its segment.
Batches         before the recovery point, in its segment: if they are not as they were summed, so is it.
                Those of the segments before it are checked when they are read (unchecked.py).
Producers       from that snapshot and the batches after it; without a snapshot from the log's start.
Cleaned         logs lack offsets below ``cleaned_end``; what a killed cleaner decided is done first.
Killed here     at any line: the next opening finds the same or less to mend.
Source          Kafka LogLoader; docs/kafka-notes.md C5.
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID

from fencepost.broker.log import segment_sums
from fencepost.broker.log.checkpoints import LeaderEpochs, load_topic_id, save_topic_id
from fencepost.broker.log.cleaned_end import load_cleaned_end, mend_cleaned_end
from fencepost.broker.log.damage import Damage, DamagedLog, damage_at, missing, no_end_at, too_short
from fencepost.broker.log.epoch_check import difference, read_epochs
from fencepost.broker.log.foreign import owner_of, require_own
from fencepost.broker.log.producer_snapshot import decode_producers, snapshot_path, snapshots_in
from fencepost.broker.log.producer_state import Producer, ProducerStates
from fencepost.broker.log.read_ahead import ReadAhead
from fencepost.broker.log.segment import SUFFIXES, Segment, header_placed
from fencepost.broker.log.sound_snapshot import from_offset, read_sound
from fencepost.broker.log.swaps import finish_swaps
from fencepost.broker.log.unchecked import header_in_place, mark_unchecked
from fencepost.records.batch import BatchHeader, decode_batch
from fencepost.records.end_marker import end_marker
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, ProducerId
from fencepost.snapshots import checksums
from fencepost.snapshots.checksums import Owner
from fencepost.snapshots.flushes import sync_path
from fencepost.snapshots.reads import read_bytes
from fencepost.snapshots.segments import LOG_START, list_segments

_Table = dict[ProducerId, Producer]


@dataclass(slots=True)
class Recovered:
    """A log, ready to be appended to; ``segments`` has at least one."""

    directory: Path
    owner: Owner | None
    epochs: LeaderEpochs
    interval_bytes: int
    now_ms: int
    machine_went_down: bool
    epochs_known: bool = False  # there was a file of them
    cleaned_end: Offset = LOG_START  # below it a cleaner may have left offsets out
    states: ProducerStates = field(default_factory=ProducerStates)
    segments: list[Segment] = field(default_factory=list)
    snapshots: list[Offset] = field(default_factory=list)  # ascending; the last one is sound
    broken_snapshots: list[Path] = field(default_factory=list)  # newer than that one
    flushed_end: Offset = LOG_START  # by the names of all of them: what is before it was on the disk
    end: Offset = LOG_START
    durable_end: Offset = LOG_START  # the recovery point
    repairs: list[str] = field(default_factory=list)


def recover(
    directory: Path, topic_id: UUID | None, index_interval_bytes: int, now_ms: int, machine_went_down: bool
) -> Recovered:
    """Open what is in a directory. Producers whose batches are read again count as seen ``now_ms``.

    machine_went_down  since the log was written, or that is not known.
    Raises   DamagedLog: its bytes are as they were.
    """
    owner, epochs = owner_of(directory, topic_id), LeaderEpochs(directory)
    log = Recovered(directory, owner, epochs, index_interval_bytes, now_ms, machine_went_down)
    wrong = mend_cleaned_end(directory)
    log.repairs += [wrong] if wrong else []
    log.cleaned_end = load_cleaned_end(directory)
    log.repairs += finish_swaps(directory)
    _tidy(log)
    log.snapshots = snapshots_in(directory)
    log.flushed_end = max(log.snapshots, default=LOG_START)
    log.segments = [Segment(directory, segment.base) for segment in list_segments(directory)]
    require_own(log.segments, owner)
    log.epochs_known = log.epochs.load()
    if not log.epochs_known and any(segment.size for segment in log.segments):
        log.repairs.append(read_epochs(log.epochs, log.segments))
    _open_segments(log)
    log.repairs += missing(log.segments, log.durable_end, log.epochs.begins)
    log.epochs.forget_before(log.segments[0].base)
    log.epochs.save(durable=log.epochs.forget_after(log.end))
    for segment in log.segments[:-1]:
        segment.close()
    return log


def make_log(directory: Path, topic_id: UUID | None, start: Offset) -> UUID | None:
    """Make the folder of a topic's log unless it is there. Returns the topic of the one that is there now.

    start    where a new log begins: durable before the folder says whose it is.
    Raises   CorruptData: it is another topic's.
    """
    if not directory.is_dir():
        directory.mkdir(parents=True)
        sync_path(directory.parent)
    known = load_topic_id(directory)
    if known is not None or topic_id is None:
        if topic_id not in (None, known):
            raise CorruptData(f"{directory}: belongs to topic id {known}, expected {topic_id}")
        return known
    left = [Segment(directory, each.base) for each in list_segments(directory)]
    if start > LOG_START and not any(segment.size for segment in left):
        for segment in left:  # of one that was killed here
            segment.delete()
        Segment.create(directory, start)
        sync_path(directory)
    save_topic_id(directory, topic_id)
    return topic_id


def lost_segment(directory: Path) -> Damage | None:
    """The first segment of which only indexes are there; None, too, if all are gone, but for a snapshot."""
    bases = {path.stem for path in directory.glob("*.log")}
    if not bases and snapshots_in(directory):
        return None
    indexes = (path.stem for suffix in SUFFIXES[1:] for path in directory.glob(f"*{suffix}"))
    lost = min((stem for stem in indexes if stem not in bases), default=None)
    if lost is None:
        return None
    reason = "its indexes are there, its batches are not"
    return Damage(directory / f"{lost}.log", 0, 0, Offset(int(lost)), reason)


def _open_segments(log: Recovered) -> None:
    """Recover with the newest sound snapshot. Raises DamagedLog."""
    point, table = _newest_snapshot(log)
    if not log.segments:
        if log.snapshots or log.broken_snapshots or (log.epochs.begins and not log.machine_went_down):
            raise _damaged(
                log, _damage(log.directory / f"{point:020d}.log", 0, point, "the segments are gone")
            )
        log.segments = [Segment.create(log.directory, point)]
    broken = _first_senseless(log, point)
    read_from = point
    held = from_offset(log.segments, point)[0]
    is_changed = held.base < point and segment_sums.are_batches_changed(held.path)
    if is_changed:
        log.repairs.append(f"{held.path.stem}: read again, its batches are not as they were summed")
        broken = held.base if broken is None else broken
    if broken is not None:
        read_from, older = _snapshot_before(log, broken)
        log.states.restore(older)
        remade = [segment for segment in from_offset(log.segments, read_from) if segment.base < point]
        for segment in remade:
            segment_sums.begin_indexes(segment.path)
        _read_again(log, read_from, point)
        for segment in remade:
            segment.sync_indexes()  # they are believed from now on
            segment_sums.end_indexes(segment.path, segment.extent().sums)
        if is_changed:
            segment_sums.forget_batches(held.path)  # all are sound: an earlier version cut and filled it
    _check_epochs(log, point)
    log.states.restore(table)
    log.end = _read_again(log, point, None)
    log.durable_end = point
    mark_unchecked(log.segments, point, read_from)
    for segment in from_offset(log.segments, point):
        if segment_sums.changed_index(segment.path, checksums.load_sums(segment.path)):
            segment_sums.end_indexes(segment.path, segment.extent().sums)  # a lost snapshot summed more
    for path in log.broken_snapshots:  # last: until then its name says up to where the log was on the disk
        path.unlink()


def _check_epochs(log: Recovered, point: Offset) -> None:
    """The file of epochs is right, or made again from batches that are. Raises DamagedLog."""
    differ = partial(difference, log.epochs, log.segments, point, machine_went_down=log.machine_went_down)
    found = differ()
    if found is not None and found.is_of_the_file:
        log.repairs.append(read_epochs(log.epochs, log.segments))
        found = differ()
    if found is not None:
        segment, placed, reason, _ = found
        raise _damaged(log, _damage(segment.path, placed.position, placed.base_offset, reason))


def _damaged(log: Recovered, damage: Damage) -> DamagedLog:
    """Closes the files."""
    for each in log.segments:
        each.close()
    return DamagedLog(damage)


def _damage(segment: Path, position: int, offset: Offset, reason: str) -> Damage:
    size = segment.stat().st_size if segment.exists() else 0
    return Damage(segment, position, size, offset, reason)


def _tidy(log: Recovered) -> None:
    """Away with what a killed process left: half a replacement, indexes of a deleted segment.

    A segment's batches are deleted last: only a crash of the machine leaves indexes behind the last one.
    Raises   DamagedLog.
    """
    for path in log.directory.glob("*.tmp"):
        path.unlink()
    lost = lost_segment(log.directory)
    if lost is not None and not log.machine_went_down:
        raise DamagedLog(lost)
    for suffix in (*SUFFIXES[1:], checksums.SUFFIX):
        for path in log.directory.glob(f"*{suffix}"):
            if not path.with_suffix(".log").exists():
                path.unlink()


def _newest_snapshot(log: Recovered) -> tuple[Offset, _Table]:
    """The recovery point and the producers at it, from the newest sound snapshot."""
    start = log.segments[0].base if log.segments else LOG_START
    while log.snapshots:
        offset = log.snapshots[-1]
        path = snapshot_path(log.directory, offset)
        try:
            table = read_sound(log.directory, offset, from_offset(log.segments, offset))
        except CorruptData as error:
            log.broken_snapshots.append(path)
            log.snapshots.remove(offset)
            log.repairs.append(f"{path.name}: removed, {error}")
            continue
        return max(offset, start), table
    if start > LOG_START:
        log.repairs.append(f"no producer snapshot: producers without records from {start} on are forgotten")
    return start, {}


def _snapshot_before(log: Recovered, offset: Offset) -> tuple[Offset, _Table]:
    """The newest sound snapshot at or before ``offset``; without one the log's start and no producers."""
    for candidate in reversed(log.snapshots):
        if log.segments[0].base <= candidate <= offset:
            try:
                return candidate, decode_producers(read_bytes(snapshot_path(log.directory, candidate)))
            except CorruptData:
                continue
    return log.segments[0].base, {}


def _first_senseless(log: Recovered, point: Offset) -> Offset | None:
    """The base of the first segment before the recovery point with an index that cannot be."""
    for number, segment in enumerate(log.segments):
        if segment.base >= point:
            break
        is_full = number < len(log.segments) - 1
        short = too_short(segment, log.segments[number + 1].base) if is_full else None
        if short is not None:
            raise _damaged(log, short)
        reason = _senseless(segment, is_full=is_full) or _not_as_summed(segment)
        if reason is not None:
            log.repairs.append(f"{segment.path.stem}: indexes made again, {reason}")
            return segment.base
    return None


def _not_as_summed(segment: Segment) -> str | None:
    suffix = segment_sums.changed_index(segment.path, checksums.load_sums(segment.path))
    return None if suffix is None else f"{suffix} is not as it was written"


def _senseless(segment: Segment, *, is_full: bool) -> str | None:
    offsets, times, aborts = segment.offsets, segment.times, segment.aborts
    if not (offsets.is_whole() and times.is_whole() and aborts.is_whole()):
        return "one is missing or ends inside an entry"
    if is_full and segment.size and not times.count:
        return "the time index is empty"
    if offsets.last is not None and offsets.last[1] >= segment.size:
        return "one points past the segment"
    if not (offsets.is_sorted(0) and offsets.is_sorted(1) and times.is_sorted(0) and aborts.is_sorted(3)):
        return "the entries of one go back"
    return None


def _read_again(log: Recovered, first: Offset, end: Offset | None) -> Offset:
    """Read what lies from ``first`` to ``end`` into indexes, epochs and producers; a torn end is cut.

    end      None: the log's end, wherever it is, but not before any snapshot's place. Else everything before
             it is known to be on the disk.
    Returns  where it came to: ``end`` or the log's end. Raises DamagedLog.
    """
    expected, durable_end = first, log.flushed_end if end is None else end
    begin = number = len(log.segments) - len(from_offset(log.segments, first))
    while number < len(log.segments) and (end is None or expected < end):
        segment = log.segments[number]
        if number > begin and segment.base != expected:
            reason = f"it begins at offset {segment.base}, expected {expected}"
            raise _damaged(log, _damage(segment.path, 0, expected, reason))
        position = _skip_to(log, segment, max(expected, segment.base))
        segment.begin_sum(position)
        ahead = ReadAhead(segment)
        try:
            while position < segment.size and (end is None or expected < end):
                batch = ahead.batch_at(position)
                header = _take_batch(log, segment, batch, expected, is_durable=expected < durable_end)
                segment.index(header_placed(header, position), log.interval_bytes)
                segment.add_to_sum(batch[: header.size], position)
                position += header.size
                expected = header.end
        except CorruptData as error:
            _cut_torn(log, number, position, expected, error, is_durable=expected < durable_end)
            break
        number += 1
        if number < len(log.segments) and position == segment.size:
            segment.index_time()
    if expected < durable_end:
        last = log.segments[-1]
        reason = f"the log ends here, though everything before offset {durable_end} was on the disk"
        raise _damaged(log, _damage(last.path, last.size, expected, reason))
    return expected


def _cut_torn(
    log: Recovered, number: int, position: int, expected: Offset, error: CorruptData, *, is_durable: bool
) -> None:
    """Cut a torn end, and the empty segments behind it. Raises DamagedLog if it is none."""
    segment, later = log.segments[number], log.segments[number + 1 :]
    if is_durable:
        raise _damaged(log, _damage(segment.path, position, expected, f"{error}; it was on the disk once"))
    if any(each.size for each in later):
        raise _damaged(
            log, _damage(segment.path, position, expected, f"{error}; later segments have batches")
        )
    damage = damage_at(segment.path, position, expected, str(error), machine_went_down=log.machine_went_down)
    if damage is not None:
        raise _damaged(log, damage)
    log.repairs.append(f"{segment.path.name}: cut at position {position} of {segment.size}, {error}")
    segment.cut(position)
    for each in later:
        each.delete()
        log.repairs.append(f"{each.path.name}: removed, it is empty and what was before it is torn")
    del log.segments[number + 1 :]


def _skip_to(log: Recovered, segment: Segment, offset: Offset) -> int:
    """Where the batch of ``offset`` begins, or will; indexes are cut there.

    Raises   DamagedLog: no batch begins there, though everything before it was on the disk.
    """
    position = segment.cut_indexes(offset)
    if offset == segment.base:
        return 0
    end, reason = segment.base, no_end_at(offset)
    try:
        for placed in segment.walk(position):
            if placed.end > offset:
                break
            segment.index(placed, log.interval_bytes)
            position, end = placed.position + placed.size, placed.end
            if end == offset:
                return position
    except CorruptData as error:
        reason = str(error)
    raise _damaged(log, _damage(segment.path, position, end, reason))


def _take_batch(
    log: Recovered, segment: Segment, content: memoryview, expected: Offset, *, is_durable: bool
) -> BatchHeader:
    """One batch: its place, its epoch and its CRC are checked. Raises CorruptData.

    is_durable   it lies before the recovery point, so its epoch was on the disk, too.
    """
    header = header_in_place(content, 0, expected, log.cleaned_end)
    expected = header.base_offset
    due = log.epochs.at(expected)
    if header.leader_epoch < log.epochs.latest and header.leader_epoch < due:
        raise CorruptData(f"a batch of epoch {header.leader_epoch} follows {due}")
    is_written = is_durable or not log.machine_went_down
    error = log.epochs.contradicted(header.leader_epoch, expected, is_written=is_written)
    if error is not None and log.epochs_known:
        raise CorruptData(error)
    if header.producer_id >= 0 and not header.is_control:
        log.states.take(header, expected, log.now_ms)
    elif header.is_control and header.record_count:  # Kafka's cleaner leaves empty ones
        marker = end_marker(decode_batch(content)[0])
        if marker is not None:
            ended = log.states.take_marker(marker, expected, header.max_timestamp_ms, log.now_ms)
            if ended is not None and not marker.committed:
                segment.index_aborted(ended)
    log.epochs.assign(header.leader_epoch, expected, save=False)
    return header
