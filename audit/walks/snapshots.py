"""Producer snapshots (.snapshot) held against the batches before them: epoch, sequence, who is not in them.

Epoch       of an entry is the highest that its producer had written. In a compacted log it may be higher.
Sequence    of an entry is that of the batch that ends at the entry's last offset, the last of its producer.
Coordinator epoch of an entry is that of the producer's last marker; none, if the copy no longer has that one
            and its broker was started again.
Twice       no producer is in a snapshot.
Lost        a producer that wrote before the snapshot and is not in it. Brokers forget producers, the one that
            wrote longest ago first: it is lost if one that wrote earlier and has nothing open is there.
Cleaned     of what the log cleaner has left one batch is held against an entry: that which ends at the
            entry's last offset, where the copy still has it. It is that producer's, of no later epoch, and
            its last sequence is the entry's: a cleaner changes none of that.
Unheard of  a producer whose last offset the copy holds, by its entry, and of which it has nothing.
Not judged  otherwise producers of which the copy itself holds nothing before the snapshot, or what the log
            cleaner has left: a broker that fetched that, or was started over it, knows no more; what comes
            after a batch that is missing, cannot be read, or is not known to be committed.
Memory      one small row for each producer id of a log.
Source      Kafka ProducerStateManager.takeSnapshot, removeExpiredProducers; broker/log/producer_snapshot.py.
"""

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.audit.walks.columns import (
    FLAG_COMPACTED,
    FLAG_DISPLACED,
    FLAG_HOLE,
    FLAG_OPAQUE,
    FLAG_UNCOMMITTED,
    FOUND,
    SNAPSHOTS_SOURCE,
)
from fencepost.audit.walks.found import Found, batch_of, found, producer_name
from fencepost.audit.walks.producer import SEQUENCES
from fencepost.audit.walks.walk import Batches, Walk, by_key

_ENTRY: Final = 0  # rank; a batch is 1
_NONE: Final = -1
_ODD: Final = FLAG_OPAQUE | FLAG_DISPLACED | FLAG_HOLE | FLAG_UNCOMMITTED
_READ: Final = (
    "at",
    "last_offset",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "coordinator_epoch",
    "control_type",
    "timestamp_ms",
    "flags",
)


class _Last(NamedTuple):
    """A producer after the batches so far."""

    epoch: int
    offset: int  # of its last batch, a marker included
    timestamp_ms: int
    data_last: int  # the last offset of its last batch that has a sequence, and that sequence
    sequence: int
    coordinator_epoch: int  # of its last marker; -1: none
    marker_offset: int  # of that one


def run(batches: Batches) -> Batches:
    """FOUND of SNAPSHOTS_SOURCE."""
    for key, pieces in by_key(batches, SNAPSHOTS.keys):
        log = _Log(key)
        for piece in pieces:
            log.look(piece)
        yield from batch_of(log.end(), FOUND)


