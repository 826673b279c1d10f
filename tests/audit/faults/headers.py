"""Faults of one batch: its offsets, counts, epochs, identity, and its records under a right checksum."""

from collections.abc import Callable
from typing import Final

from fencepost.records.batch import stamp
from fencepost.records.batch_layout import COMPRESSION, HEADER_BYTES
from fencepost.records.types import Offset, Term
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.pairs import _end_of, _found, _transaction
from tests.audit.faults.producers import Plant, _batch, _data, _later, _name
from tests.audit.faults.tree import Entry, Log, edited

ZSTD: Final = 4
NO_CODEC: Final = 7
AHEAD: Final = 300


def count(by: int) -> Plant:
    """The header counts more or fewer records than its offsets."""

    def plant(ground: Ground) -> Planted:
        log, entry = _middle(ground, lambda entry: entry.header.record_count + by > 0)
        was = entry.header.record_count
        entry.raw = edited(entry.raw, record_count=was + by)
        said = f"{_name(log)}: {_batch(entry)} counts {was + by} records, of {was}"
        rules = {"count", "integrity.count", "record", "sequences.gap", "sequences.duplicate"}
        return _found(ground, log, entry, said, "integrity", rules, *_later(log, entry)[:1])

    return plant


def last_offset(by: int) -> Plant:
    """The header's last offset is another: a hole, or offsets twice, and another count than records."""

    def plant(ground: Ground) -> Planted:
        log, entry = _middle(ground, lambda entry: entry.header.last_offset_delta + by >= 0)
        delta = entry.header.last_offset_delta
        entry.raw = edited(entry.raw, last_offset_delta=delta + by)
        said = f"{_name(log)}: {_batch(entry)} ends {by:+d} offsets from where it did"
        rules = {"count", "offsets.hole", "offsets.overlap", "offsets.used_twice", "sequences.gap", "record"}
        beside = log.neighbours(entry)
        return _found(ground, log, entry, said, "integrity", rules, *beside, *_later(log, entry)[:1])

    return plant


def leader_epoch(change: Callable[[int], int], *, rest: bool = False) -> Plant:
    """A batch says another leader epoch than those around it, in each replica; or all from it on do."""

    def plant(ground: Ground) -> Planted:
        log, entry = _middle(ground, lambda entry: entry.header.leader_epoch >= 1)
        was = entry.header.leader_epoch
        wanted = change(was)
        at = log.index(entry)
        for each in log.entries[at:] if rest else [entry]:
            each.raw = stamp(each.raw, Offset(each.header.base_offset), Term(wanted))
        said = f"{_name(log)}: {_batch(entry)} says leader epoch {wanted}, not {was}"
        rules = {
            "leader_epoch",
            "integrity.leader_epoch",
            "offsets.leader_epoch",
            "epoch_back",
            "replicas.leader_epoch",
            "integrity.leader_epochs",
        }
        return _found(ground, log, entry, said, "epochs", rules, *log.neighbours(entry))

    return plant


def epoch_ahead(ground: Ground) -> Planted:
    """Data of a producer epoch that its transactional id has never had."""
    log, entry = _data(ground, _is_last_data)
    was = _batch(entry)
    own = _transaction(log, entry)
    end = _end_of(log, entry)
    entry.raw = edited(entry.raw, epoch=entry.producer[1] + AHEAD, sequence=0)
    said = f"{_name(log)}: {was} is of epoch {entry.producer[1]}"
    rules = {
        "zombie", "ahead", "unknown", "regressed", "markers.missing", "markers.without_transaction",
        "fencing.ahead", "fencing.zombie", "markers.foreign", "hanging.orphan", "markers.epoch",
    }  # fmt: skip
    return _found(ground, log, entry, said, "epochs", rules, *own, *([end] if end else []))


def no_producer(ground: Ground) -> Planted:
    """Transactional data without a producer id."""
    log, entry = _data(ground, lambda log, entry: bool(_later(log, entry)))
    was, producer_id = _batch(entry), entry.producer[0]
    beside = [*_transaction(log, entry), *_later(log, entry)[:1]]
    entry.raw = edited(entry.raw, producer_id=-1, epoch=-1, sequence=-1)
    said = f"{_name(log)}: {was} has no producer id any more"
    ground.take(log=log, producer_id=producer_id, entries=(entry, *beside))
    return Planted(check="ids", rules=frozenset({"no_producer"}), entries=(entry,), said=said)


def negative_sequence(ground: Ground) -> Planted:
    """A batch of a producer without a sequence."""
    log, entry = _middle(ground, lambda entry: entry.is_data)
    was = _batch(entry)
    later = _later(log, entry)[:1]
    entry.raw = edited(entry.raw, sequence=-1)
    said = f"{_name(log)}: {was} has the sequence -1"
    return _found(ground, log, entry, said, "sequences", {"gap", "none", "integrity.sequence"}, *later)


def restarted(ground: Ground) -> Planted:
    """A producer counts from 0 again, in the epoch that it had."""
    log, entry = _data(ground, lambda log, entry: entry.header.base_sequence > 0)
    was = _batch(entry)
    own, by = [entry, *_later(log, entry)], entry.header.base_sequence
    for each in own:
        each.raw = edited(each.raw, sequence=each.header.base_sequence - by)
    said = f"{_name(log)}: from {was} on the sequence begins at 0 again"
    return _found(ground, log, entry, said, "sequences", {"gap", "duplicate", "restarted"}, *own)


