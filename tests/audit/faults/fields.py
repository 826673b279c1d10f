"""Further faults of one batch under a right checksum: its transactional bit, sequence, epoch, codec."""

from typing import Final

from fencepost.records.batch_layout import COMPRESSION, HEADER_BYTES, TRANSACTIONAL
from tests.audit.faults.fault import Ground, Planted
from tests.audit.faults.pairs import ANY_MARKER, _end_of, _found, _own, _transaction
from tests.audit.faults.producers import Plant, _batch, _data, _later, _name
from tests.audit.faults.tree import METADATA, STATES, Entry, edited

GZIP: Final = 1
DELTA_AT: Final = HEADER_BYTES + 3  # of a first record of less than 64 bytes, stamped as its batch
SHORT_MAX: Final = 64
ANY_OF_DATA: Final = frozenset(
    {"hanging.orphan", "hanging.late", "markers.late", "markers.not_transactional", "fencing.zombie"}
)


def transactional_bit_set(*, of_producer: bool) -> Plant:
    """Data that is in no transaction is marked as if it were; of an idempotent producer, or of none."""

    def plant(ground: Ground) -> Planted:
        ground.rely(METADATA, STATES)
        log, entry = ground.choose(
            (log, each)
            for log in ground.partitions()
            for each in log.entries[:-1]
            if not each.header.is_control and not each.header.is_transactional
            if (each.header.producer_id >= 0) == of_producer and ground.is_free(log, each.header.producer_id)
        )
        entry.raw = edited(entry.raw, attributes=entry.header.attributes | TRANSACTIONAL)
        said = f"{_name(log)}: {_batch(entry)} is marked as transactional"
        if not of_producer:
            return _found(ground, log, entry, said, "ids", {"no_producer"})
        return _found(ground, log, entry, said, "markers", {"hanging.orphan", "not_transactional"})

    return plant


def one_sequence(by: int) -> Plant:
    """One batch's first sequence is another, and those around it are as they were."""

    def plant(ground: Ground) -> Planted:
        log, entry = _data(
            ground,
            lambda log, entry: entry.header.base_sequence + by > 0 and bool(_later(log, entry)),
        )
        was = _batch(entry)
        entry.raw = edited(entry.raw, sequence=entry.header.base_sequence + by)
        said = f"{_name(log)}: {was} has the sequence {entry.header.base_sequence}"
        more = _later(log, entry)[:1]
        return _found(ground, log, entry, said, "sequences", {"gap", "duplicate"}, *more)

    return plant


def one_epoch(by: int) -> Plant:
    """One batch of a transaction has another epoch, its sequence as it was."""

    def plant(ground: Ground) -> Planted:
        log, entry = _data(
            ground,
            lambda log, entry: (
                _end_of(log, entry) is not None
                and entry.producer[1] + by >= 0
                and len(_transaction(log, entry)) > 1
            ),
        )
        was, own, end = _batch(entry), _transaction(log, entry), _end_of(log, entry)
        after = _own(log, entry)[1:]
        entry.raw = edited(entry.raw, epoch=entry.producer[1] + by)
        said = f"{_name(log)}: {was} is of epoch {entry.producer[1]}"
        rules = {f"markers.{each}" for each in (*ANY_MARKER, "epoch", "late")} | ANY_OF_DATA
        rules |= {"ahead", "regressed", "sequences.gap", "sequences.duplicate"}
        return _found(ground, log, entry, said, "epochs", rules, *own, *([end] if end else []), *after[:2])

    return plant


def codec_set(ground: Ground) -> Planted:
    """A batch that is not compressed says that it is."""
    log, entry = _data(ground, lambda _, entry: entry.header.attributes & COMPRESSION == 0)
    entry.raw = edited(entry.raw, attributes=entry.header.attributes | GZIP)
    said = f"{_name(log)}: {_batch(entry)} says codec {GZIP}, and is not compressed"
    rules = {"record", "records", "compression", "codec", "unreadable"}
    return _found(ground, log, entry, said, "integrity", rules)


def record_delta(ground: Ground) -> Planted:
    """The first record of a batch says another offset than the batch's first."""
    log, entry = _data(ground, lambda _, entry: _is_short(entry))
    raw = bytearray(entry.raw)
    raw[DELTA_AT] += 2
    entry.raw = edited(bytes(raw))
    said = f"{_name(log)}: the first record of {_batch(entry)} is at one offset more"
    return _found(ground, log, entry, said, "integrity", {"record", "records", "unreadable"})


def _is_short(entry: Entry) -> bool:
    """Whether its first record has one byte each of length, attributes, time and offset; all as due."""
    raw = entry.raw
    is_plain = entry.header.attributes & COMPRESSION == 0 and raw[HEADER_BYTES] < SHORT_MAX * 2
    return is_plain and raw[HEADER_BYTES + 1] == 0 and raw[HEADER_BYTES + 2] == 0 and raw[DELTA_AT] == 0


FIELDS: Final[dict[str, dict[str, Plant]]] = {
    "transactional bit set": {
        "of a producer": transactional_bit_set(of_producer=True),
        "of none": transactional_bit_set(of_producer=False),
    },
    "one sequence": {"ahead": one_sequence(1000), "behind": one_sequence(-1)},
    "one epoch": {"one above": one_epoch(1), "one below": one_epoch(-1)},
    "codec set": {"gzip": codec_set},
    "record's offset": {"one more": record_delta},
}