class _Log:
    def __init__(self, key: tuple[Any, ...]) -> None:
        self._where = {"topic": key[0], "partition": key[1]}
        self._producers: dict[int, _Last] = {}
        self._is_sure, self._is_compacted = True, False
        self._entries: list[Found] = []  # of one offset
        self._found: list[Found] = []

    def look(self, rows: pa.RecordBatch) -> None:
        """The next rows, entries and batches."""
        ranks = rows.column("rank").to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(ranks)) + 1).tolist(), len(ranks)]
        for start, end in pairwise(edges):
            piece = rows.slice(start, end - start)
            if ranks[start] == _ENTRY:
                self._take(piece.to_pylist())
            else:
                self._judge()
                self._advance(piece)

    def end(self) -> list[Found]:
        """What was found; nothing follows."""
        self._judge()
        return self._found

    def _take(self, entries: list[Found]) -> None:
        for offset, same in groupby(entries, key=lambda each: int(each["at"])):
            if self._entries and self._entries[0]["at"] != offset:
                self._judge()
            self._entries += same

    def _advance(self, rows: pa.RecordBatch) -> None:
        columns = {name: rows.column(name).fill_null(-1).to_numpy().astype(np.int64) for name in _READ}
        self._is_sure &= not bool((columns["flags"] & _ODD).any())
        self._is_compacted |= bool((columns["flags"] & FLAG_COMPACTED).any())
        if not self._is_sure:
            return
        ids = columns["producer_id"]
        for producer_id in np.unique(ids).tolist():
            own = np.flatnonzero(ids == producer_id)
            last = int(own[-1])
            data = own[(columns["base_sequence"][own] >= 0) & (columns["control_type"][own] < 0)]
            before = self._producers.get(producer_id)
            ends, sequence = (before.data_last, before.sequence) if before else (-1, -1)
            led, led_at = (before.coordinator_epoch, before.marker_offset) if before else (-1, -1)
            markers = own[columns["control_type"][own] >= 0]
            if len(markers):
                led = int(columns["coordinator_epoch"][markers[-1]])
                led_at = int(columns["at"][markers[-1]])
            if len(data):
                at = int(data[-1])
                ends = int(columns["last_offset"][at])
                sequence = int(columns["base_sequence"][at] + ends - columns["at"][at]) % SEQUENCES
            epoch = max(int(columns["producer_epoch"][own].max()), before.epoch if before else -1)
            self._producers[producer_id] = _Last(
                epoch,
                int(columns["at"][last]),
                int(columns["timestamp_ms"][last]),
                ends,
                sequence,
                led,
                led_at,
            )

    def _judge(self) -> None:
        """The snapshots of one offset: each copy may have one."""
        entries, self._entries = self._entries, []
        if not self._is_sure:
            return
        for _, rows in groupby(entries, key=lambda each: str(each["path"])):
            self._found += self._snapshot(list(rows))

    def _snapshot(self, entries: list[Found]) -> Iterator[Found]:
        for entry in entries:
            last = self._producers.get(entry["producer_id"])
            if last is not None and _is_seen(entry, last):
                said = self._differs(entry, last)
            else:
                said = _contradicts(entry) or self._unheard_of(entry)
            if said is not None:
                yield self._of(entry, said)
        named = {entry["producer_id"] for entry in entries}
        for twice in {each for each in named if sum(entry["producer_id"] == each for entry in entries) > 1}:
            again = [entry for entry in entries if entry["producer_id"] == twice][-1]
            yield self._of(again, f"it has producer {twice} twice")
        oldest_ms = min(
            (int(entry["timestamp_ms"]) for entry in entries if entry["first_offset"] < 0), default=None
        )
        if oldest_ms is None:
            return
        for producer_id, last in self._producers.items():
            is_missing = producer_id not in named and _is_seen(entries[0], last)
            if is_missing and last.timestamp_ms > oldest_ms:
                said = f"it lacks producer {producer_id}, which wrote at offset {last.offset}, and has one"
                said += " that wrote earlier"
                lost = {"producer_id": producer_id, "producer_epoch": last.epoch, "position": None}
                yield self._of({**entries[0], **lost}, said)

    def _differs(self, entry: Found, last: _Last) -> str | None:
        epoch, sequence = entry["producer_epoch"], entry["last_sequence"]
        if epoch < last.epoch or (epoch > last.epoch and not self._is_compacted):
            return f"it says epoch {epoch}, the log had epoch {last.epoch} before"
        if entry["last_offset"] == last.data_last >= 0 and sequence != last.sequence:
            return f"it says sequence {sequence} at offset {last.data_last}, in the log it is {last.sequence}"
        if entry["last_offset"] >= 0 <= last.data_last != entry["last_offset"] and not self._is_compacted:
            return f"it says last offset {entry['last_offset']}, in the log it is {last.data_last}"
        led = entry["coordinator_epoch"]
        is_known = last.coordinator_epoch >= 0 or (entry["copy_first"] == 0 and not self._is_compacted)
        if led == _NONE and last.marker_offset < (entry["copy_first"] or 0):
            return None  # its broker was started over what the copy holds
        if led is not None and last.coordinator_epoch != led and is_known:
            if not self._is_compacted or led < last.coordinator_epoch:
                return f"it says coordinator epoch {led}, its last marker has {last.coordinator_epoch}"
        return None

    def _unheard_of(self, entry: Found) -> str | None:
        """An entry that names an offset at which its producer wrote, where the copy has nothing of it."""
        last, first = entry["last_offset"], entry["copy_first"] or 0
        if self._is_compacted or not first <= last:
            return None
        return f"it says last offset {last}, and its log from offset {first} on has nothing of this producer"

    def _of(self, entry: Found, said: str) -> Found:
        name = producer_name(entry["producer_id"], entry["producer_epoch"])
        place = {name: entry[name] for name in ("node", "path", "position", "producer_id", "producer_epoch")}
        return found("integrity", "snapshot", said, subject=name, offset=entry["at"], **self._where | place)


def _contradicts(entry: Found) -> str | None:
    """How an entry that a cleaner was near differs from the one batch that it names, if that is left."""
    owner, epoch = entry["held_producer_id"], entry["held_epoch"]
    if owner is None:
        return None
    last = entry["last_offset"]
    if owner != entry["producer_id"]:
        of = f"producer {owner}'s" if owner >= 0 else "no producer's data"
        return f"it says last offset {last}, and the batch that ends there is {of}"
    if entry["producer_epoch"] < epoch:
        return f"it says epoch {entry['producer_epoch']}, its batch at offset {last} has epoch {epoch}"
    sequence = (entry["held_sequence"] + last - entry["held_offset"]) % SEQUENCES
    if entry["last_sequence"] != sequence:
        return f"it says sequence {entry['last_sequence']} at offset {last}, in the log it is {sequence}"
    return None


def _is_seen(entry: Found, last: _Last) -> bool:
    """Whether the copy of the entry holds the producer's last batch, and no cleaner was there."""
    return last.offset >= (entry["copy_first"] or 0)


SNAPSHOTS: Final = Walk("snapshots", ("topic", "partition"), ("at", "rank", "path", "position"),
                        SNAPSHOTS_SOURCE, FOUND, run)  # fmt: skip