def swapped(ground: Ground) -> Planted:
    """Two batches of one producer, one after the other, have changed places."""
    log, entry = _data(ground, lambda log, entry: _twin(log, entry) is not None)
    other = _twin(log, entry)
    if other is None:
        raise NoPlace
    said = f"{_name(log)}: {_batch(entry)} and the one at {other.header.base_offset} have changed places"
    one, two = entry.header, other.header
    entry.raw, other.raw = (
        stamp(other.raw, Offset(one.base_offset), Term(one.leader_epoch)),
        stamp(entry.raw, Offset(one.base_offset + two.last_offset_delta + 1), Term(two.leader_epoch)),
    )
    rules = {"gap", "duplicate", "exchanged"}
    return _found(ground, log, entry, said, "sequences", rules, other, *_later(log, other)[:1])


def goes_back(ground: Ground) -> Planted:
    """A batch has the offsets of the one before it."""
    firsts = {id(each.entries[0]) for log in ground.tree.logs for each in log.segments if each.entries}
    log, entry = _middle(ground, lambda entry: id(entry) not in firsts)  # a file says where it begins
    before = log.neighbours(entry)[0]
    was = _batch(entry)
    entry.raw = stamp(entry.raw, Offset(before.header.base_offset), Term(entry.header.leader_epoch))
    said = f"{_name(log)}: {was} says offset {before.header.base_offset}, as the one before"
    rules = {"overlap", "used_twice", "hole", "displaced"}
    return _found(ground, log, entry, said, "offsets", rules, *log.neighbours(entry))


def unknown_codec(ground: Ground) -> Planted:
    """A batch is compressed by a codec that there is not."""
    log, entry = _middle(ground, lambda entry: entry.is_data)
    entry.raw = edited(entry.raw, attributes=entry.header.attributes | NO_CODEC)
    said = f"{_name(log)}: {_batch(entry)} says codec {NO_CODEC}"
    return _found(ground, log, entry, said, "integrity", {"codec", "compression", "record", "attributes"})


def garbage(*, codec: int) -> Plant:
    """What stands where the records of a batch should be cannot be opened; its checksum is right."""

    def plant(ground: Ground) -> Planted:
        log, entry = _data(ground, lambda _, entry: entry.header.attributes & COMPRESSION == codec)
        body = bytes(ground.random.randrange(256) for _ in entry.raw[HEADER_BYTES:])
        entry.raw = edited(entry.raw, body=body)
        said = f"{_name(log)}: the records of {_batch(entry)} are noise"
        rules = {"record", "compression", "unreadable", "records"}
        return _found(ground, log, entry, said, "integrity", rules)

    return plant


def record_cut(ground: Ground) -> Planted:
    """The last record of an uncompressed batch ends where its file's next batch begins: bytes are missing."""
    log, entry = _data(ground, lambda _, entry: entry.header.attributes & COMPRESSION == 0)
    body = entry.raw[HEADER_BYTES:-1]
    entry.raw = edited(entry.raw, body=body)
    said = f"{_name(log)}: the records of {_batch(entry)} end a byte too soon"
    rules = {"record", "records", "unreadable"}
    return _found(ground, log, entry, said, "integrity", rules)


def _middle(ground: Ground, fits: Callable[[Entry], bool]) -> tuple[Log, Entry]:
    """Data that is neither a log's first nor its last."""
    return _data(
        ground,
        lambda log, entry: entry not in (log.entries[0], log.entries[-1]) and fits(entry),
    )


def _is_last_data(log: Log, entry: Entry) -> bool:
    own = [each for each in log.entries if each.producer[0] == entry.producer[0]]
    return len(own) > 1 and own[-1].is_marker and own[-2] is entry


def _twin(log: Log, entry: Entry) -> Entry | None:
    """The next batch of the log, if it is of the same producer and file."""
    entries = log.entries
    at = log.index(entry)
    following = entries[at + 1] if at + 1 < len(entries) else None
    is_one = following is not None and following.is_data and following.producer == entry.producer
    return following if is_one else None


HEADERS: dict[str, dict[str, Plant]] = {
    "record count": {"one more": count(1), "one fewer": count(-1)},
    "last offset": {"one more": last_offset(1), "one fewer": last_offset(-1)},
    "leader epoch": {
        "back": leader_epoch(lambda was: was - 1),
        "ahead": leader_epoch(lambda was: was + 50),
        "back to the end": leader_epoch(lambda was: was - 1, rest=True),
    },
    "epoch never given": {"data": epoch_ahead},
    "no producer": {"cleared": no_producer},
    "no sequence": {"-1": negative_sequence},
    "sequence restarted": {"same epoch": restarted},
    "batches exchanged": {"one producer": swapped},
    "offset back, in a log": {"as before": goes_back},
    "codec not known": {"7": unknown_codec},
    "noise": {"zstd": garbage(codec=ZSTD), "uncompressed": garbage(codec=0), "cut record": record_cut},
}
