"""Faults beyond the ten kinds: another outcome, a stray marker, records after the end, a cut file."""

from itertools import pairwise
from typing import Final

from fencepost.records.batch_layout import TRANSACTIONAL
from fencepost.records.transaction_log import TransactionStateRecord
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.insert import APPENDED, RENUMBERED, insert
from tests.audit.faults.producers import Plant, _batch, _entry, _has_data, _name, _planted, _until_epoch_ends
from tests.audit.faults.states import _states
from tests.audit.faults.tree import STATES, Entry, Log, edited

OFFSET_BYTES: Final = 8  # that a batch begins with
NEVER: Final = 2**15  # no epoch
_KEY_LENGTH = b"\x08"  # of a control record's key: 4, as a zigzag varint
_OPEN = {1, 2, 3}  # Ongoing, PrepareCommit, PrepareAbort


def wrong_outcome(ground: Ground) -> Planted:
    """A partition's marker says abort where the transaction was committed, or the other way round."""
    log, marker = _entry(ground, lambda log, entry: entry.is_marker and _has_data(log, entry))
    marker.raw, committed = flipped_outcome(marker)
    said = f"{_name(log)}: {_batch(marker)} says {'commit' if committed else 'abort'}"
    return _planted(ground, log, marker, "markers", {"wrong_outcome"}, said)


def flipped_outcome(marker: Entry) -> tuple[bytes, bool]:
    """The marker's batch with the other outcome, and whether that is commit."""
    key = marker.batch().records[0].key or b""
    at = marker.raw.index(_KEY_LENGTH + key, 61) + len(key)
    raw = bytearray(marker.raw)
    raw[at] ^= 1
    return edited(bytes(raw)), bool(raw[at])


def marker_of_no_producer(ground: Ground) -> Planted:
    """A marker of a producer that has no transaction on this partition; its epoch is the current one."""
    log, sample = _entry(ground, lambda _, entry: entry.is_marker)
    here = {entry.producer[0] for entry in log.entries}
    known = whole_epochs(ground)
    others = [  # what came before may have been compacted away: of an epoch of then no one knows it all
        (producer_id, now.producer_epoch)
        for producer_id, now in _now(ground).items()
        if producer_id not in here and now.status not in _OPEN and ground.is_free(log, producer_id)
        if known.get(producer_id, NEVER) <= now.producer_epoch
    ]
    producer_id, epoch = ground.choose(others)
    place = ground.choose(_until_epoch_ends(log, sample))
    ground.follow_coordinators()
    raw = edited(sample.raw, producer_id=producer_id, epoch=epoch)
    entry = insert(log, place, raw, RENUMBERED)
    said = f"{_name(log)} got {_batch(entry)}, which has no transaction there"
    return _planted(ground, log, entry, "markers", {"without_transaction"}, said)


def orphan(ground: Ground) -> Planted:
    """Records of a transaction that no coordinator knows, after the last marker of their producer."""
    now = _now(ground)

    def fits(log: Log, entry: Entry) -> bool:
        producer_id, epoch = entry.producer
        state = now.get(producer_id)
        own = [each for each in log.entries if each.producer[0] == producer_id]
        is_ended = state is not None and state.status not in _OPEN and state.producer_epoch == epoch
        return is_ended and entry is own[-1] and entry.is_marker

    log, marker = _entry(ground, fits)
    ground.follow_coordinators()
    own = [each for each in log.entries if each.is_data and each.producer == marker.producer]
    sample = own[-1] if own else next(each for each in log.entries if each.is_data)
    header = sample.header
    raw = edited(
        sample.raw,
        producer_id=marker.producer[0],
        epoch=marker.producer[1],
        sequence=header.base_sequence + header.record_count if own else 0,
        timestamp_ms=log.entries[-1].header.max_timestamp_ms + 1,
        attributes=header.attributes | TRANSACTIONAL,
    )
    entry = insert(log, marker, raw, APPENDED)
    said = f"{_name(log)} got {_batch(entry)}, after its producer's last transaction"
    return _planted(ground, log, entry, "hanging", {"orphan"}, said)


def cut_segment(ground: Ground) -> Planted:
    """A file that is not its partition's last ends in the middle of a batch."""
    logs = [log for log in ground.partitions() if len(log.segments) > 1]
    log = ground.choose(logs)
    segment = log.segments[0]
    entry = segment.entries[-1]
    if len(segment.entries) < 2 or segment.tail:
        raise NoPlace
    # What is cut within the zeros that its offset begins with is what a preallocated file ends with.
    entry.damaged = entry.raw[: ground.random.randrange(OFFSET_BYTES, len(entry.raw))]
    ground.take(log=log, entries=(entry,), in_each=False)
    said = f"{_name(log)}: {segment.path.name} ends {len(entry.damaged)} bytes into its last batch"
    return Planted(check="integrity", rules=frozenset({"torn", "unreadable"}), entries=(entry,), said=said)


def whole_epochs(ground: Ground) -> dict[int, int]:
    """Of each producer id the first epoch all of whose transactions the coordinator's logs still hold."""
    first: dict[int, int] = {}
    for log in ground.tree.of_topic(STATES):
        is_whole = log.entries[0].header.base_offset == 0 and all(
            one.header.end == other.header.base_offset for one, other in pairwise(log.entries)
        )
        for entry in log.entries:
            for record in _states(entry) if ground.is_judged(entry) else ():
                first.setdefault(record.producer_id, record.producer_epoch + (0 if is_whole else 1))
    return first


def _now(ground: Ground) -> dict[int, TransactionStateRecord]:
    """What the coordinator last said of each producer id."""
    return {
        record.producer_id: record
        for log in ground.tree.of_topic(STATES)
        for entry in log.entries
        for record in _states(entry)
    }


EXTRA: dict[str, dict[str, Plant]] = {
    "wrong outcome": {"flipped": wrong_outcome},
    "marker of no producer": {"current epoch": marker_of_no_producer},
    "hanging transaction": {"appended": orphan},
    "cut segment": {"mid-batch": cut_segment},
}
